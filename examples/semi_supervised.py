"""
Semi-supervised: one of ten people labels what the right arm did
================================================================

The smart watch's exercises again: all ten people's left arms are labelled, and what the right arm
did has to be recognised. Now the first of the ten people has labelled the right arm too. These
labels are for training; the other nine people's are not read, and count how much is right.

`DANNClassifier` takes known labels of the target as `y_target`, in which -1 says "unknown". A
sample with a label joins the label loss; nothing else changes.

    python examples/semi_supervised.py          # --short: one seed, few steps
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from revgrad import DANNClassifier
from revgrad.domains.watch import watch_windows

SHORT = "--short" in sys.argv
SEEDS, STEPS = (1, 30) if SHORT else (3, None)  # None: as many as the recipe has

# %%
# Windows of both arms; of the right arm's labels, the first person's.
left, right = watch_windows("left"), watch_windows("right")
first = right.person == right.person.min()
known = np.where(first, right.y, -1)
print(f"{first.sum()} of {len(first)} windows of the right arm are labelled")

# %%
# Four ways, from nothing known of the right arm to everything that is known of it.
both = np.concatenate([left.x, right.x[first]]), np.concatenate([left.y, right.y[first]])
WAYS = {
    "left arms": ((left.x, left.y), {}),
    "left arms,\none right arm": (both, {}),
    "left arms,\nadapted": ((left.x, left.y), {"X_target": right.x}),
    "left arms, adapted,\none right arm": (
        (left.x, left.y),
        {"X_target": right.x, "y_target": known},
    ),
}
found: dict[str, list[float]] = {name: [] for name in WAYS}
for seed in range(SEEDS):
    for name, (source, target) in WAYS.items():
        model = DANNClassifier(random_state=seed, steps=STEPS).fit(*source, **target)
        found[name].append(model.score(right.x[~first], right.y[~first]))
        print(f"seed {seed}: {name.replace(chr(10), ' ')} {found[name][-1]:.3f}")
scores = {name.replace("\n", " "): values for name, values in found.items()}

# %%
# Each dot is a seed, each bar their mean.
figure, axis = plt.subplots(figsize=(8, 3.2))
means = [np.mean(values) for values in found.values()]
axis.barh(list(found), means, color=["#b8bec7", "#b8bec7", "#2a6fb0", "#2a6fb0"], height=0.6)
for place, values in enumerate(found.values()):
    axis.plot(values, [place] * len(values), "o", color="#333333", markersize=4)
    axis.text(0.02, place, f"{np.mean(values):.0%}", va="center", color="white")
axis.invert_yaxis()
axis.set(xlim=(0, 1), xlabel="right of the other nine people's right arms")
axis.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])
axis.spines[["top", "right"]].set_visible(False)
figure.tight_layout()
figure.savefig("semi-supervised.png", dpi=100)
