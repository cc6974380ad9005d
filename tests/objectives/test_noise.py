"""Noise of a share of each feature's deviation."""

from __future__ import annotations

import pytest
import torch

from revgrad.errors import InputError
from revgrad.objectives import Noise


@pytest.mark.parametrize("shape", [(4000, 3), (400, 3, 10)])
def test_each_feature_s_noise_is_a_share_of_its_deviation(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    scale = torch.tensor([1e-3, 1.0, 1e4], dtype=torch.float64)
    scale = scale.view(1, 3, *[1] * (len(shape) - 2))
    x = 7 * scale + scale * torch.randn(shape, dtype=torch.float64)
    added = Noise(0.2)(x) - x
    over = [axis for axis in range(len(shape)) if axis != 1]
    share = added.std(over) / x.std(over)
    torch.testing.assert_close(share, torch.full_like(share, 0.2), rtol=0.05, atol=0)
    assert torch.equal(Noise(0.0)(x), x)


def test_refusals() -> None:
    with pytest.raises(InputError, match="share must be a number"):
        Noise(-1.0)
    with pytest.raises(InputError, match="Noise changes floats"):
        Noise()(torch.zeros(3, 2, dtype=torch.int64))
