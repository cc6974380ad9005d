"""Training from a folder of 10,000 PNGs, once read, against the same images in memory."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from measuring import BRIEF, Measurement, compare, header, steps_of, work

COUNT, SIZE, TURNS, STEPS = (200, 28, 1, 1) if BRIEF else (10_000, 28, 9, 20)


def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (COUNT, SIZE, SIZE, 3), dtype=np.uint8)


def write(folder: Path) -> None:
    """A subfolder for each of ten classes."""
    from PIL import Image

    for number, pixels in enumerate(images()):
        path = folder / str(number % 10) / f"{number:05d}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(path, compress_level=1)


def training(kind: str, folder: Path) -> Callable[[], None]:
    import revgrad
    from revgrad.paper.networks.mnist import MNISTNetwork

    if kind == "folder":
        source = revgrad.from_folder(folder, progress=False)
    else:
        source = revgrad.from_arrays(images(), np.arange(COUNT) % 10)
    network = MNISTNetwork()
    adapter = revgrad.DomainAdapter.attach(
        network,
        network.blueprint.layer,
        source.batch([0, 1]).inputs,
        hidden=network.blueprint.domain_classifier,
        preprocessing=revgrad.Preprocessing.fit(source),
    )
    settings = revgrad.Settings(steps=10**6)
    trainer = revgrad.Trainer(adapter, source, source.without_labels(), settings=settings)
    return steps_of(trainer, STEPS)


def main() -> None:
    torch.set_num_threads(1)
    if "--worker" in sys.argv:
        kind, folder = sys.argv[-2:]
        work(training(kind, Path(folder)))
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "images"
        folder.mkdir()
        os.environ["REVGRAD_CACHE"] = str(Path(place) / "cache")
        write(folder)
        header("images/s, from a folder against from memory")
        mine, memory = compare(__file__, ["folder", str(folder)], ["memory", str(folder)], TURNS)
        rows = 128 * STEPS
        Measurement("folder of 10,000 PNGs", rows / mine, rows / memory, memory / mine).show()


if __name__ == "__main__":
    main()
