"""Discrepancy of two samples of features: differentiable numbers, no network, no labels.

Features are (n, d) tensors; more dimensions are flattened to that. The two samples may have
different numbers of samples.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from revgrad.errors import InputError

#: Widths of the kernels of `median_bandwidths`, as multiples of the median distance.
SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)


def difference_of_means(source: Tensor, target: Tensor) -> Tensor:
    """‖mean(source) − mean(target)‖², the MMD of the linear kernel (DDC, Tzeng et al. 2014)."""
    one, other = _rows(source, target)
    return (one.mean(0) - other.mean(0)).square().sum()


def relative_difference_of_means(source: Tensor, target: Tensor) -> Tensor:
    """`difference_of_means` divided by the mean squared distance of a sample to its domain's mean.

    Without unit: it stays the same where all features are multiplied by one number, turned, or
    repeated, so layers of different scale and width can be compared. 0 where no sample differs from
    any other; infinite where only the domains do.
    """
    one, other = _rows(source, target)
    spread = (one.var(0, correction=0).sum() + other.var(0, correction=0).sum()) / 2
    between = difference_of_means(one, other)
    return torch.where(between == 0, between, between / spread)


def coral(source: Tensor, target: Tensor) -> Tensor:
    """‖covariance(source) − covariance(target)‖² / 4d² over elements (Sun & Saenko 2016, eq. 1).

    Covariances are divided by one less than the number of samples.
    """
    one, other = _rows(source, target)
    if min(len(one), len(other)) < 2:
        raise InputError("a covariance needs two samples or more of each domain")
    difference = _covariance(one) - _covariance(other)
    return difference.square().sum() / (4 * one.shape[1] ** 2)


def mmd(
    source: Tensor,
    target: Tensor,
    bandwidths: Tensor | Sequence[float] | float,
    *,
    unbiased: bool = False,
) -> Tensor:
    """Squared maximum mean discrepancy of two samples (Gretton et al. 2012, eqs. 3 and 5).

    mean k(s, s') + mean k(t, t') − 2 mean k(s, t), with k the mean over `bandwidths` of Gaussian
    kernels exp(−‖x − y‖² / 2σ²). The means are over all pairs, a sample with itself included (the
    biased V-statistic, never negative); `unbiased` leaves these out and may give less than 0.
    """
    one, other = _rows(source, target)
    widths = torch.as_tensor(bandwidths, dtype=one.dtype, device=one.device).reshape(-1)
    if not len(widths) or not bool((widths > 0).all()):
        raise InputError(f"kernels need bandwidths above 0, got {widths.tolist()}")
    if unbiased and min(len(one), len(other)) < 2:
        raise InputError("the unbiased MMD needs two samples or more of each domain")
    # about their common mean, where squares of large numbers do not cancel
    centre = torch.cat([one, other]).detach().mean(0)
    one, other = one - centre, other - centre
    within = _kernel_mean(one, one, widths, unbiased) + _kernel_mean(other, other, widths, unbiased)
    return within - 2 * _kernel_mean(one, other, widths, False)


@torch.no_grad()
def median_bandwidths(source: Tensor, target: Tensor, scales: Sequence[float] = SCALES) -> Tensor:
    """One σ per scale: the median distance between two samples of either domain, times the scale.

    The usual choice where nothing is known (Gretton et al. 2012, §8); several kernels around it
    make up for its being a guess. No gradient flows through it. Where more than half of the samples
    are the same the median is 0, and the mean distance takes its place (1 where that is 0 too).
    """
    rows = torch.cat(_rows(source, target))
    if len(rows) < 2:
        raise InputError("a median distance needs two samples or more")
    distances = torch.pdist(rows - rows.mean(0))
    unit = distances.median()
    if not bool(unit > 0):
        unit = distances.mean()
    if not bool(unit > 0):
        unit = torch.ones_like(unit)
    return unit * torch.as_tensor(scales, dtype=rows.dtype, device=rows.device)


def _rows(source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    if source.ndim < 2 or target.ndim < 2 or source.shape[1:] != target.shape[1:]:
        raise InputError(
            f"features of shape {tuple(source.shape)} and {tuple(target.shape)} can't be compared: "
            "both must be (samples, …) and alike but for their number"
        )
    if not len(source) or not len(target):
        raise InputError("a domain without samples has no distance to another")
    return source.flatten(1), target.flatten(1)


def _covariance(rows: Tensor) -> Tensor:
    centred = rows - rows.mean(0)
    return centred.T @ centred / (len(rows) - 1)


def _kernel_mean(one: Tensor, other: Tensor, widths: Tensor, off_diagonal: bool) -> Tensor:
    """Mean over pairs of rows, and over the kernels."""
    squares = one.square().sum(1)[:, None] + other.square().sum(1) - 2 * one @ other.T
    exponents = squares.clamp(min=0)[None] / (-2 * widths.square())[:, None, None]
    kernel = exponents.exp().mean(0)
    if not off_diagonal:
        return kernel.mean()
    n = len(one)
    return (kernel.sum() - kernel.diagonal().sum()) / (n * (n - 1))
