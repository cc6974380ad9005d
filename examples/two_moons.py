"""Two moons, turned: where the border between the classes lies before and after adaptation.

python examples/two_moons.py [--turn 35] [--seeds 5] [--picture two-moons.png]

The source's points are labelled; the target's are the same two moons, turned, and no label of them
is read. `DANNClassifier` is used as it is.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import make_moons

from revgrad import DANNClassifier


def two_moons(seed: int, turn: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """600 points and their classes, turned about their middle by `turn` degrees."""
    points, classes = make_moons(600, noise=0.1, random_state=seed)
    angle = np.deg2rad(turn)
    matrix = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    middle = points.mean(axis=0)
    return ((points - middle) @ matrix + middle).astype(np.float32), classes


def draw(path: Path, turn: float, seed: int, models: dict[str, DANNClassifier]) -> None:
    """The border of each model over the target's points; hollow points are predicted wrong."""
    import matplotlib.pyplot as plt

    x, truth = two_moons(1000 + seed, turn)
    low, high = x.min(axis=0) - 0.4, x.max(axis=0) + 0.4
    across, up = np.meshgrid(*(np.linspace(a, b, 200) for a, b in zip(low, high, strict=True)))
    grid = np.stack([across.ravel(), up.ravel()], axis=1).astype(np.float32)
    figure, axes = plt.subplots(1, len(models), figsize=(5 * len(models), 4), sharey=True)
    colours = np.array(["#2a6fb0", "#d1495b"])
    for axis, (title, model) in zip(axes, models.items(), strict=True):
        chance = model.predict_proba(grid)[:, 1].reshape(across.shape)
        axis.contourf(across, up, chance, levels=[0, 0.5, 1], colors=colours, alpha=0.15)
        axis.contour(across, up, chance, levels=[0.5], colors="#333333", linewidths=1)
        right = model.predict(x) == truth
        axis.scatter(*x[right].T, s=9, c=colours[truth[right]])
        axis.scatter(*x[~right].T, s=16, facecolors="none", edgecolors=colours[truth[~right]])
        axis.set_title(f"{title}: {right.mean():.0%} of the target right")
        axis.set_xticks([])
        axis.set_yticks([])
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--turn", type=float, default=35.0, help="degrees")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--picture", type=Path, default=Path("two-moons.png"))
    given = options.parse_args()
    models = {}
    for seed in range(given.seeds):
        (x, y), (target, truth) = two_moons(seed), two_moons(1000 + seed, given.turn)
        models = {
            "source only": DANNClassifier(random_state=seed).fit(x, y),
            "adapted": DANNClassifier(random_state=seed).fit(x, y, X_target=target),
        }
        shown = [f"{name} {model.score(target, truth):.3f}" for name, model in models.items()]
        print(f"seed {seed}: {', '.join(shown)}")
    draw(given.picture, given.turn, given.seeds - 1, models)
    print(f"see {given.picture}")


if __name__ == "__main__":
    main()
