"""
A table: the same measures, another instrument
==============================================

Thirty measures of the nuclei of cells tell malignant from benign tumours (569 patients, Wisconsin,
in scikit-learn). One clinic's patients have a diagnosis. The other clinic has none, and its
instrument reads otherwise: half of its columns come with another gain and offset, and some cells
are empty. The patients are real, drawn at random for either clinic; the instrument is simulated.

`from_frame` makes numbers of a data frame; empty cells become the median. `adapt` is used as it is:
where nothing is judged better (here on two pairs of three), the source-only network comes back.

    python examples/table.py          # --short: one seed, few steps
"""

import sys
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

import revgrad

SHORT = "--short" in sys.argv
SEEDS, STEPS = (1, {"steps": 40}) if SHORT else (3, {})
WAYS = "source only", "adapted"


def clinics(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two halves of the patients; the second half by another instrument."""
    found, random = load_breast_cancer(as_frame=True), np.random.default_rng(seed)
    patients = found.data.assign(tumour=found.target.map({0: "malignant", 1: "benign"}))
    first = random.permutation(len(patients)) < len(patients) // 2
    here, there = patients[first], patients[~first].copy()
    for column in found.data.columns[random.permutation(30)[:15]]:
        gain, offset = np.exp(0.3 * random.normal()), random.normal()
        there[column] = there[column] * gain + offset * there[column].std()
        there.loc[random.random(len(there)) < 0.03, column] = np.nan
    return here, there


# %%
# Three pairs of clinics. The other clinic's diagnoses only serve to see what was gained.
scores: dict[str, list[float]] = {name: [] for name in WAYS}
for seed in range(SEEDS):
    here, there = clinics(seed)
    truth = there.pop("tumour").to_numpy()
    source, target = revgrad.from_frame(here, label="tumour"), revgrad.from_frame(there)
    with TemporaryDirectory() as run:
        adapted = revgrad.adapt(
            "perceptron", source, target, run=f"{run}/run", seed=seed, progress=False, **STEPS
        )
        verdict = adapted.verdict()
    found = adapted.baseline.predict(there), adapted.predict(there)
    for name, predicted in zip(WAYS, found, strict=True):
        scores[name].append(float((predicted == truth).mean()))
    print(f"seed {seed}: {scores['source only'][-1]:.3f} -> {scores['adapted'][-1]:.3f},", end=" ")
    print(f"{adapted.choice.chosen}; verdict: {verdict.outcome}")

# %%
# Two of the columns at both clinics, and what is right at the second one.
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2))
apart = (here[there.columns].mean() - there.mean()).abs() / here[there.columns].std()
for axis, column in zip(axes, apart.sort_values().index[[0, -1]], strict=False):
    bins = np.histogram_bin_edges(pd.concat([here[column], there[column]]).dropna(), 25)
    axis.hist(here[column], bins, alpha=0.6, color="#8d96a3", label="here")
    axis.hist(there[column], bins, alpha=0.6, color="#2a6fb0", label="there")
    axis.set(title=column, yticks=[])
axes[1].legend(frameon=False)
for number, pair in enumerate(zip(*scores.values(), strict=True)):
    axes[2].plot(WAYS, pair, "o-", color="#2a6fb0", alpha=1 - 0.3 * number)
axes[2].set(title="diagnoses right, there", xlim=(-0.3, 1.3), ylim=(0.5, 1))
axes[2].set_yticks([0.5, 0.75, 1], ["50 %", "75 %", "100 %"])
for axis in axes:
    axis.spines[["top", "right"]].set_visible(False)
figure.tight_layout()
figure.savefig("table.png", dpi=90)
