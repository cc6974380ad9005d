"""Every number that decides how generated signs look."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from revgrad.errors import InputError, unknown
from revgrad.paper.synthetic.signs.frequency import ON_ROADS

SIGN_SPLITS = ("train", "test")

#: Pixels of a scene's side, before the camera takes it. Photographs must be as large.
VIEW = 64


@dataclass(frozen=True)
class SynSigns:
    """What decides how generated signs look. Pairs are the ends of what is drawn from uniformly
    (light and resolution: uniformly in the logarithm); lengths are shares of the image's side.

    Attributes
    ----------
    split
        "train" or "test": they never share random numbers
    size
        side of the images, in pixels
    styles
        ways each sign is drawn, in turn
    often
        images of each class in a round: as on roads; (1,) * 43 brings all alike
    fill
        breadth of the sign
    aspect
        its breadth and height differ by at most this factor's logarithm
    offset
        largest distance of its middle from the image's, in each direction
    turn
        largest rotation, in degrees
    perspective
        strongest change of scale from one side to the other
    surround
        light of the photograph behind, relative to the sign's
    light
        brightness, 1 as drawn
    cast
        largest logarithm of red to green and of green to blue, warm or cold
    saturation
        of colours, 1 as drawn
    haze
        share of even grey over everything
    gamma
        exponent of brightness
    shadow
        how often the edge of a shadow crosses, and its darkest
    motion
        how often the camera moves, and how far at most
    defocus
        deviation of the blur
    resolution
        pixels of the camera over the image's side
    mosaic
        strength of a colour filter's fringes
    sharpening
        strength of edges made stronger, as cameras do
    noise
        deviation at full brightness
    """

    seed: int = 0
    split: str = "train"
    size: int = 40
    styles: int = 1
    often: tuple[int, ...] = ON_ROADS
    fill: tuple[float, float] = (0.82, 1.0)
    aspect: float = 0.08
    offset: float = 0.05
    turn: float = 10.0
    perspective: float = 0.16
    surround: tuple[float, float] = (0.6, 1.4)
    light: tuple[float, float] = (0.5, 1.3)
    cast: float = 0.2
    saturation: tuple[float, float] = (0.4, 1.15)
    haze: tuple[float, float] = (0.0, 0.2)
    gamma: tuple[float, float] = (0.8, 1.35)
    shadow: tuple[float, float] = (0.3, 0.75)
    motion: tuple[float, float] = (0.35, 0.14)
    defocus: tuple[float, float] = (0.004, 0.028)
    resolution: tuple[float, float] = (14.0, 80.0)
    mosaic: tuple[float, float] = (0.0, 0.0)
    sharpening: tuple[float, float] = (0.0, 0.0)
    noise: tuple[float, float] = (0.0, 0.03)

    def __post_init__(self) -> None:
        def refuse(name: str, wanted: str) -> InputError:
            return InputError(f"syn-signs: {name} must be {wanted}, not {getattr(self, name)!r}")

        if self.split not in SIGN_SPLITS:
            raise unknown("split of syn-signs", self.split, SIGN_SPLITS)
        for name in ("size", "styles"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise refuse(name, "a whole number, 1 or more")
        if self.size > VIEW:
            raise refuse("size", f"at most {VIEW} pixels")
        if not isinstance(self.seed, int) or self.seed < 0:
            raise refuse("seed", "a whole number, 0 or more")
        many = len(ON_ROADS)
        if not isinstance(self.often, tuple) or len(self.often) != many:
            raise refuse("often", f"{len(ON_ROADS)} whole numbers")
        whole = all(type(count) is int and count >= 0 for count in self.often)
        if not whole or not any(self.often):
            raise refuse("often", "whole numbers, 0 or more, not all 0")
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, float) and not (_is_number(value) and 0 <= value < np.inf):
                raise refuse(field.name, "a number, 0 or more")
            if isinstance(field.default, tuple) and len(field.default) == 2:
                pair = isinstance(value, tuple) and len(value) == 2 and all(map(_is_number, value))
                if not pair or not 0 <= min(value) <= max(value) < np.inf:
                    raise refuse(field.name, "two numbers, 0 or more")
                if field.name not in ("shadow", "motion") and value[0] > value[1]:
                    raise refuse(field.name, "two numbers, the lesser first")
        for name in ("fill", "surround", "light", "defocus", "gamma"):
            if getattr(self, name)[0] <= 0:
                raise refuse(name, "two numbers above 0")
        if self.resolution[0] < 2:
            raise refuse("resolution", "two numbers of pixels, 2 or more")
        if self.perspective >= 0.4:
            raise refuse("perspective", "below 0.4, where the horizon is out of the picture")
        for name in ("shadow", "motion"):
            if max(getattr(self, name)) > 1:
                raise refuse(name, "how often and how much, each at most 1")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


#: Signs drawn in six ways, a wider range of light, and a camera's colour fringes and sharpening:
#: nearer to GTSRB than the default, whose distance from it is about that of the paper's signs.
REALISTIC = SynSigns(
    styles=6, surround=(0.3, 5.0), light=(0.2, 2.2), mosaic=(0.0, 1.0), sharpening=(0.0, 1.2)
)
