"""Pairs of domains of many kinds, small enough for many trainings.

    from pair_catalogue import PAIRS, OPEN, FROZEN
    data = PAIRS["films -> tweets"].open()
    network = data.network(seed=0)   # small, suited to the inputs; data.layer is one of its layers

A third is FROZEN, by name: methods are made on the OPEN pairs alone, and judged once on these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from torch import nn

import pair_shifts as shift
from pair_networks import network_for
from pair_sources import (
    Labelled,
    named_images,
    office,
    office_pixels,
    photographs,
    pictograms,
    surf,
    table,
    textures,
    watch,
    words,
)

KINDS = (
    *("digits", "signs", "photographs", "colour", "texture"),
    *("tables", "series", "text", "vectors"),
)
#: Samples of a domain that take part at most.
SAMPLES = 2000
Both = tuple[Labelled, Labelled]


@dataclass(frozen=True, eq=False)
class PairData:
    """Arrays of a pair. `target_y` is for judging alone: no training sees it.

    source_x, target_x   (n, height, width, 3) uint8, (n, d) or (n, channels, length) float32
    source_y, target_y   class numbers
    """

    source_x: np.ndarray
    source_y: np.ndarray
    target_x: np.ndarray
    target_y: np.ndarray
    classes: int
    layer: str = "features"

    def network(self, seed: int = 0, wide: int = 1) -> nn.Module:
        """A fresh small network; `wide` times as wide as usual."""
        return network_for(self.source_x.shape[1:], self.classes, seed=seed, wide=wide)


@dataclass(frozen=True)
class Pair:
    """`kind`: one of KINDS; `shift`: in a word, what differs."""

    name: str
    kind: str
    shift: str
    make: Callable[[], Both]

    def open(self, samples: int = SAMPLES) -> PairData:
        """At most so many samples of each domain, drawn once."""
        source, target = (_some(part, samples, seed) for seed, part in enumerate(self.make()))
        classes = int(max(source.y.max(), target.y.max())) + 1
        return PairData(source.x, source.y, target.x, target.y, classes)


def _some(data: Labelled, samples: int, seed: int) -> Labelled:
    order = np.random.default_rng(10 + seed).permutation(len(data.y))[:samples]
    return data.take(order)


# -- what pairs are made of ----------------------------------------------------------------------


def _images(source: str, target: str) -> Both:
    return named_images(source), named_images(target)


def _changed(name: str, change: shift.Change) -> Both:
    return shift.corrupted(named_images(name), change)


def _over_photographs() -> Both:
    return _changed("mnist", lambda x, rng: shift.over_photographs(x, rng, photographs()))


def _swapped(source: str, target: str) -> Both:
    one, other = _images(source, target)
    return shift.tilted(one, range(5)), shift.tilted(other, range(5, 10))


#: Ten signs that occur often, of several shapes and colours.
SIGNS = (1, 4, 9, 12, 13, 14, 17, 25, 35, 38)
#: The same by the colour that tells them: red rim, yellow, white and red, blue.
SIGN_COLOURS = {"red rim": (1, 4, 9), "yellow": (12,), "blue": (35, 38, 33), "danger": (25, 18)}


def _signs(classes: tuple[int, ...] = SIGNS) -> Labelled:
    return shift.of_classes(named_images("gtsrb", samples=12000), classes)


def _sign_colours() -> Labelled:
    every = named_images("gtsrb", samples=12000)
    parts = [shift.only(every, classes) for classes in SIGN_COLOURS.values()]
    count = min(len(part.y) for part in parts)
    return Labelled(
        np.concatenate([part.x[:count] for part in parts]),
        np.repeat(np.arange(len(parts)), count),
    )


def _drawn_signs() -> Both:
    """Pictures of signs, each moved, turned and lit at random over photographs; then real ones."""
    from scipy.ndimage import affine_transform

    rng, pictures = np.random.default_rng(6), photographs()
    clean = pictograms()[list(SIGNS)]
    x, y = [], []
    for number in range(1800):
        label = number % len(SIGNS)
        angle, size = rng.normal(0, 0.12), rng.uniform(0.9, 1.3)
        turn = size * np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        offset = 13.5 - turn @ (13.5 + rng.normal(0, 1.2, 2))
        layers = np.concatenate([clean[label], np.full((28, 28, 1), 255, np.uint8)], axis=2)
        moved = np.stack(
            [
                affine_transform(layers[..., c].astype(np.float32), turn, offset, order=1)
                for c in range(4)
            ],
            axis=2,
        )
        picture = pictures[int(rng.integers(len(pictures)))]
        top, left = (int(rng.integers(n - 28)) for n in picture.shape[:2])
        cover = moved[..., 3:] / 255
        image = cover * moved[..., :3] + (1 - cover) * picture[top : top + 28, left : left + 28]
        x.append(np.clip(image * rng.uniform(0.35, 1.0) + rng.normal(0, 8, image.shape), 0, 255))
        y.append(label)
    return Labelled(np.stack(x).astype(np.uint8), np.array(y)), _signs()


def _office(source: str, target: str) -> Both:
    return office(source), office(target)


def _surf(source: str, target: str) -> Both:
    return surf(source), surf(target)


def _office_pixels(source: str, target: str, classes: tuple[int, ...]) -> Both:
    one, other = (shift.of_classes(office_pixels(name), classes) for name in (source, target))
    return one, other


def _scenes(change: shift.Change | None, first: int, count: int = 8, step: int = 1) -> Both:
    """Pieces of photographs, told apart by colour and texture: the left sides, the right sides."""
    pictures = photographs()[first : first + count]
    source = shift.crops(pictures, 180, 28, slice(0, 55), 7)
    target = shift.crops(pictures, 180, 28, slice(45, 100), 8, step)
    return source, target if change is None else shift.changed(target, change)


def _hues(change: shift.Change, classes: int = 6) -> Both:
    """Blobs over photographs; their hue is the class."""
    import colorsys

    rng, pictures = np.random.default_rng(9), photographs()
    across, down = np.meshgrid(np.arange(28), np.arange(28))
    x, y = [], []
    for number in range(2600):
        label = number % classes
        picture = pictures[int(rng.integers(len(pictures)))]
        top, left = (int(rng.integers(n - 28)) for n in picture.shape[:2])
        image = picture[top : top + 28, left : left + 28].astype(np.float32)
        hue = (label + rng.normal(0, 0.13)) / classes
        colour = colorsys.hsv_to_rgb(hue % 1, rng.uniform(0.4, 0.9), rng.uniform(0.4, 0.95))
        place, size = rng.uniform(8, 20, 2), rng.uniform(4, 9)
        inside = ((across - place[0]) ** 2 + (down - place[1]) ** 2 < size**2)[..., None]
        x.append(np.where(inside, 255 * np.array(colour), image))
        y.append(label)
    whole = Labelled(np.stack(x).astype(np.uint8), np.array(y))
    return shift.corrupted(whole, change)


def _surfaces(change: shift.Change | None, names: tuple[str, ...] = (), step: int = 1) -> Both:
    """Pieces of grey photographs of surfaces: the left sides, the right sides."""
    found = textures()
    pictures = [found[name] for name in names or found]
    source = shift.crops(pictures, 220, 28, slice(0, 50), 11)
    target = shift.crops(pictures, 220, 28, slice(50, 100), 12, step)
    return source, target if change is None else shift.changed(target, change)


def _selected(name: str, column: int, sharpness: float = 3.0) -> Both:
    found = table(name)
    return shift.selected(found, found.x[:, column], sharpness)


def _table(name: str, change: shift.Change) -> Both:
    return shift.corrupted(table(name), change)


def _cars() -> Both:
    found = table("autompg")
    american = found.more["origin"] == found.more["origin"].min()
    return found.take(american), found.take(~american)


def _people(first: tuple[int, ...]) -> Both:
    found = watch()
    source = np.isin(found.more["person"], np.unique(found.more["person"])[list(first)])
    return found.take(source), found.take(~source)


def _arms() -> Both:
    found = watch()
    left = found.more["side"] == found.more["side"].min()
    return found.take(left), found.take(~left)


def _watch(change: shift.Change) -> Both:
    return shift.corrupted(watch(), change)


def _watch_table(both: Both) -> Both:
    """Means and spreads of each channel, as a table."""
    one, other = (
        Labelled(np.concatenate([part.x.mean(2), part.x.std(2)], axis=1), part.y) for part in both
    )
    return one, other


def _spectra(both: Both) -> Both:
    return shift.spectra(both[0]), shift.spectra(both[1])


def _words(source: str, target: str) -> Both:
    one, other = words((source, target))
    return one, other


def _words_tilted(source: str, target: str) -> Both:
    one, other = words((source, target))
    return shift.tilted(one, (1,), 4), shift.tilted(other, (0,), 4)


def _words_lost(domain: str) -> Both:
    return shift.corrupted(words((domain,))[0], shift.lost(0.5))


def _partial(both: Both, classes: tuple[int, ...]) -> Both:
    return both[0], shift.only(both[1], classes)


_EVERY = (
    # digits
    Pair("mnist -> usps", "digits", "other writers", partial(_images, "mnist", "usps")),
    Pair("usps -> mnist", "digits", "other writers", partial(_images, "usps", "mnist")),
    Pair("mnist -> svhn", "digits", "other world", partial(_images, "mnist", "svhn")),
    Pair("svhn -> mnist", "digits", "other world", partial(_images, "svhn", "mnist")),
    Pair("mnist over photographs", "digits", "background", _over_photographs),
    Pair("mnist, noisy", "digits", "noise", partial(_changed, "mnist", shift.noisy(90))),
    Pair("mnist, turned", "digits", "rotation", partial(_changed, "mnist", shift.turned(35))),
    Pair("mnist, inverted", "digits", "inversion", partial(_changed, "mnist", shift.inverted)),
    Pair(
        "mnist -> usps, swapped shares", "digits", "label shift", partial(_swapped, "mnist", "usps")
    ),
    Pair("usps, halves", "digits", "none", lambda: shift.halves(named_images("usps"))),
    Pair(
        *("mnist -> usps, five classes", "digits", "partial classes"),
        lambda: _partial(_images("mnist", "usps"), (0, 1, 2, 3, 4)),
    ),
    # signs
    Pair("signs, faded", "signs", "light", lambda: shift.corrupted(_signs(), shift.faded)),
    Pair("signs, blurred", "signs", "blur", lambda: shift.corrupted(_signs(), shift.blurred)),
    Pair("signs, halves", "signs", "none", lambda: shift.halves(_signs())),
    Pair("drawn signs -> signs", "signs", "drawn", _drawn_signs),
    Pair(
        "drawn signs -> signs, four",
        "signs",
        "partial classes",
        lambda: _partial(_drawn_signs(), (0, 3, 4, 9)),
    ),
    Pair("signs, noisy", "signs", "noise", lambda: shift.corrupted(_signs(), shift.noisy(70))),
    # photographs
    Pair("amazon -> webcam", "photographs", "camera", partial(_office, "amazon", "webcam")),
    Pair("amazon -> dslr", "photographs", "camera", partial(_office, "amazon", "dslr")),
    Pair("webcam -> amazon", "photographs", "camera", partial(_office, "webcam", "amazon")),
    Pair("dslr -> webcam", "photographs", "camera", partial(_office, "dslr", "webcam")),
    Pair("dslr -> amazon", "photographs", "camera", partial(_office, "dslr", "amazon")),
    Pair(
        *("amazon -> webcam, four classes", "photographs", "partial classes"),
        lambda: _partial(_office("amazon", "webcam"), (0, 2, 5, 8)),
    ),
    Pair("surf amazon -> caltech", "photographs", "camera", partial(_surf, "amazon", "Caltech10")),
    Pair("surf caltech -> amazon", "photographs", "camera", partial(_surf, "Caltech10", "amazon")),
    Pair("surf caltech -> webcam", "photographs", "camera", partial(_surf, "Caltech10", "webcam")),
    Pair("surf webcam -> caltech", "photographs", "camera", partial(_surf, "webcam", "Caltech10")),
    Pair(
        *("amazon -> webcam, pixels", "photographs", "camera"),
        partial(_office_pixels, "amazon", "webcam", (0, 1, 5, 8)),
    ),
    Pair("amazon, halves", "photographs", "none", lambda: shift.halves(office("amazon"))),
    # colour
    Pair("hues, warm light", "colour", "colour cast", partial(_hues, shift.cast(1.2, 0.9, 0.6))),
    Pair("hues, blue light", "colour", "colour cast", partial(_hues, shift.cast(0.6, 0.8, 1.3))),
    Pair("hues, dark", "colour", "light", partial(_hues, shift.darkened(0.3))),
    Pair(
        *("sign colours, blue light", "colour", "colour cast"),
        lambda: shift.corrupted(_sign_colours(), shift.cast(0.5, 0.8, 1.4)),
    ),
    Pair("scenes, right side", "colour", "place", partial(_scenes, None, 0)),
    Pair(
        "scenes, warm light",
        "colour",
        "colour cast",
        partial(_scenes, shift.cast(1.3, 0.95, 0.6), 20),
    ),
    # texture
    Pair("surfaces, right side", "texture", "place", partial(_surfaces, None)),
    Pair("surfaces, dark", "texture", "light", partial(_surfaces, shift.darkened(0.4))),
    Pair(
        "surfaces, further away",
        "texture",
        "scale",
        partial(_surfaces, None, ("brick", "grass", "gravel", "camera"), 2),
    ),
    Pair("surfaces, turned", "texture", "rotation", partial(_surfaces, shift.turned(45))),
    Pair("scenes, grey", "texture", "no colour", partial(_scenes, shift.grey, 40)),
    # tables
    Pair(
        "breast cancer, by size", "tables", "subgroup", partial(_selected, "breast_cancer", 0, 2.0)
    ),
    Pair(
        "breast cancer, other sensor",
        "tables",
        "sensor",
        partial(_table, "breast_cancer", shift.moved(1.0)),
    ),
    Pair("diabetes, by weight", "tables", "subgroup", partial(_selected, "diabetes", 2)),
    Pair("diabetes, halves", "tables", "none", lambda: shift.halves(table("diabetes"))),
    Pair("cars of other countries", "tables", "subgroup", _cars),
    Pair("houses, by age", "tables", "subgroup", partial(_selected, "boston", 6)),
    Pair("houses, other sensor", "tables", "sensor", partial(_table, "boston", shift.moved(1.0))),
    Pair("wine, noisy", "tables", "noise", partial(_table, "wine", shift.jittered(1.0))),
    Pair("made table, moved", "tables", "sensor", partial(shift.clusters, 1.0)),
    Pair(
        "made table, swapped columns", "tables", "columns", partial(shift.clusters, 0.0, swap=True)
    ),
    Pair(
        "made table, slightly moved",
        "tables",
        "sensor",
        partial(shift.clusters, 0.4, classes=2, seed=15),
    ),
    Pair(
        "watch as a table, other people",
        "tables",
        "people",
        lambda: _watch_table(_people((0, 1, 2, 3, 4))),
    ),
    # series
    Pair("watch, other people", "series", "people", partial(_people, (0, 1, 2, 3, 4))),
    Pair("watch, from two people", "series", "people", partial(_people, (7, 8))),
    Pair("watch, other arm", "series", "arm", _arms),
    Pair("watch, turned", "series", "sensor", partial(_watch, shift.rotated_sensor(40))),
    Pair("watch, slower", "series", "speed", partial(_watch, shift.slower)),
    Pair("watch, halves", "series", "none", lambda: shift.halves(watch())),
    Pair(
        "watch spectra, other people",
        "series",
        "people",
        lambda: _spectra(_people((5, 6, 7, 8, 9))),
    ),
    Pair("watch spectra, slower", "series", "speed", lambda: _spectra(_watch(shift.slower))),
    # text
    Pair("films -> tweets", "text", "domain", partial(_words, "films", "tweets")),
    Pair("products -> films", "text", "domain", partial(_words, "products", "films")),
    Pair("films -> products", "text", "domain", partial(_words, "films", "products")),
    Pair("tweets -> products", "text", "domain", partial(_words, "tweets", "products")),
    Pair("editorials -> films", "text", "domain", partial(_words, "editorials", "films")),
    Pair("tweets -> editorials", "text", "domain", partial(_words, "tweets", "editorials")),
    Pair(
        "products -> tweets, swapped shares",
        "text",
        "label shift",
        partial(_words_tilted, "products", "tweets"),
    ),
    Pair("tweets, words lost", "text", "missing words", partial(_words_lost, "tweets")),
    # vectors
    Pair("moons by 30 degrees", "vectors", "rotation", partial(shift.moons, 30)),
    Pair("moons by 60 degrees", "vectors", "rotation", partial(shift.moons, 60)),
    Pair("moons by 0 degrees", "vectors", "none", partial(shift.moons, 0)),
    Pair(
        "small digits, other sensor",
        "vectors",
        "sensor",
        partial(_table, "digits", shift.moved(1.5)),
    ),
    Pair(
        "small digits, pixels lost",
        "vectors",
        "missing",
        partial(_table, "digits", shift.lost(0.3)),
    ),
    Pair("small digits, noisy", "vectors", "noise", partial(_table, "digits", shift.jittered(1.0))),
)

#: Every pair by name.
PAIRS: dict[str, Pair] = {pair.name: pair for pair in _EVERY}

#: Fixed before anything was trained: never looked at when a method is made.
FROZEN: tuple[str, ...] = (
    *("usps -> mnist", "mnist, turned", "usps, halves", "mnist -> usps, five classes"),
    *("signs, blurred", "signs, noisy"),
    *("amazon -> dslr", "dslr -> amazon", "surf caltech -> webcam", "amazon -> webcam, pixels"),
    *("hues, blue light", "scenes, warm light"),
    *("surfaces, dark", "scenes, grey"),
    *("breast cancer, other sensor", "houses, by age", "made table, swapped columns"),
    "watch as a table, other people",
    *("watch, from two people", "watch, slower", "watch spectra, other people"),
    *("products -> films", "tweets -> editorials", "tweets, words lost"),
    *("moons by 60 degrees", "small digits, noisy"),
)

#: The pairs that methods are made on.
OPEN: tuple[str, ...] = tuple(name for name in PAIRS if name not in FROZEN)
