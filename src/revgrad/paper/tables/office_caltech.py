"""Methods beyond the paper on Office-Caltech10: all pairs of its domains, frozen features; and two
pairs with the whole network fine-tuned.

Every source image is labelled but a fifth that is held out; the whole target takes part unlabelled.
Features are EfficientNet-lite0's, computed once an image; each method trains the same head on them.
The weight of its adaptation is chosen among a few by a label-free score, and beside it stands what
the best choice by target labels would have had: the price of not knowing.

Fine-tuned, on small images and in few steps, no weight is chosen: λ rises to 1, as published.
"""

from __future__ import annotations

from revgrad.paper.data.office import OFFICE_CALTECH10
from revgrad.paper.tables.experiment import Experiment

CHOSEN_METHODS = (
    "source-only",
    "adversarial",
    "cdan",
    "mcc",
    "mdd",
    "mean-matching",
    "kernel-matching",
    "coral",
    "adversarial-consistency",
    "auto",
)

OFFICE_CALTECH = tuple(
    Experiment(
        table="office-caltech",
        cell=f"{source}->{target}:whole-source",
        source=f"office-caltech10:{source}",
        target=f"office-caltech10:{target}",
        test=f"office-caltech10:{target}",
        network="bottleneck",
        size=224,
        methods=CHOSEN_METHODS,
        backbone="efficientnet-lite0",
        whole_source=True,
        note="frozen EfficientNet-lite0 features, one head for all methods; every source image "
        "labelled, a fifth held out; transductive: the whole target takes part unlabelled; each "
        "method's weight chosen by the score mutual-information, by target labels for the oracle",
    )
    for source in OFFICE_CALTECH10
    for target in OFFICE_CALTECH10
    if source != target
)

FINE_TUNED = tuple(
    Experiment(
        table="office-caltech",
        cell=f"{source}->{target}:fine-tuned",
        source=f"office-caltech10:{source}",
        target=f"office-caltech10:{target}",
        test=f"office-caltech10:{target}",
        network="efficientnet-lite0",
        size=96,
        methods=("source-only", "adversarial", "mcc"),
        whole_source=True,
        note="EfficientNet-lite0 fine-tuned on images of 96×96 pixels; every source image labelled "
        "but a fifth; transductive: the whole target takes part unlabelled; λ rises to 1",
    )
    for source, target in (("amazon", "webcam"), ("webcam", "amazon"))
)
