"""Passes over a domain, divided among several processes: what they see is what one process sees."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from forked import Forked, finish, start
from revgrad.tasks.metrics import ConfusionCounts, MultiLabelMeter, RegressionMeter

SCRIPT = """
import json, sys
from pathlib import Path
import numpy as np
import torch
torch.set_num_threads(1)
import revgrad
from revgrad import evaluation
from revgrad.cli import main
from revgrad._distributed import process_group, rank
from revgrad.diagnostics.evidence import gather_evidence
from torch import nn
from tiny import Perceptron, images, seeded

evaluation.SAMPLES_AT_ONCE, evaluation.VECTORS_TIMES = 16, 1
folder = Path(sys.argv[1])
source, target = images(90, 1), images(90, 2)
class Small(nn.Module):  # neither BatchNorm nor dropout, which differ between one process and two
    def __init__(self):
        super().__init__()
        self.conv, self.fc, self.out = nn.Conv2d(3, 4, 3), nn.Linear(64, 6), nn.Linear(6, 3)
    def forward(self, x):
        x = torch.nn.functional.adaptive_avg_pool2d(self.conv(x).relu(), 4)
        return self.out(self.fc(x.flatten(1)).relu())

passed = []
network = seeded(Small, 3)

def count(module, inputs, output):
    if not module.training:
        passed.append(len(output))

network.conv.register_forward_hook(count)
adapted = revgrad.adapt(
    network, source, target, layer="fc", recipe="paper", test=target, run=folder / "run",
    return_weights="best", steps=8, batch_size=16, evaluate_every=4, device="cpu", progress=False,
)
numbers = revgrad.adapt(
    seeded(lambda: Perceptron(1), 3), (np.random.default_rng(0).normal(size=(60, 4)).astype("f4"),
    np.arange(60) / 60), np.random.default_rng(1).normal(size=(60, 4)).astype("f4"),
    layer="lower", recipe="paper", steps=4, batch_size=16, device="cpu", progress=False,
)
last = [adapted.result.last, numbers.result.last]
run, data = folder.parent / "compact", folder.parent / "data.npz"
if not run.exists():
    np.savez(data, x=target.batch(range(90)).inputs.numpy(), y=target.labels)
    network, recipe = revgrad.networks.CompactNetwork(classes=3, channels=3, size=8), "paper"
    known = revgrad.training.run.Provenance(network="compact")
    revgrad.adapt(network, source, target, recipe=recipe, steps=2, run=run, provenance=known,
                  batch_size=8, device="cpu", progress=False)
for words in (("predict", run, data, "-o", f"{folder}.csv"), ("evaluate", run, data, "--json")):
    sys.argv = ["revgrad", *map(str, words)]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, ended.code
print(json.dumps(dict(passed=sum(passed), last=[
    [one.source_accuracy, one.source_loss, one.target_accuracy, one.target_loss, one.score,
     *one.source_metrics.values()] for one in last
])))
"""


@pytest.mark.slow
def test_two_processes_see_what_one_sees(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    alone = Forked(script, str(tmp_path / "one"))
    told = alone.communicate()
    assert alone.returncode == 0, told
    pair = start(script, 2, str(tmp_path / "two"))
    both = finish(pair)
    assert [p.returncode for p in pair] == [0, 0], both
    assert (tmp_path / "two.csv").read_text() == (tmp_path / "one.csv").read_text()
    printed = [out.splitlines() for out, _ in (told, *both)]
    assert [len(lines) for lines in printed] == [2, 2, 1]  # one process tells
    ours, theirs = (json.loads(lines[0]) for lines in printed[:2])
    assert ours["count"] == 90
    assert ours == {**theirs, "loss": pytest.approx(theirs["loss"], rel=1e-6)}
    one, *two = (json.loads(lines[-1]) for lines in printed)
    assert two[0]["last"] == two[1]["last"]  # both processes know it
    for ours, theirs in zip(one["last"], two[0]["last"], strict=True):
        pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None]
        assert len(pairs) >= 3
        for a, b in pairs:
            assert a == pytest.approx(b, rel=1e-4)
    # each has passed about half; the rest is what all must see
    assert max(two[0]["passed"], two[1]["passed"]) < 0.75 * one["passed"]
    for name in ("start", "end", "samples"):
        found = [
            load_file(tmp_path / n / f"run/evidence/{name}.safetensors") for n in ("one", "two")
        ]
        assert found[0].keys() == found[1].keys()
        for key, value in found[0].items():
            np.testing.assert_allclose(value, found[1][key], atol=2e-4, err_msg=key)


def test_merged_meters_are_those_of_all_chunks() -> None:
    random = torch.Generator().manual_seed(0)
    outputs, labels = torch.randn(90, 3, generator=random), torch.randn(90, 3, generator=random)
    for make, truth in ((RegressionMeter, labels), (MultiLabelMeter, labels > 0)):
        whole, parts = make(), [make(), make(), make()]
        whole.add(outputs, truth)
        parts[1].add(outputs[:50], truth[:50])
        parts[2].add(outputs[50:], truth[50:])
        parts[0].merge(parts[1])  # of a process without a block
        parts[0].merge(parts[2])
        parts[0].merge(make())
        ours, theirs = (m.result().figures for m in (parts[0], whole))
        assert ours == pytest.approx(theirs, rel=1e-12)
    whole, first = ConfusionCounts(), ConfusionCounts()
    whole.count(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0]), 2)
    first.merge(whole)
    first.merge(ConfusionCounts())
    assert first.counts.tolist() == [[1, 0], [1, 1]]
