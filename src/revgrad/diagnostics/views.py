"""Views: descriptors of samples that share nothing with the network, several of each kind of data.

    for name, view in views(source_inputs, target_inputs).items(): ...

Images are seen by their edges (HOG), their colours and their texture; series by their spectra and
by random convolutions; numbers as they are. A classifier of one view knows something that
classifiers of the others don't.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F

from revgrad.diagnostics.inputs import Array
from revgrad.diagnostics.second_opinion import oriented_gradients, spectra
from revgrad.errors import InputError

InputKind = Literal["images", "series", "numbers"]
#: Images are brought to this many pixels a side for colours and texture.
SIDE = 24
#: Colours are counted in this many steps of each channel, and averaged in so many cells a side.
COLOUR_STEPS, COLOUR_CELLS = 4, 3
#: Random convolutions of a series, their lengths, and how far apart their taps lie.
CONVOLUTIONS, LENGTHS, DILATIONS = 200, (7, 9), (1, 2, 4)
#: Numbers of which more than this share are zero, and none below, are counts of things (words).
SPARSE = 0.7
_AT_ONCE = 500


def kind_of(inputs: np.ndarray) -> InputKind:
    """What inputs are, by their shape."""
    dimensions = np.ndim(inputs)
    if dimensions == 4 and inputs.shape[3] == 3:
        return "images"
    if dimensions in (2, 3):
        return "numbers" if dimensions == 2 else "series"
    raise InputError(
        "views are of (n, height, width, 3) images, (n, d) numbers or (n, channels, length) "
        f"series; {inputs.shape} came"
    )


def views(*parts: np.ndarray) -> dict[str, list[Array]]:
    """Descriptors (n, d) of each part, by the view's name; all parts are of one kind."""
    kind = kind_of(parts[0])
    if kind == "numbers":
        name = "counts" if are_counts(*parts) else "values"
        return {name: [np.asarray(part, dtype=np.float64) for part in parts]}
    if kind == "series":
        return {
            "spectra": [spectra(part) for part in parts],
            "convolutions": [random_convolutions(part) for part in parts],
        }
    return {
        "edges": [_in_blocks(oriented_gradients, part) for part in parts],
        "colours": [_in_blocks(colours, part) for part in parts],
        "texture": [_in_blocks(texture, part) for part in parts],
    }


def are_counts(*parts: np.ndarray) -> bool:
    """Whether (n, d) numbers are mostly zero and never below, as counts of words are."""
    return all((part == 0).mean() > SPARSE and part.min() >= 0 for part in parts)


def colours(images: np.ndarray) -> Array:
    """(n, d): how often each colour occurs (rooted shares), and the mean colour of each of 3×3
    cells."""
    values = _resized(images)
    steps = (values * (COLOUR_STEPS / 256)).long().clamp(max=COLOUR_STEPS - 1)
    index = (steps[:, 0] * COLOUR_STEPS + steps[:, 1]) * COLOUR_STEPS + steps[:, 2]
    counts = torch.zeros(len(values), COLOUR_STEPS**3)
    counts.scatter_add_(1, index.flatten(1), torch.ones_like(index.flatten(1), dtype=torch.float32))
    shares = (counts / SIDE**2).sqrt()
    means = F.adaptive_avg_pool2d(values / 255, COLOUR_CELLS).flatten(1)
    found: Array = torch.cat([shares, means], dim=1).double().numpy()
    return found


def texture(images: np.ndarray) -> Array:
    """(n, d): histogram of local binary patterns (Ojala et al. 2002; those of at most two changes
    around the circle apart, the rest together), and the log variance at three scales."""
    grey = _resized(images).mean(dim=1, keepdim=True)
    padded = F.pad(grey, (1, 1, 1, 1), mode="replicate")
    around = [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0)]
    code = torch.zeros_like(grey, dtype=torch.long)
    for bit, (down, across) in enumerate(around):
        other = padded[..., down : down + SIDE, across : across + SIDE]
        code |= (other >= grey).long() << bit
    patterns = _uniform_patterns()[code].flatten(1)
    counts = torch.zeros(len(grey), int(_uniform_patterns().max()) + 1)
    counts.scatter_add_(1, patterns, torch.ones_like(patterns, dtype=torch.float32))
    parts = [(counts / SIDE**2).sqrt()]
    for size in (1, 2, 4):
        smaller = F.avg_pool2d(grey, size) if size > 1 else grey
        finer = smaller - F.avg_pool2d(smaller, 3, 1, 1, count_include_pad=False)
        parts.append(torch.log1p(finer.flatten(1).var(dim=1, keepdim=True)))
    found: Array = torch.cat(parts, dim=1).double().numpy()
    return found


def random_convolutions(series: np.ndarray) -> Array:
    """(n, 2 · CONVOLUTIONS): of each random convolution of all channels the largest value, and the
    share of values above zero (Dempster et al. 2020, ROCKET). The same numbers for the same number
    of channels."""
    values = torch.from_numpy(np.asarray(series, dtype=np.float32))
    scale = values.std(dim=(0, 2), keepdim=True).clamp(min=1e-6)
    values = (values - values.mean(dim=(0, 2), keepdim=True)) / scale
    rng, parts = np.random.default_rng(0), []
    each = CONVOLUTIONS // (len(LENGTHS) * len(DILATIONS))
    for length in LENGTHS:
        for dilation in DILATIONS:
            weights = rng.normal(size=(each, values.shape[1], length))
            weights -= weights.mean(axis=2, keepdims=True)
            offsets = rng.uniform(-1, 1, each)
            if (length - 1) * dilation >= values.shape[2]:
                continue
            found = F.conv1d(
                values,
                torch.from_numpy(weights.astype(np.float32)),
                torch.from_numpy(offsets.astype(np.float32)),
                dilation=dilation,
            )
            parts += [found.amax(dim=2), (found > 0).float().mean(dim=2)]
    if not parts:
        return np.asarray(series, dtype=np.float64).reshape(len(series), -1)
    described: Array = torch.cat(parts, dim=1).double().numpy()
    return described


def _uniform_patterns() -> torch.Tensor:
    """(256,): the number of each pattern of eight bits; 58 change at most twice around."""
    numbers: dict[int, int] = {}
    found = []
    for code in range(256):
        bits = [code >> bit & 1 for bit in range(8)]
        changes = sum(bits[i] != bits[i - 1] for i in range(8))
        found.append(numbers.setdefault(code, len(numbers)) if changes <= 2 else -1)
    return torch.tensor([len(numbers) if number < 0 else number for number in found])


def _resized(images: np.ndarray) -> torch.Tensor:
    values = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float()
    return F.interpolate(values, size=(SIDE, SIDE), mode="bilinear", antialias=True)


def _in_blocks(describe, images: np.ndarray) -> Array:  # type: ignore[no-untyped-def]
    parts = [describe(images[i : i + _AT_ONCE]) for i in range(0, len(images), _AT_ONCE)]
    return np.concatenate(parts)
