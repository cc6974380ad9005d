"""
Regression: how fast does the wrist turn, by acceleration alone?
================================================================

Ten people exercised their shoulders with a watch that measures acceleration and turning. A cheaper
watch would lack the gyroscope, so a network learns to estimate from 2.6 seconds of acceleration how
fast the wrist turned (root mean square, rad/s), on the left arm. On the right arm, whose movements
are mirrored, it errs. Adapted to accelerations of the right arm it errs less, without one of the
right arm's gyroscope readings.

`DANNRegressor` is used as it is: for series it takes a small network of 1-d convolutions, and the
recipe for numbers matches the features of both arms by a kernel. A regression has no verdict yet;
the errors below are measured by the right arm's gyroscope. The data are seglearn's (Burns et al.
2018), fetched by pip once; nothing of that package runs.

    python examples/regression.py          # --short: one seed, few steps
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

from revgrad import DANNRegressor
from revgrad.domains.watch import watch_windows

SHORT = "--short" in sys.argv
SEEDS, STEPS = (1, 100) if SHORT else (3, None)  # None: as many as the recipe has


def acceleration_and_speed(arm: str) -> tuple[np.ndarray, np.ndarray]:
    """Windows of acceleration, (n, 3, 64), and the speed of turning in each, (n,)."""
    measured = watch_windows(arm).x
    acceleration, turning = measured[:, :3], measured[:, 3:]
    return acceleration, np.sqrt((turning**2).sum(axis=1).mean(axis=1))


# %%
# The same network twice: on the left arm alone, and with the right arm's accelerations beside it.
x, y = acceleration_and_speed("left")
target, truth = acceleration_and_speed("right")
errors: dict[str, list[float]] = {"source only": [], "adapted": []}
for seed in range(SEEDS):
    model = DANNRegressor(random_state=seed, steps=STEPS)
    before = model.fit(x, y).predict(target)
    after = model.fit(x, y, X_target=target).predict(target)
    for name, found in (("source only", before), ("adapted", after)):
        errors[name].append(float(np.abs(found - truth).mean()))
    shown = ", ".join(f"{name} {values[-1]:.3f}" for name, values in errors.items())
    print(f"seed {seed}, mean absolute error in rad/s: {shown}")
fall = 1 - np.mean(errors["adapted"]) / np.mean(errors["source only"])
print(f"the error falls by {fall:.0%}")
scores = {f"mean absolute error, {name}": values for name, values in errors.items()}

# %%
# Estimated and true speed of the right arm's windows; on the line they are equal.
figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), sharex=True, sharey=True)
most = truth.max()
for axis, (name, found, colour) in zip(
    axes, [("source only", before, "#8d96a3"), ("adapted", after, "#2a6fb0")], strict=True
):
    axis.scatter(truth, found, s=5, color=colour, alpha=0.4, linewidths=0)
    axis.plot([0, most], [0, most], color="#333333", linewidth=1)
    axis.set_title(f"{name}: off by {np.abs(found - truth).mean():.2f} rad/s")
    axis.set(xlabel="true speed (rad/s)", xlim=(0, most), ylim=(0, most), aspect="equal")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("estimated (rad/s)")
figure.tight_layout()
figure.savefig("regression.png", dpi=100)
