"""
Smart-watch series: from the left arm to the right
==================================================

Ten people did seven exercises of the shoulder with a watch on the left arm, then on the right. The
watch measured acceleration and turning along three axes. A network that learned the exercises from
the left arm alone mistakes most of the right arm's, whose movements are mirrored. Adapted to the
right arm's series, without a label of them, it knows most.

`DANNClassifier` is used as it is: for series it takes a small network of 1-d convolutions. The data
are seglearn's (Burns et al. 2018), fetched by pip once; nothing of that package runs.

    python examples/smart_watch.py          # --short: one seed, few steps
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from revgrad import DANNClassifier
from revgrad.domains.watch import EXERCISES, WINDOW, watch_windows

SHORT = "--short" in sys.argv
SEEDS, STEPS = (1, 30) if SHORT else (3, None)  # None: as many as the recipe has

# %%
# Windows of 2.6 seconds, each half of the one before: six numbers at 64 moments. The right arm's
# labels only serve to see what was gained.
left, right = watch_windows("left"), watch_windows("right")
print(f"left {left.x.shape}, right {right.x.shape}")

# %%
# The same network twice, with the left arm alone and with the right arm's series beside it.
scores: dict[str, list[float]] = {"source only": [], "adapted": []}
for seed in range(SEEDS):
    model = DANNClassifier(random_state=seed, steps=STEPS)
    model.fit(left.x, left.y)
    before = model.predict(right.x)
    model.fit(left.x, left.y, X_target=right.x)
    after = model.predict(right.x)
    for name, found in (("source only", before), ("adapted", after)):
        scores[name].append(float(np.mean(found == right.y)))
    shown = ", ".join(f"{name} {values[-1]:.3f}" for name, values in scores.items())
    print(f"seed {seed}: {shown}")

# %%
# Above, the same exercise on either arm: one axis is turned round. Below, how many windows of each
# exercise were recognised on the right arm.
figure, axes = plt.subplot_mosaic([["left", "right"], ["shares", "shares"]], figsize=(9, 6.5))
time, COLOURS = np.arange(WINDOW) / 25, ("#2a6fb0", "#d1495b", "#8d96a3")
for arm, windows in (("left", left), ("right", right)):
    first = windows.x[np.flatnonzero((windows.y == 1) & (windows.person == 3))[1]]
    for number, (axis, colour) in enumerate(
        zip("xyz", ("#2a6fb0", "#d1495b", "#8d96a3"), strict=True)
    ):
        axes[arm].plot(time, first[number], color=colour, label=axis)
    axes[arm].set(title=f"{arm} arm, {EXERCISES[1]}", xlabel="seconds", ylim=(-3, 3))
axes["left"].set_ylabel("acceleration (g)")
axes["right"].legend(loc="upper right", ncols=3, frameon=False)
places = np.arange(len(EXERCISES))
for shift, (name, found, colour) in enumerate(
    [("source only", before, "#b8bec7"), ("adapted", after, "#2a6fb0")]
):
    known = [np.mean(found[right.y == label] == label) for label in places]
    total = f"{name}: {np.mean(found == right.y):.0%} of all"
    axes["shares"].bar(places + 0.4 * shift - 0.2, known, 0.38, color=colour, label=total)
axes["shares"].set(xticks=places, ylim=(0, 1.2), ylabel="recognised on the right arm")
axes["shares"].set_xticklabels([name.replace(" ", "\n") for name in EXERCISES])
axes["shares"].set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
axes["shares"].legend(loc="upper right", ncols=2, frameon=False)
for one in axes.values():
    one.spines[["top", "right"]].set_visible(False)
figure.tight_layout()
figure.savefig("smart-watch.png", dpi=100)
