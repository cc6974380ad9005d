"""Training from tar shards of JPEGs, against WebDataset's own loader that feeds a loop written by
hand: images a CPU second, decoded in the training process, one thread."""

from __future__ import annotations

import io
import os
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from measuring import BRIEF, Measurement, compare, header, steps_of, work
from step import Reverse, by_hand

SHARDS, EACH, SIDE, SIZE = (2, 100, 64, 28) if BRIEF else (4, 500, 128, 28)
TURNS, STEPS, HALF = 7, 1 if BRIEF else 4, 64


def write(folder: Path) -> str:
    """Smooth random pictures, so that their JPEGs are as large as those of photographs."""
    from PIL import Image

    random = np.random.default_rng(0)
    for shard in range(SHARDS):
        with tarfile.open(folder / f"part-{shard}.tar", "w") as tar:
            for number in range(EACH):
                pixels = random.integers(0, 256, (SIDE // 4, SIDE // 4, 3), dtype=np.uint8)
                picture = io.BytesIO()
                Image.fromarray(pixels).resize((SIDE, SIDE)).save(picture, "JPEG", quality=90)
                label = str(number % 10).encode()
                for end, data in (("jpg", picture.getvalue()), ("cls", label)):
                    entry = tarfile.TarInfo(f"{shard:02}{number:05}.{end}")
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))
    return str(folder / f"part-{{0..{SHARDS - 1}}}.tar")


def loop_by_hand(pattern: str) -> Callable[[], None]:
    import webdataset
    from PIL import Image

    def pixels(picture: Any) -> Tensor:
        small = picture.resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        return torch.from_numpy(np.array(small)).permute(2, 0, 1)

    def endless() -> Iterator[tuple[Tensor, Tensor]]:
        data = webdataset.WebDataset(pattern, shardshuffle=SHARDS).repeat().shuffle(EACH)
        data = data.decode("pilrgb").to_tuple("jpg", "cls").map_tuple(pixels, int)
        yield from webdataset.WebLoader(data, batch_size=HALF, num_workers=0)

    features, predictor, classifier = parts = by_hand("mnist")
    parameters = [p for part in parts for p in part.parameters()]
    optimiser = torch.optim.SGD(parameters, lr=0.01, momentum=0.9)
    domains = torch.cat([torch.zeros(HALF), torch.ones(HALF)])
    loss = nn.BCEWithLogitsLoss()
    source, target = endless(), endless()

    def turn() -> None:
        for _ in range(STEPS):
            (images, labels), (others, _) = next(source), next(target)
            inputs = (torch.cat([images, others]).float() - 127.5) / 74.0
            extracted = features(inputs)
            label = F.cross_entropy(predictor(extracted[:HALF]), labels)
            domain = loss(classifier(Reverse.apply(extracted, 0.5)).squeeze(1), domains)
            optimiser.zero_grad()
            (label + domain).backward()
            optimiser.step()
            float(label.detach())

    return turn


def ours(pattern: str) -> Callable[[], None]:
    import revgrad
    from revgrad.paper.networks.mnist import MNISTNetwork

    source = revgrad.from_shards(pattern, size=SIZE)
    target = revgrad.from_shards(pattern, size=SIZE, labels=False)
    network = MNISTNetwork()
    adapter = revgrad.DomainAdapter.attach(
        network,
        network.blueprint.layer,
        source.batch([0, 1]).inputs,
        hidden=network.blueprint.domain_classifier,
        preprocessing=revgrad.Preprocessing(127.5, 74.0),
    )
    settings = revgrad.Settings(steps=10**6)
    trainer = revgrad.Trainer(adapter, source, target, settings=settings)
    return steps_of(trainer, STEPS)


def main() -> None:
    torch.set_num_threads(1)
    if "--worker" in sys.argv:
        kind, pattern = sys.argv[-2:]
        work((ours if kind == "ours" else loop_by_hand)(pattern))
        return
    header("images a CPU second from tar shards, against WebDataset's loader and a bare loop")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["REVGRAD_CACHE"] = str(Path(folder) / "cache")
        pattern = write(Path(folder))
        mine, other = compare(__file__, ["ours", pattern], ["webdataset", pattern], TURNS)
    images = 2 * HALF * STEPS
    name = "scale: tar shards of JPEGs"
    Measurement(name, images / mine, images / other, other / mine).show()


if __name__ == "__main__":
    main()
