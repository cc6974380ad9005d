"""Raw data that pairs of domains are made of: what packages carry, and the library's own data sets.

Files of packages that are needed for their data alone (seglearn, vaderSentiment) are fetched by
pip into the cache and read without running any code of theirs.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from revgrad.domains.sentences import rated_sentences
from revgrad.domains.watch import ARMS, watch_records


class Labelled(NamedTuple):
    """Inputs (n, …) and class numbers (n,); `more`, (n,) of each further column."""

    x: np.ndarray
    y: np.ndarray
    more: Mapping[str, np.ndarray] = MappingProxyType({})

    def take(self, which: np.ndarray) -> Labelled:
        """The samples of these indices, or where this mask is true."""
        return Labelled(
            self.x[which], self.y[which], {name: part[which] for name, part in self.more.items()}
        )


def cache_folder() -> Path:
    """REVGRAD_PAIRS, or a folder in the user's cache."""
    given = os.environ.get("REVGRAD_PAIRS")
    folder = Path(given) if given else Path.home() / ".cache" / "revgrad-pairs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def cached_arrays(name: str, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays of a file in the cache, made where it is not there yet."""
    path = cache_folder() / f"{name}.npz"
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}.part.npz")
        np.savez_compressed(part, **make())
        os.replace(part, path)
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


# -- images --------------------------------------------------------------------------------------


@cache
def named_images(name: str, size: int = 28, samples: int = 6000) -> Labelled:
    """A data set of the library's, drawn once: (n, size, size, 3) uint8."""
    from revgrad.domains import open_domain

    domain = open_domain(name, size=size)
    order = np.random.default_rng(0).permutation(len(domain))[:samples]
    images = domain.subset(np.sort(order)).as_colour()
    values = images.batch(np.arange(len(images)), augment=False).inputs
    x = np.ascontiguousarray(np.asarray(values).transpose(0, 2, 3, 1))
    return Labelled(x, np.asarray(images.labels))


@cache
def photographs() -> list[np.ndarray]:
    """Photographs of BSDS500, (height, width, 3) uint8, by name."""
    from PIL import Image

    folder = Path(os.environ.get("REVGRAD_DATA", "data")) / "bsds500" / "train"
    return [np.asarray(Image.open(path).convert("RGB")) for path in sorted(folder.glob("*.jpg"))]


@cache
def pictograms(size: int = 28) -> np.ndarray:
    """(43, size, size, 3) uint8: a clean picture of every sign, by its class."""
    from PIL import Image

    folder = Path(os.environ.get("REVGRAD_DATA", "data")) / "gtsrb-pictograms"
    return np.stack(
        [
            np.asarray(Image.open(folder / f"{label}.jpg").convert("RGB").resize((size, size)))
            for label in range(43)
        ]
    )


@cache
def textures() -> dict[str, np.ndarray]:
    """Grey photographs of surfaces and scenes that scikit-image carries."""
    from PIL import Image

    folder = Path(str(files("skimage"))) / "data"
    names = ("brick", "grass", "gravel", "camera", "coins", "page", "moon", "text")
    return {name: np.asarray(Image.open(folder / f"{name}.png").convert("L")) for name in names}


@cache
def office(domain: str) -> Labelled:
    """EfficientNet-lite0's 1280 features (ImageNet) of Office's amazon, webcam or dslr."""
    found = cached_arrays(f"office-{domain}", lambda: _office_features(domain))
    return Labelled(found["x"], found["y"])


def _office_features(domain: str) -> dict[str, np.ndarray]:
    import torch
    from PIL import Image

    from revgrad.networks.efficientnet import EfficientNetLite0

    network = EfficientNetLite0.pretrained(10).eval()
    folder = Path(os.environ.get("REVGRAD_DATA", "data")) / "office-caltech10" / domain
    inputs, labels = [], []
    for label, place in enumerate(sorted(path for path in folder.iterdir() if path.is_dir())):
        for path in sorted(place.glob("*.jpg")):
            image = Image.open(path).convert("RGB").resize((160, 160))
            inputs.append(np.asarray(image))
            labels.append(label)
    parts = []
    with torch.inference_mode():
        for start in range(0, len(inputs), 32):
            images = torch.from_numpy(np.stack(inputs[start : start + 32]))
            values = (images.permute(0, 3, 1, 2).float() - 127) / 128
            hidden = network.blocks(network.stem(values))
            parts.append(network.pool(network.head(hidden)))
    small = [np.asarray(Image.fromarray(image).resize((32, 32))) for image in inputs]
    return {
        "x": torch.cat(parts).numpy().astype(np.float32),
        "y": np.array(labels),
        "pixels": np.stack(small),
    }


