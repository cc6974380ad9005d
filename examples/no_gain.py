"""
Where it does not help: cars of other continents
================================================

From American cars of 1970 to 1982 a network learns which are thrifty (more than 22.5 miles a
gallon), by cylinders, displacement, power, weight, acceleration and year. European and Japanese
cars are another population: smaller, lighter, and most of them thrifty. What tells a thrifty car is
the same everywhere, so the network of the American ones does well. Aligning the two populations
mixes what must stay apart: features that don't tell where a car is from can't tell how heavy it is.

`adapt` is used as it is. It tries three ways, judges each without target labels, and hands back the
network of the source alone unless one is judged better: here it does, and the verdict says "no
gain". The paper's recipe, which does not ask, stands beside it. The table is in mlxtend's wheel.

    python examples/no_gain.py          # --short: one seed, few steps
"""

import sys
from importlib.resources import files
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import revgrad

SHORT = "--short" in sys.argv
SEEDS, STEPS = (1, {"steps": 40}) if SHORT else (3, {})
MEASURES = ["cylinders", "displacement", "horsepower", "weight", "acceleration", "year"]

# %%
# The table, in two populations; the other continents' column of labels is taken away.
with (files("mlxtend") / "data" / "data" / "autompg.csv.gz").open("rb") as file:
    names = [*MEASURES, "continent", "name", "mpg"]
    cars = pd.read_csv(file, compression="gzip", names=names)
cars["thrifty"] = np.where(cars.pop("mpg") > 22.5, "yes", "no")
here = cars[cars["continent"] == 1].drop(columns=["continent", "name"])
there = cars[cars["continent"] != 1].drop(columns=["continent", "name"])
truth = there.pop("thrifty").to_numpy()
source, target = revgrad.from_frame(here, label="thrifty"), revgrad.from_frame(there)

# %%
# As it is, and by the paper's recipe.
scores: dict[str, list[float]] = {}
for seed in range(SEEDS):
    options = {"seed": seed, "progress": False, **STEPS}
    with TemporaryDirectory() as run:
        adapted = revgrad.adapt("perceptron", source, target, run=f"{run}/run", **options)
        verdict = adapted.verdict()
    options = {"steps": 1000, **options, "recipe": "paper"}
    paper = revgrad.adapt("perceptron", source, target, **options)
    print(f"seed {seed}: {verdict.outcome}. {adapted.choice.sentence}")
    models = {"source only": adapted.baseline, "as it is": adapted, "the paper's recipe": paper}
    for name, model in models.items():
        scores.setdefault(name, []).append(float((model.predict(there) == truth).mean()))
    print({name: round(values[-1], 3) for name, values in scores.items()})

# %%
# The two populations, and what is right about the other continents' cars.
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), width_ratios=[1.2, 1])
for frame, name, colour in ((here, "American", "#8d96a3"), (there, "others", "#2a6fb0")):
    axes[0].scatter(frame["weight"], frame["horsepower"], s=12, alpha=0.6, c=colour, label=name)
axes[0].set(xlabel="weight (pounds)", ylabel="horsepower")
axes[0].legend(frameon=False)
axes[1].barh(list(scores), [np.mean(values) for values in scores.values()], 0.6, color="#b8bec7")
for place, values in enumerate(scores.values()):
    axes[1].plot(values, [place] * len(values), "o", color="#333333", markersize=4)
axes[1].set(xlim=(0, 1), title="right about cars of other continents")
axes[1].set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])
axes[1].invert_yaxis()
for axis in axes:
    axis.spines[["top", "right"]].set_visible(False)
figure.tight_layout()
figure.savefig("no-gain.png", dpi=90)
