"""
Traffic signs: from drawings to photographs
===========================================

Pictures of signs are drawn by the thousand, with the class of each: moved, turned, blurred, badly
lit, over photographs. The target are photographs from German roads (GTSRB, Stallkamp et al. 2012),
of 43 classes, without a label. The recipe for images adds to a weak gradient reversal that a
target image must keep its class when it is changed a little (FixMatch-style consistency).

This is the short form of an experiment of the paper: too short to gain. Signs that only the adapted
network knows are no more than those that it lost; pseudo-labels have not spread yet. The whole one
trains far longer, on more drawings, and then knows nearly all signs: `revgrad reproduce table1
--cell "syn-signs->gtsrb"`. The photographs are looked for in the folder of `REVGRAD_DATA`.

    python examples/signs.py          # --short: few drawings, few steps
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import revgrad
from revgrad.domains.common_shape import resized
from revgrad.paper.synthetic.syn_signs import syn_signs

SHORT = "--short" in sys.argv
DRAWN, SIZE, STEPS = (300, 28, 4) if SHORT else (5000, 28, 1200)

# %%
# Drawings are made here. The real signs of the test are on other stretches of road than those that
# take part in the training.
source = resized(syn_signs("train", count=DRAWN, progress=False), (SIZE, SIZE))
target = revgrad.open_domain("gtsrb:train", size=SIZE).without_labels()
test = revgrad.open_domain("gtsrb:test", size=SIZE)
if SHORT:
    target, test = target.subset(range(300)), test.subset(range(300))
print(f"{len(source)} drawings, {len(target)} photographs, {len(test)} for the test")

# %%
# The compact network, on the drawings alone and adapted to the photographs.
adapted = revgrad.adapt(
    "compact",
    source,
    target,
    recipe="recommended",
    baseline=True,
    steps=STEPS,
    ema_decay=0.99,  # a short training: an average of its last hundred steps
    batch_size=64,
    progress=False,
)
models = {"source only": adapted.baseline, "adapted": adapted}
scores = {name: [model.evaluate(test).accuracy] for name, model in models.items()}
print(scores)

# %%
# Above drawings; below photographs that only the adapted network knew, and what they were not.
truth = np.asarray(test.labels)
before, after = (
    np.array([test.classes.index(name) for name in model.predict(test)])
    for model in models.values()
)
mended = np.flatnonzero((before != truth) & (after == truth))
random = np.random.default_rng(0)
rows = (source, random.permutation(len(source))[:8]), (test, random.permutation(mended)[:8])
figure, axes = plt.subplots(2, 8, figsize=(10, 3.3))
for axis in axes.flat:
    axis.axis("off")
for places, (domain, chosen) in zip(axes, rows, strict=True):
    for axis, one in zip(places, chosen, strict=False):
        axis.imshow(np.moveaxis(np.asarray(domain.batch([one]).inputs[0]), 0, -1))
        if domain is test:
            axis.set_title(f"not {test.classes[before[one]]}".replace(" ", "\n", 1), fontsize=8)
figure.tight_layout()
figure.savefig("signs.png", dpi=80)
