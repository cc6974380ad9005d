"""A domain classifier rich enough for the theory of §3.3: the XOR of two label predictors.

The bound by the HΔH-distance needs a G_d that contains the symmetric difference of any two label
predictors, {h ⊕ g}. Two replicas of the label predictor, side by side, and a perceptron that can
learn XOR on what they say, do.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

from revgrad.errors import InputError
from revgrad.networks.initialisation import initialise
from revgrad.networks.rectified import LinearReLU
from revgrad.networks.sizes import require_positive


class XorDomainClassifier(nn.Module):
    """(n, …) features, as the label predictor takes them → (n,) logits of "target".

    Parameters
    ----------
    label_predictor
        any module from features to (n, …) outputs, a `torch.fx.GraphModule` too; it
        is copied twice, never changed, and the copies are initialised differently
        (frozen parameters are trained in the copies)
    features_example
        of one or more samples: their shape, device and dtype are the ones used
    hidden
        units between the outputs of the replicas, concatenated, and the logit
    """

    def __init__(
        self,
        label_predictor: nn.Module,
        features_example: Tensor,
        hidden: int = 100,
        seed: int = 0,
    ) -> None:
        super().__init__()
        require_positive(hidden=hidden)
        with torch.no_grad():
            outputs = deepcopy(label_predictor).eval()(features_example.clone())
        if not isinstance(outputs, Tensor) or outputs.dim() < 2:
            came = f"shape {tuple(outputs.shape)}" if isinstance(outputs, Tensor) else type(outputs)
            raise InputError(
                "the XOR domain classifier needs a label predictor whose output is one tensor "
                f"(n, …), got {came}"
            )
        self.features_shape = tuple(features_example.shape[1:])
        self.first = _replica(label_predictor)
        self.second = _replica(label_predictor)
        width = 2 * outputs[0].numel()
        self.fc1_d = LinearReLU(width, hidden, device=outputs.device, dtype=outputs.dtype)
        self.fc2_d = nn.Linear(hidden, 1, device=outputs.device, dtype=outputs.dtype)
        # The replicas are visited one after the other by one generator: they differ. A replica's
        # last layer is not the last of the whole, so it gets the gain of the others.
        initialise(self, seed)

    def forward(self, features: Tensor) -> Tensor:
        if tuple(features.shape[1:]) != self.features_shape:
            raise InputError(
                f"this domain classifier was built for features of shape (n, "
                f"{', '.join(map(str, self.features_shape))}); {tuple(features.shape)} came"
            )
        # Copies, as a replica's first layer may work in place on what the other still needs.
        first = self.first(features.clone()).flatten(1)
        second = self.second(features.clone()).flatten(1)
        x = self.fc1_d(torch.cat([first, second], dim=1))
        logits: Tensor = self.fc2_d(x)
        return logits.squeeze(1)


def _replica(label_predictor: nn.Module) -> nn.Module:
    """A copy that shares nothing, with all its parameters trained."""
    replica = deepcopy(label_predictor).requires_grad_(True)
    replica.zero_grad(set_to_none=True)
    return replica
