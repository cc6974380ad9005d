"""From an image's size to the size of a feature map, and the errors of sizes that can't work."""

from __future__ import annotations

from torch import nn

from revgrad.errors import InputError

Size = int | tuple[int, int]


def height_and_width(size: Size) -> tuple[int, int]:
    """(height, width) of a size given as one number or two."""
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


def map_size(size: Size, *layers: nn.Conv2d | nn.MaxPool2d) -> tuple[int, int]:
    """Height and width of what `layers`, one after the other, make of images of `size`."""
    asked = height, width = height_and_width(size)
    for layer in layers:
        height, width = (_side(n, layer, axis) for axis, n in enumerate((height, width)))
        if height < 1 or width < 1:
            raise InputError(
                f"images of {asked[0]}×{asked[1]} are too small for this network: nothing is left "
                "after its convolutions and poolings; use a larger size"
            )
    return height, width


def require_positive(**numbers: int) -> None:
    """Refuse a count below one, by its name."""
    for name, number in numbers.items():
        if number < 1:
            raise InputError(f"{name} must be at least 1, got {number}")


def _side(n: int, layer: nn.Conv2d | nn.MaxPool2d, axis: int) -> int:
    def of(value: str | int | tuple[int, ...]) -> int:
        return int(value[axis] if isinstance(value, tuple) else value)

    padding, stride = of(layer.padding), of(layer.stride)
    room = n + 2 * padding - of(layer.kernel_size)
    if getattr(layer, "ceil_mode", False):
        up = -(-room // stride)
        return up if up * stride >= n + padding else up + 1  # no window begins beyond the edge
    return room // stride + 1
