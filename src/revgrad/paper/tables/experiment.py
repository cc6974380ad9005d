"""One cell of a table of the paper, as data: what is trained on what, and what was published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from revgrad.schedules import Schedule


@dataclass(frozen=True)
class Published:
    """A number as the paper prints it: its value, standard deviation, share of the gap covered."""

    value: float
    sd: float | None = None
    gap: float | None = None


@dataclass(frozen=True)
class Experiment:
    """A cell: two domains, a network, and the methods that are compared, in the table's order.

    Attributes
    ----------
    cell
        its name, as records have it: "mnist->mnist-m"
    network
        a name of `NETWORKS`; with a backbone, what the domains are seen through comes first
    size
        of the images, in pixels, as the network takes them
    native
        as they come: what a recipe with a network of its own trains on; None: the same
    published
        method → number, where the paper has one
    measure
        what the table shows: accuracy, or error = 1 − accuracy
    labelled
        random target images whose labels are known (semi-supervised)
    others
        whether the other target images take part, unlabelled
    backbone
        pretrained features, of `BACKBONES`, computed once an image
    fine_tuned
        whether pretrained weights are trained on, by Saenko's protocol: few labelled
        source images a class (their number by the source's name), the whole target
    whole_source
        whether every source image is labelled but a held-out fifth; with a backbone, each
        method's weight is then chosen by a label-free score
    weights
        the file of them, once the user has named it
    seeds
        of the runs, unless said otherwise
    note
        what a reader of the table must know
    source, target, test
        texts for `open_domain`; the target's labels are hidden from every method but those
        whose name says that they see them, and the test is read once, at the end
    learning_rate
        of the plain methods where it is not the paper's usual one
    max_gradient_norm
        limit of the gradients' norm in plain reversal where it would not stay finite
    """

    table: str
    cell: str
    source: str
    target: str
    test: str
    network: str
    size: int
    methods: tuple[str, ...]
    published: Mapping[str, Published] = field(default_factory=dict)
    learning_rate: Schedule | None = None
    max_gradient_norm: float | None = None
    measure: Literal["accuracy", "error"] = "accuracy"
    labelled: int = 0
    others: bool = True
    backbone: str | None = None
    native: int | None = None
    fine_tuned: bool = False
    whole_source: bool = False
    weights: str | None = None
    seeds: tuple[int, ...] = (0, 1, 2)
    note: str = ""


#: What the tables call each method.
METHOD_TITLES: dict[str, str] = {
    "source-only": "source only",
    "subspace-alignment": "subspace alignment",
    "subspace-alignment-oracle": "subspace alignment, oracle components",
    "adversarial": "DANN, as printed",
    "stabilised": "DANN, stabilised",
    "recommended": "recommended",
    "recommended-colours": "recommended, random colours",
    "adversarial-consistency": "recommended",
    "train-on-target": "train on target",
    "real-only": "real data only",
    "synthetic-only": "synthetic data only",
    "both": "both, DANN",
    "geodesic-flow": "GFK(PLS,PCA)",
    "nbnn": "DA-NBNN",
    "interpolating-path": "DLID",
    "bottleneck-only": "source only, with the bottleneck",
    "kernel-matching": "DaNN (MMD)",
    "mean-matching": "DDC",
    "kernel-matching-centred": "DaNN (MMD), own means",
    "mean-matching-centred": "DDC, own means",
    "bottleneck-only-centred": "source only, with the bottleneck, own means",
    "adversarial-centred": "DANN, as printed, own means",
    "stabilised-centred": "DANN, stabilised, own means",
    "cdan": "CDAN",
    "cdan-centred": "CDAN, own means",
    "mcc": "MCC",
    "mcc-centred": "MCC, own means",
    "dann-mcc": "DANN and MCC",
    "dann-mcc-centred": "DANN and MCC, own means",
    "mdd": "MDD",
    "coral": "deep CORAL",
    "auto": "recipe auto",
}
