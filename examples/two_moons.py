"""
Two moons, turned: the border before and after
==============================================

The source's points are labelled. The target's are the same two moons turned by 35 degrees about
their middle, and no label of them is read. `DANNClassifier` is used as it is: it trains the source
alone, then adapts in a few ways, and hands back the one that is judged best without target labels.
(Turned about another point, moons also move away. Then the ways contradict each other, and nothing
tells which is right.)

    python examples/two_moons.py          # --short: one seed, one turn
"""

import sys
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from revgrad import DANNClassifier

SHORT = "--short" in sys.argv
SEEDS = range(1) if SHORT else range(5)
TURNS = [35] if SHORT else [35, -35]


def two_moons(seed: int, turn: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """600 points and their classes, turned by `turn` degrees about their middle."""
    points, classes = make_moons(600, noise=0.1, random_state=seed)
    angle = np.deg2rad(turn)
    matrix = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    middle = points.mean(axis=0)
    return ((points - middle) @ matrix + middle).astype(np.float32), classes


# %%
# Each turn with several seeds; a seed draws the points of both domains and the first weights.
scores: dict[str, list[float]] = {}
for seed, turn in product(SEEDS, TURNS):
    (x, y), (target, truth) = two_moons(seed), two_moons(1000 + seed, turn)
    alone = DANNClassifier(method="source-only", random_state=seed).fit(x, y)
    adapted = DANNClassifier(random_state=seed).fit(x, y, X_target=target)
    for name, model in (("source only", alone), ("adapted", adapted)):
        scores.setdefault(f"{turn} degrees, {name}", []).append(model.score(target, truth))
    print(f"seed {seed}, {turn} degrees: {alone.score(target, truth):.3f}", end="")
    print(f" -> {adapted.score(target, truth):.3f}, {adapted.choice_.chosen}")
    if turn == 35:
        shown = {"source only": alone, "adapted": adapted}, target, truth

# %%
# The border of each network over the target's points; hollow points are predicted wrong.
models, target, truth = shown
low, high = target.min(axis=0) - 0.4, target.max(axis=0) + 0.4
across, up = np.meshgrid(*(np.linspace(a, b, 200) for a, b in zip(low, high, strict=True)))
grid = np.stack([across.ravel(), up.ravel()], axis=1).astype(np.float32)
figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
colours = np.array(["#2a6fb0", "#d1495b"])
for axis, (title, model) in zip(axes, models.items(), strict=True):
    chance = model.predict_proba(grid)[:, 1].reshape(across.shape)
    axis.contourf(across, up, chance, levels=[0, 0.5, 1], colors=colours, alpha=0.15)
    axis.contour(across, up, chance, levels=[0.5], colors="#333333", linewidths=1)
    right = model.predict(target) == truth
    axis.scatter(*target[right].T, s=9, c=colours[truth[right]])
    axis.scatter(*target[~right].T, s=16, facecolors="none", edgecolors=colours[truth[~right]])
    axis.set_title(f"{title}: {right.mean():.0%} of the target right")
    axis.set(xticks=[], yticks=[])
figure.tight_layout()
figure.savefig("two-moons.png", dpi=100)