@cache
def office_pixels(domain: str) -> Labelled:
    """The same photographs, 32 pixels a side."""
    found = cached_arrays(f"office-{domain}", lambda: _office_features(domain))
    return Labelled(found["pixels"], found["y"])


@cache
def surf(domain: str) -> Labelled:
    """The classic 800-bin SURF histograms of amazon, webcam, dslr or Caltech10: shares, rooted."""
    from scipy.io import loadmat

    folder = Path(os.environ.get("REVGRAD_DATA", "data")) / "office-caltech10" / "surf"
    found = loadmat(folder / f"{domain}_SURF_L10.mat")
    shares = found["fts"] / np.maximum(found["fts"].sum(1, keepdims=True), 1)
    return Labelled(np.sqrt(shares).astype(np.float32), found["labels"].ravel().astype(int) - 1)


# -- tables --------------------------------------------------------------------------------------


@cache
def table(name: str) -> Labelled:
    """A table that scikit-learn or mlxtend carries; numbers become classes by their quantiles."""
    from sklearn import datasets

    if name in ("breast_cancer", "wine", "digits"):
        found = getattr(datasets, f"load_{name}")()
        return Labelled(found.data.astype(np.float32), found.target)
    if name == "diabetes":
        found = datasets.load_diabetes(scaled=False)
        return Labelled(found.data.astype(np.float32), quantiles(found.target, 2))
    if name == "autompg":
        rows = _numbers("autompg.csv.gz")
        return Labelled(rows[:, :6], quantiles(rows[:, 7], 2), {"origin": rows[:, 6]})
    if name == "boston":
        rows = _numbers("boston_housing.csv")
        return Labelled(rows[:, :-1], quantiles(rows[:, -1], 3))
    raise KeyError(name)


def quantiles(values: np.ndarray, classes: int) -> np.ndarray:
    """(n,) class numbers: equal shares of the values, the least first."""
    edges = np.quantile(values, np.linspace(0, 1, classes + 1)[1:-1])
    return np.searchsorted(edges, values, side="right")


def _numbers(name: str) -> np.ndarray:
    """The columns of an mlxtend table that are numbers; its header and names are left out."""
    path = Path(str(files("mlxtend"))) / "data" / "data" / name
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    rows = []
    for row in csv.reader(io.StringIO(text)):
        found = [_number(cell) for cell in row]
        rows.append([value for value in found if value is not None])
    width = max(map(len, rows))
    return np.array([row for row in rows if len(row) == width], dtype=np.float32)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


# -- series --------------------------------------------------------------------------------------


@cache
def watch(length: int = 64, samples: int = 6000) -> Labelled:
    """seglearn's smart-watch series: (n, 6, length) windows of seven exercises, acceleration and
    turning; columns: person, and side (0 left arm, 1 right arm)."""
    found = cached_arrays(f"watch-{length}", lambda: _watch(length))
    order = np.random.default_rng(0).permutation(len(found["y"]))[:samples]
    whole = Labelled(found["x"], found["y"], {"person": found["person"], "side": found["side"]})
    return whole.take(np.sort(order))


def _watch(length: int) -> dict[str, np.ndarray]:
    x, y, person, side = [], [], [], []
    for record in watch_records():
        for start in range(0, len(record.values) - 2 * length + 1, length):
            # every second of 50 samples a second: 64 of them are 2.5 s
            x.append(record.values[start : start + 2 * length : 2].T)
            y.append(record.exercise)
            person.append(record.person)
            side.append(ARMS.index(record.arm))
    values = np.stack(x)
    values /= values.std(axis=(0, 2), keepdims=True)
    return {
        "x": values,
        "y": np.unique(y, return_inverse=True)[1],
        "person": np.array(person),
        "side": np.array(side),
    }


# -- text ----------------------------------------------------------------------------------------


@cache
def sentences(domain: str, samples: int = 3000) -> tuple[list[str], np.ndarray]:
    """Sentences, and whether people found them pleasant; those near neither are left out."""
    texts, labels = rated_sentences(domain).moods()
    order = np.random.default_rng(0).permutation(len(texts))[:samples]
    return [texts[i] for i in order], labels[order]


def words(domains: tuple[str, ...], width: int = 600) -> tuple[Labelled, ...]:
    """Bags of the words that are most frequent in all of these domains together, rooted, tf-idf."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    known = [sentences(domain) for domain in domains]
    every = [text for texts, _ in known for text in texts]
    bag = TfidfVectorizer(max_features=width, sublinear_tf=True).fit(every)
    return tuple(
        Labelled(bag.transform(texts).toarray().astype(np.float32), labels)
        for texts, labels in known
    )
