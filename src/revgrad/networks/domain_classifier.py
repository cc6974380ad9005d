"""The domain classifier G_d of the paper's appendix B: from features to logits of the domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from revgrad.errors import InputError, unknown
from revgrad.networks.initialisation import initialise
from revgrad.networks.rectified import LinearReLU
from revgrad.networks.sizes import require_positive

#: Hidden widths where nothing else is said: the paper's for all but its smallest network.
DOMAIN_CLASSIFIER = (1024, 1024)

#: How each sample's features are normalised in front of the domain classifier.
Normalisation = Literal["none", "rms", "layer"]
NORMALISATIONS: tuple[Normalisation, ...] = ("none", "rms", "layer")
#: Keeps a sample whose features are all zero where it is.
EPSILON = 1e-5


def normalised(features: Tensor, how: Normalisation) -> Tensor:
    """(n, d) features, each sample by itself; without parameters.

    - `rms`: divided by the root of their mean square
    - `layer`: their mean subtracted, then divided by the root of their variance (layer norm)

    L_d has no bound for features that may grow: a domain classifier is fooled, and its loss raised,
    by their size alone. Of normalised features only the direction counts, and what is reversed is
    at right angles to them: it turns features and never makes them longer.
    """
    if how == "none":
        return features
    if how == "rms":
        return F.rms_norm(features, features.shape[1:], eps=EPSILON)
    if how == "layer":
        return F.layer_norm(features, features.shape[1:], eps=EPSILON)
    raise unknown("normalisation", how, NORMALISATIONS)


class DomainClassifier(nn.Module):
    """(n, …) features → (n,) logits of "target", or (n, domains) logits for more than two domains.

    Whatever shape the features of a sample have, they are flattened to `features` numbers. The
    layers are named as in the figures: fc1_d, fc2_d, … There is no sigmoid or softmax at the end:
    the loss has it, and a softmax over a single unit would be constant, its gradient exactly zero.

    Parameters
    ----------
    features
        numbers of a sample
    hidden
        widths of the hidden layers
    domains
        to be told apart; two have one logit
    seed
        of the initial weights; None: PyTorch's own
    normalise
        what is done to each sample's features first (`normalised`)

    Examples
    --------
    >>> revgrad.DomainClassifier(features=8, hidden=(32,))(torch.zeros(5, 8)).shape
    torch.Size([5])
    """

    def __init__(
        self,
        features: int,
        hidden: Sequence[int] = (1024, 1024),
        domains: int = 2,
        seed: int | None = 0,
        normalise: Normalisation = "none",
    ) -> None:
        super().__init__()
        if normalise not in NORMALISATIONS:
            raise unknown("normalisation", normalise, NORMALISATIONS)
        require_positive(features=features)
        for units in hidden:
            require_positive(**{"units of a hidden layer": units})
        if domains < 2:
            raise InputError(f"a domain classifier tells at least 2 domains apart, got {domains}")
        self.features = features
        self.hidden = tuple(hidden)
        self.domains = domains
        self.normalise = normalise
        widths = [features, *hidden]
        for number, (width, units) in enumerate(zip(widths, hidden, strict=False), start=1):
            self.add_module(f"fc{number}_d", LinearReLU(width, units))
        outputs = 1 if domains == 2 else domains
        self.add_module(f"fc{len(widths)}_d", nn.Linear(widths[-1], outputs))
        if seed is not None:
            initialise(self, seed)

    def forward(self, features: Tensor) -> Tensor:
        x = features.flatten(1)
        if x.shape[1] != self.features:
            raise InputError(
                f"this domain classifier was built for {self.features} features a sample; "
                f"{x.shape[1]} came (shape {tuple(features.shape)})"
            )
        if self.normalise != "none":
            x = normalised(x, self.normalise)
        for layer in self.children():
            x = layer(x)
        return x.squeeze(1) if self.domains == 2 else x
