"""Sharded networks, for real: FSDP2 on gloo processes, against one process in float64."""

from __future__ import annotations

import errno
import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

from forked import Forked, finish, start
from revgrad import Run
from revgrad.errors import CheckpointError, RunError
from revgrad.training.sharding import write_shards

#: Trains the same run in any number of processes; told whether to shard, where to stop.
SCRIPT = """
import os, signal, sys
from pathlib import Path
import numpy as np
import torch
torch.set_num_threads(1)
from torch import nn
from revgrad import DomainAdapter, DomainClassifier, Run, Settings, Trainer
from revgrad._distributed import process_group, rank, local
from revgrad.training import Interrupted
from tiny import seeded, vectors

folder, shard, stop = Path(sys.argv[1]), sys.argv[2] == "shard", int(sys.argv[3])
extra = eval(sys.argv[4]) if len(sys.argv) > 4 else {}

class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.lower = nn.Linear(4, 5)
        self.middle = nn.Sequential(nn.Linear(5, 40), nn.ReLU(), nn.Linear(40, 40), nn.Flatten())
        self.relu = nn.ReLU(inplace=True)  # of a view that a block gave back
        self.upper = nn.Sequential(nn.Linear(40, 40), nn.LayerNorm(40), nn.Linear(40, 3))
    def forward(self, x):
        return self.upper(self.relu(self.middle(self.lower(x).tanh())))

class Step(Trainer):
    def train_step(self, step):
        if step == stop - 1 and rank() == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().train_step(step)

def score(trainer, step):
    return {5: 0.1, 10: 0.9, 15: 0.5, 20: 0.7}.get(step, 0.0)

source = vectors(31, 1, dtype=np.float64)
target = vectors(17, 2, 1.0, dtype=np.float64).without_labels()
settings = Settings(**{**dict(
    steps=20, batch_size=16, learning_rate=0.1, max_gradient_norm=0.5, max_weight_norm=0.9,
    ema_decay=0.9, evaluate_every=5, checkpoint_every=5, log_every=5, device="cpu", shard=shard,
), **extra})
with process_group("cpu"):
    network = seeded(Wide, 1 + rank(), torch.float64)
    adapter = DomainAdapter(network, "lower", DomainClassifier(5, hidden=(6,), seed=2).double())
    own = sum(p.numel() for p in adapter.parameters())
    trainer = Step(adapter, source, target, settings=settings, held_out=source, run=Run(folder),
                   scorer=score)
    kept = sum(local(p).numel() for p in trainer.adapter.parameters())
    try:
        result = trainer.fit()
    except Interrupted as stopped:
        sys.exit(stopped.exit_code)
    accuracy = torch.tensor([result.last.source_accuracy, result.last.source_loss, kept / own])
    torch.save({**adapter.state_dict(), "told": accuracy}, folder / f"{rank()}.pt")
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sharding") / "script.py"
    path.write_text(SCRIPT)
    return path


def train(script: Path, world: int, folder: Path, *words: object, ends: int = 0) -> None:
    words = (str(folder), *map(str, words))
    pair = [Forked(script, *words)] if world == 1 else start(script, world, *words)
    told = finish(pair)
    assert [p.returncode for p in pair] == [ends] * world, told


@pytest.fixture(scope="module")
def alone(script: Path) -> dict[str, torch.Tensor]:
    """What one process trains that nothing disturbs."""
    folder = script.parent / "alone"
    train(script, 1, folder, "whole", 0)
    return torch.load(folder / "0.pt")


def same(folder: Path, processes: int, expected: dict[str, torch.Tensor]) -> None:
    for number in range(processes):
        found = torch.load(folder / f"{number}.pt")
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            if name != "told":
                assert float((found[name].double() - value.double()).abs().max()) < 1e-10, name
        torch.testing.assert_close(found["told"][:2], expected["told"][:2])


@pytest.mark.slow
def test_sharded_is_one_process_and_resumes_on_any_number(
    script: Path, alone: dict[str, torch.Tensor]
) -> None:
    """Stopped and gone on with: two processes, three, one that holds all."""
    folder = script.parent / "sharded"
    train(script, 2, folder, "shard", 7, ends=143)
    saved = Run(folder).checkpoint()  # read whole, by a process that is alone
    assert saved is not None
    assert saved.step == 7
    (kept,) = folder.glob("checkpoint-0*")
    assert len(list(kept.glob("*.safetensors"))) == 2
    train(script, 3, folder, "shard", 13, ends=143)
    train(script, 1, folder, "shard", 0)
    same(folder, 1, alone)
    assert len(list(folder.glob("checkpoint-0*"))) == 1  # what was before is gone


@pytest.mark.slow
def test_a_whole_run_is_gone_on_with_sharded(script: Path, alone: dict[str, torch.Tensor]) -> None:
    folder = script.parent / "whole"
    train(script, 1, folder, "whole", 12, ends=143)
    train(script, 2, folder, "shard", 0)
    same(folder, 2, alone)
    share = float(torch.load(folder / "0.pt")["told"][2])
    assert 0.4 < share < 0.6  # of all weights
    index = json.loads((folder / "checkpoint.json").read_text())
    part = folder / index["file"] / next(iter(index["shards"]))
    data = bytearray(part.read_bytes())
    (part.parent / "other.safetensors").write_bytes(data)
    with pytest.raises(CheckpointError, match=r"other\.safetensors is missing or was altered"):
        Run(folder).checkpoint()
    (part.parent / "other.safetensors").unlink()
    data[-1] ^= 1
    part.write_bytes(data)
    with pytest.raises(CheckpointError, match="was altered since it was written"):
        Run(folder).checkpoint()
    part.unlink()
    with pytest.raises(CheckpointError, match="is missing or was altered"):
        Run(folder).checkpoint()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills", [1])
def test_kills_at_random_moments(script: Path, kills: int) -> None:
    """kill -9 of both processes: gone on with, bit for bit what an undisturbed pair makes."""
    extra = "dict(checkpoint_every=1, steps=30, evaluate_every=30)"
    quiet = script.parent / "undisturbed"
    train(script, 2, quiet, "shard", 0, extra)
    expected, chance = torch.load(quiet / "0.pt"), random.Random(0)
    steps: list[int] = []
    while len(steps) < kills:
        folder = script.parent / f"killed-{time.monotonic_ns()}"
        pair = start(script, 2, str(folder), "shard", "0", extra)
        while not (folder / "checkpoint.json").exists() and pair[0].returncode is None:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 1.5))
        if any(process.returncode is not None for process in pair):
            continue  # they had finished already
        for process in pair:
            process.kill()
        saved = Run(folder).checkpoint()
        assert saved is not None
        steps.append(saved.step)
        train(script, 2, folder, "shard", 0, extra)
        found = torch.load(folder / "0.pt")
        assert all(torch.equal(found[name], value) for name, value in expected.items())
        assert not list(folder.glob(".*.part"))
        assert len(list(folder.glob("checkpoint-0*"))) == 1


@pytest.mark.slow
def test_micro_batches_adam_and_blocks_run_again(script: Path) -> None:
    extra = "dict(optimiser='adam', micro_batch=4, checkpoint_activations=True, learning_rate=.01)"
    one, two = script.parent / "one", script.parent / "two"
    train(script, 1, one, "whole", 0, extra)
    train(script, 2, two, "shard", 0, extra)
    same(two, 2, torch.load(one / "0.pt"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "line"),
    [
        ("dict(batch_size=3, source_share=.4)", "each needs one: a larger batch_size would do"),
        ("dict(micro_batch=3, batch_size=10)", "an even batch_size, or a larger micro_batch"),
    ],
)
def test_what_processes_could_not_do_alike_is_refused(script: Path, extra: str, line: str) -> None:
    pair = start(script, 2, str(script.parent / "refused"), "shard", "0", extra)
    told = finish(pair)
    assert [p.returncode for p in pair] == [1, 1]
    assert all(line in err for _, err in told)


def test_a_disk_too_full_for_shards_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What torch.distributed wraps into an exception of many lines, which no one else catches."""

    def full(self: Any, *_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(HuggingFaceStorageWriter, "write_data", full)
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        with pytest.raises(RunError, match=r"the disk is full: .*part could not") as said:
            write_shards(tmp_path / ".checkpoint.part", {"weight": torch.ones(3)})
    finally:
        torch.distributed.destroy_process_group()
    assert "\n" not in str(said.value)
