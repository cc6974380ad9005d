"""Reading ahead, by a thread and by worker processes: the same training, bit for bit."""

from __future__ import annotations

import itertools
import logging
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from revgrad import Domain, Run, from_arrays
from revgrad.batch import Batch, tensors_of
from revgrad.domains.domain import Store
from revgrad.errors import DataError, InputError
from revgrad.training.paired_batches import PairedBatches
from revgrad.training.reader import BatchReader
from tiny import (
    checkpoint_digest,
    command,
    drawing,
    environment,
    image_trainer,
    images,
    weights_digest,
)

CPU = torch.device("cpu")


def mapped(folder: Path, seed: int) -> Domain:
    """The images of `tiny.images`, in a memory map."""
    domain = images(40, seed)
    file = folder / f"{seed}.npy"
    np.save(file, domain.batch(np.arange(40)).inputs.permute(0, 2, 3, 1).numpy())
    return from_arrays(np.load(file, mmap_mode="r"), domain.labels)


def trained(**given: Any) -> str:
    trainer = image_trainer(steps=12, **given)
    trainer.fit()
    return weights_digest(trainer.adapter)


def brighter(inputs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """An augmentation that draws from the generator it is given, and from a global one."""
    added = torch.randint(20, (len(inputs), 1, 1, 1), generator=generator) + np.random.randint(9)
    return (inputs // 2 + added).to(torch.uint8)


def same(one: Batch, other: Batch) -> bool:
    def parts(batch: Batch) -> list[torch.Tensor]:
        given = tensors_of(batch.inputs), (batch.labels, batch.labelled, batch.domains)
        return [*itertools.chain(*given), *([] if batch.weights is None else [batch.weights])]

    pairs = zip(parts(one), parts(other), strict=True)
    return one.sizes == other.sizes and all(torch.equal(*both) for both in pairs)


def test_prefetch_changes_no_bit(tmp_path: Path) -> None:
    plain = trained(source=images(40, 1), prefetch=False)
    assert trained(source=images(40, 1), prefetch=True) == plain
    assert trained(source=mapped(tmp_path, 1), prefetch=False) == plain
    assert trained(source=mapped(tmp_path, 1)) == plain  # on by itself
    assert trained(source=images(40, 3), prefetch=True) != plain


def test_prefetch_is_on_where_it_can_help(tmp_path: Path) -> None:
    def reader(source: Domain, device: str = "cpu", **given: Any) -> BatchReader:
        batches = PairedBatches([source, images(30, 2)], (4, 4))
        return BatchReader(batches, 10, torch.device(device), **given)

    several = (os.cpu_count() or 1) > 1
    assert not reader(images(40, 1)).threaded  # in memory
    assert not reader(images(40, 1).as_grey()).threaded
    assert reader(images(40, 1), prefetch=True).threaded
    assert reader(images(40, 1), "mps").threaded  # beside a device, copies are made meanwhile
    assert reader(mapped(tmp_path, 1)).threaded == several
    assert reader(mapped(tmp_path, 1).as_grey()).threaded == several
    assert not reader(mapped(tmp_path, 1), prefetch=False).threaded
    # a thread's draws would mix with the training's
    assert not reader(drawing(9, 1), prefetch=True).threaded
    assert not reader(images(40, 1).augmented(brighter), prefetch=True).threaded


def test_a_store_of_ones_own_is_read_by_another_thread_only_where_it_may_be() -> None:
    class Counting:
        def __init__(self) -> None:
            self.threads: set[str] = set()

        def __len__(self) -> int:
            return 20

        def take(self, indices: np.ndarray) -> torch.Tensor:
            self.threads.add(threading.current_thread().name)
            return torch.from_numpy(indices).float()[:, None]

        def fingerprint(self) -> str:
            return "counting"

    class Free(Counting):
        any_thread = True

    def threads(store: Store) -> set[str]:
        batches = PairedBatches([Domain(store, np.zeros(20, dtype=int))], (4,))
        reader = BatchReader(batches, 5, CPU)
        for step in range(5):
            assert same(reader.batch(step), batches.batch(step))
        reader.close()
        return store.threads  # type: ignore[attr-defined, no-any-return]

    assert len(threads(Counting())) == 1
    assert len(threads(Free())) == 1 + ((os.cpu_count() or 1) > 1)


@pytest.mark.parametrize("given", [{}, {"prefetch": True}, {"workers": 1}])
def test_any_order_of_steps(given: dict[str, Any]) -> None:
    source = drawing(20, 1) if "workers" in given else images(20, 1)
    batches = PairedBatches([source, images(30, 2)], (4, 4), seed=3)
    reader = BatchReader(batches, 8, CPU, **given)
    for step in (0, 1, 5, 6, 7, 2, 2):
        assert same(reader.batch(step), batches.batch(step))
    reader.close()
    assert same(reader.batch(3), batches.batch(3))
    reader.close()


def labelled(values: np.ndarray, target: bool = False) -> Domain:
    return from_arrays(values, None if target else np.arange(len(values)) % 3)


def rising(count: int, *shape: int) -> np.ndarray:
    return np.arange(count * int(np.prod(shape)), dtype=np.float32).reshape(count, *shape)


PLAIN = {
    "one domain": [labelled(rising(9, 2))],
    "two domains, one smaller than a block": [
        labelled(rising(50, 2)),
        labelled(-rising(7, 2), target=True),
    ],
    "three domains": [labelled(rising(20, 1, 3)) for _ in range(3)],
    "several inputs": [from_arrays((rising(30, 2), rising(30, 1)), np.zeros(30, dtype=int))] * 2,
    "some labels": [
        labelled(rising(40, 2)),
        from_arrays(rising(40, 2), np.arange(40) % 2).keeping_labels(10, seed=0),
    ],
    "weights": [
        from_arrays(rising(40, 2), np.arange(40) % 2, weights=np.arange(40) / 7),
        labelled(rising(40, 2), target=True),
    ],
}


@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.parametrize(("rank", "world"), [(0, 1), (0, 2), (2, 3)])
def test_batches_read_together_are_those_read_one_by_one(kind: str, rank: int, world: int) -> None:
    domains = PLAIN[kind]
    sizes = (5, 4, 3)[: len(domains)]
    batches = PairedBatches(domains, sizes, seed=1, rank=rank, world=world)
    for start in (0, 6):
        together = batches.several(start, 6)
        assert len(together) == 6
        assert all(same(one, batches.batch(start + at)) for at, one in enumerate(together))


@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_weights() -> None:
    def digest(**given: Any) -> str:
        return trained(source=drawing(40, 1), target=images(30, 2).augmented(brighter), **given)

    plain = digest()
    assert [digest(workers=n) for n in (1, 3)] == [plain] * 2
    assert digest(workers=2, seed=1) != plain


def test_workers_are_not_started_for_data_in_memory(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("revgrad.training.reader.DataLoader", None)
    with caplog.at_level(logging.INFO, "revgrad"):
        trained(source=images(40, 1), workers=2)
    assert "workers would not help" in caplog.text


@pytest.mark.slow
def test_a_worker_that_dies_costs_no_step(tmp_path: Path) -> None:
    """One line; what was trained is saved; the cause gone, the same call ends the same."""
    settings: Any = {"steps": 12, "checkpoint_every": 0, "workers": 2, "target": drawing(30, 2)}
    image_trainer(tmp_path / "whole", source=drawing(40, 1), **settings).fit()
    trainer = image_trainer(tmp_path / "run", source=drawing(40, 1), **settings)
    trainer.batches.domains[0].store.dataset.failing = {7}  # type: ignore[attr-defined]
    with pytest.raises(DataError, match=r"a worker that read the batch of step .* died") as caught:
        trainer.fit()
    assert "\n" not in str(caught.value)
    saved = Run(tmp_path / "run").checkpoint()
    assert saved is not None
    assert saved.step > 0
    image_trainer(tmp_path / "run", source=drawing(40, 1), **settings).fit()
    assert checkpoint_digest(tmp_path / "run") == checkpoint_digest(tmp_path / "whole")


@pytest.mark.parametrize("workers", [0, 2])
def test_an_item_that_can_not_be_read(workers: int, tmp_path: Path) -> None:
    trainer = image_trainer(tmp_path, source=drawing(40, 1), workers=workers)
    items: Any = trainer.batches.domains[0].store.dataset  # type: ignore[attr-defined]
    items.failing, items.error = {7}, InputError("item 7 is no image")
    with pytest.raises(InputError, match="item 7 is no image") as caught:
        trainer.fit()
    assert "\n" not in str(caught.value)
    saved = Run(tmp_path).checkpoint()
    assert saved is not None
    assert saved.step > 0
    items.error = KeyError("of its own")
    with pytest.raises(KeyError, match="of its own"):  # the user's errors come as they are
        trainer.fit()


def test_waiting_for_data_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("revgrad.training.reader._WAITING", 0.0)
    with caplog.at_level(logging.INFO, "revgrad"):
        image_trainer(source=drawing(40, 1), steps=60).fit()
        image_trainer(steps=60).fit()
    assert caplog.text.count("training waits for its data") == 1


INTERRUPTED = """
import sys, time
from tiny import drawing, image_trainer
from revgrad import Callback
class Told(Callback):
    def on_step(self, trainer, step):
        time.sleep(0.01)
        if step == 3:
            print("three", flush=True)
settings = dict(source=drawing(40, 1), workers=2, steps=400, callbacks=(Told(),))
try:
    image_trainer(sys.argv[1], **settings).fit()
except KeyboardInterrupt as error:
    print(error)
    sys.exit(error.exit_code)
"""


@pytest.mark.slow
def test_ctrl_c_reaches_workers_too_and_all_is_saved(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(INTERRUPTED)
    process = subprocess.Popen(
        command(script, str(tmp_path / "run")),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a group of its own, as a terminal gives it
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "three\n"
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (130, ""), err
    assert "stopped at step" in out
    saved = Run(tmp_path / "run").checkpoint()
    assert saved is not None
    assert saved.step >= 3
    time.sleep(0.1)
    with pytest.raises(ProcessLookupError):  # nobody is left of the group
        os.killpg(process.pid, 0)
