"""
Segmentation: drawn scenes, by day and in the evening
=====================================================

By day every position of a picture has a label: disc, square, bar, or the striped background. In the
evening the light is low, warm, and from one side, the picture is noisy, and nobody labelled it: a
network that learned the days takes nearly all of it for background. Labels are maps of class
numbers, so `task="dense"`, measured by the overlap of predicted and true areas (mean IoU). The
domain classifier looks at each position and takes the mean; BatchNorm normalises each domain by
itself. Such a task is not judged without labels yet: λ was set by looking at them.

    python examples/segmentation.py          # --short: one seed, few steps
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

import revgrad

SHORT = "--short" in sys.argv
SEEDS, COUNT, STEPS = (1, 40, 5) if SHORT else (3, 1000, 400)


def scenes(count: int, seed: int, evening: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Images, (count, 3, 32, 32) bytes, and the class of each position."""
    random, (y, x) = np.random.default_rng(seed), np.mgrid[:32, :32]
    images, maps = np.zeros((count, 3, 32, 32)), np.zeros((count, 32, 32), dtype=np.int64)
    for image, labels in zip(images, maps, strict=True):
        image[:] = 0.35 + 0.1 * np.sin((x * random.normal() + y * random.normal()) / 2)
        for label in random.integers(1, 4, 3):
            (row, column), radius = random.integers(5, 27, 2), random.integers(3, 7)
            up, across = abs(y - row), abs(x - column)
            disc, square = up**2 + across**2 < radius**2, np.maximum(up, across) < 0.9 * radius
            inside = (disc, square, (up < 2) & (across < 2 * radius))[label - 1]
            image[:, inside], labels[inside] = random.uniform(0.5, 1, (3, 1)), label
        light = np.array([0.7, 0.6, 0.4])[:, None, None] * (0.5 + 0.5 * x / 32)
        if evening:
            image[:] = image * light + 0.03 * random.normal(size=image.shape)
    return (images.clip(0, 1) * 255).astype(np.uint8), maps


def network() -> nn.Sequential:
    parts: list[nn.Module] = []
    for before, after in ((3, 16), (16, 16), (16, 24)):
        parts += [nn.Conv2d(before, after, 5, padding=2), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*parts, nn.Conv2d(24, 4, 1))


# %%
# The same network by day alone, and with the evenings' pictures beside them.
day, evening, test = scenes(COUNT, 0), scenes(COUNT, 1, True)[0], scenes(300, 2, True)
scores: dict[str, list[float]] = {"source only": [], "adapted": []}
for seed in range(SEEDS):
    torch.manual_seed(seed)
    head = nn.Conv2d(24, 32, 1), nn.ReLU(), nn.Conv2d(32, 1, 1), nn.AdaptiveAvgPool2d(1)
    domains = nn.Sequential(*head, nn.Flatten())
    options = {"layer": "8", "task": "dense", "steps": STEPS, "batch_size": 32, "seed": seed}
    options |= {"recipe": "stabilised", "batch_norm": "target", "adaptation_factor": 0.1}
    options |= {"learning_rate": revgrad.Annealed(0.005), "baseline": True, "progress": False}
    adapted = revgrad.adapt(network(), day, evening, domain_classifier=domains, **options)
    for name, model in zip(scores, (adapted.baseline, adapted), strict=True):
        scores[name].append(model.evaluate(*test).figures["mean_iou"])
print(scores)

# %%
# Evenings, what either network sees in them, and what is there.
seen = [model.predict(test[0][:7]) for model in (adapted.baseline, adapted)]
rows = {"evening": test[0].transpose(0, 2, 3, 1), **dict(zip(scores, seen, strict=True))}
figure, axes = plt.subplots(4, 7, figsize=(9, 5), layout="tight")
for places, (name, pictures) in zip(axes, [*rows.items(), ("truth", test[1])], strict=True):
    for axis, picture in zip(places, pictures[:7], strict=True):
        axis.imshow(picture, vmin=0, vmax=3)
        axis.set(xticks=[], yticks=[])
    places[0].set_ylabel(name)
figure.savefig("segmentation.png", dpi=90)
