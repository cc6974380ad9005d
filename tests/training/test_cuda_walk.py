"""The CUDA branches, walked on a CPU as far as that goes: a device that says "cuda" and computes
here. What a card does (kernels, streams, memory of its own) is not tried by it."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

from revgrad import Adversary, _distributed, adapt, from_arrays
from revgrad._random import preserved_rng, seed_torch
from revgrad.batch import Batch
from revgrad.errors import InputError
from revgrad.networks.compact import CompactNetwork
from revgrad.objectives import OBJECTIVES
from revgrad.training import reader as reader_module
from revgrad.training.callbacks import Callback
from revgrad.training.metrics import RunningMeans
from revgrad.training.reader import BatchReader
from tiny import Perceptron, image_trainer, seeded, weights_digest


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of CUDA, in order; each is done on the CPU instead."""
    asked: list[str] = []

    def pinned(self: torch.Tensor, *given: Any) -> torch.Tensor:
        asked.append("pin")
        return self.clone()

    def seeded(seed: int) -> None:
        asked.append("seed")
        torch.default_generator.manual_seed(seed)

    monkeypatch.setattr(torch.Tensor, "pin_memory", pinned)
    monkeypatch.setattr(torch.cuda, "manual_seed", seeded)
    return asked


def test_batches_for_a_card_are_pinned_and_the_same(walked: list[str]) -> None:
    trainer = image_trainer(steps=4)
    plain = BatchReader(trainer.batches, 4, torch.device("cpu"))
    for_card = BatchReader(trainer.batches, 4, torch.device("cuda"))
    try:
        assert for_card.pinned
        assert for_card.threaded  # beside a card the next batch is read while this one trains
        for step in range(4):
            one, other = plain.batch(step), for_card.batch(step)
            assert torch.equal(one.inputs, other.inputs)  # type: ignore[arg-type]
            assert torch.equal(one.labels, other.labels)
    finally:
        for_card.close()
    assert walked.count("pin") >= 4 * 3


def test_batches_of_workers_are_pinned_by_their_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    from tiny import drawing

    given: dict[str, Any] = {}

    class Stop(Exception):
        pass

    def loader(*_: Any, **options: Any) -> None:
        given.update(options)
        raise Stop

    trainer = image_trainer(steps=2, source=drawing(40, 1), target=drawing(30, 2))
    monkeypatch.setattr(reader_module, "DataLoader", loader)
    for_card = BatchReader(trainer.batches, 2, torch.device("cuda"), workers=1)
    with pytest.raises(Stop):
        for_card.batch(0)
    assert given["pin_memory"] is True


def test_tensors_go_to_the_card_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tensor of a batch by a copy that does not block, which pinned memory allows."""
    calls: list[tuple[Any, dict[str, Any]]] = []
    real = torch.Tensor.to

    def to(self: torch.Tensor, *given: Any, **named: Any) -> torch.Tensor:
        calls.append((given, named))
        return real(self, "cpu")

    batch: Batch = image_trainer(steps=1).batches.batch(0)
    monkeypatch.setattr(torch.Tensor, "to", to)
    moved = batch.to(torch.device("cuda"))
    assert calls
    for given, named in calls:
        assert given[0] == torch.device("cuda")
        assert named == {"non_blocking": True}
    assert torch.equal(moved.domains, batch.domains)


def test_a_step_seeds_the_card_too(walked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seed_torch(5, torch.device("cuda"))
    assert walked == ["seed"]
    asked: list[Any] = []
    real = torch.random.fork_rng

    def forked(devices: Any = None, **named: Any) -> Any:
        asked.append(list(devices))
        return real(devices=[])

    monkeypatch.setattr(torch.random, "fork_rng", forked)
    with preserved_rng(torch.device("cuda", 0)):
        pass
    assert asked == [[torch.device("cuda", 0)]]


def test_a_whole_training_as_if_beside_a_card(
    walked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pinned, read ahead, copied without waiting, its loss looked at when it is logged: the same
    weights as of a training that knows it is on the CPU."""
    expected = image_trainer(steps=8, log_every=4)
    expected.fit()
    trainer = image_trainer(steps=8, log_every=4)
    card = torch.device("cuda", 0)
    real_to = torch.Tensor.to

    def to(self: torch.Tensor, *given: Any, **named: Any) -> torch.Tensor:
        where = [torch.device("cpu") if one == card else one for one in given]
        return real_to(self, *where, **named)

    real_fork = torch.random.fork_rng
    monkeypatch.setattr(torch.Tensor, "to", to)
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices=(), **_: real_fork(devices=[]))
    trainer.reader = BatchReader(trainer.batches, 8, card)
    trainer.device = card
    trainer.fit()
    assert walked.count("seed") == 8
    assert weights_digest(trainer.adapter) == weights_digest(expected.adapter)


class Card(TorchFunctionMode):
    """Whatever is to be made on a card, or to go there, stays on the CPU."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        def here(value: Any) -> Any:
            is_card = isinstance(value, torch.device) and value.type == "cuda"
            return torch.device("cpu") if is_card else value

        named = {name: here(value) for name, value in (kwargs or {}).items()}
        return function(*map(here, args), **named)


WALKS: dict[str, dict[str, Any]] = {
    "auto": {"recipe": "auto"},
    "statistics of the target": {"recipe": "paper", "batch_norm": "target"},
    "parts of a batch": {"recipe": "paper", "micro_batch": 4, "optimiser": "adam"},
    "bfloat16": {"recipe": "paper", "precision": "bf16"},
    "pseudo-labels": {"recipe": "recommended"},
    "confusion": {"method": "dann-mcc"},
    "kernels": {"method": "kernel-matching"},
    "part of the classes": {"method": "partial"},
    "an attribute": {"adversaries": [Adversary("age"), Adversary()]},
}


@pytest.mark.parametrize("kind", WALKS)
def test_adapt_as_if_beside_a_card(
    kind: str, walked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The front door with device="cuda": the very weights of a CPU, kept, read and resumed."""
    chance = np.random.default_rng(0)
    given: dict[str, Any] = {"layer": "lower"}
    x, build = chance.normal(size=(60, 4)).astype(np.float32), Perceptron
    if kind == "pseudo-labels":
        x = chance.integers(0, 256, (60, 3, 16, 16), dtype=np.uint8)
        build, given = lambda: CompactNetwork(classes=3, channels=3, size=16), {}  # type: ignore[assignment]
    source = from_arrays(x, np.arange(60) % 3, attributes={"age": np.arange(60) % 2})
    target = from_arrays(x[::-1].copy(), attributes={"age": np.arange(60) // 30})

    def trained(device: str) -> str:
        settings = {"steps": 6, "batch_size": 16, "device": device, "progress": False, **given}
        settings |= WALKS[kind]
        run = tmp_path / device
        found = adapt(seeded(build), source, target, run=run, **settings)
        again = adapt(seeded(build, 9), source, target, run=run, **settings)
        assert weights_digest(again.network) == weights_digest(found.network)
        return weights_digest(found.network)

    expected, real_fork = trained("cpu"), torch.random.fork_rng
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices=(), **_: real_fork(devices=[]))
    assert "seed" not in walked
    with Card():
        assert trained("cuda") == expected
    assert {"seed", "pin"} <= set(walked)


def on_meta(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")


#: Of a batch: which samples are labelled, how far apart they are, how sure the network is.
LOOK_AT_NUMBERS = {
    *("adversarial-entropy", "adversarial-consistency", "kernel-matching", "mcc", "dann-mcc"),
    *("partial", "removal"),
}


class Stop(Exception):
    pass


class StopAtStart(Callback):
    """Hands the trainer over before its first step."""

    def on_start(self, trainer: Any, step: int) -> None:
        self.trainer = trainer
        raise Stop


@pytest.mark.parametrize("method", OBJECTIVES)
def test_every_method_computes_where_its_batch_lies(method: str) -> None:
    """On tensors without numbers, whose every operation refuses a tensor of another device: nothing
    of a step is made on the CPU. Methods that look at a number get as far as that."""
    start = StopAtStart()
    images = np.zeros((24, 3, 16, 16), dtype=np.uint8), np.arange(24) % 3
    network = CompactNetwork(classes=3, channels=3, size=16)
    small: dict[str, Any] = {"steps": 1, "batch_size": 8, "held_out": 0, "progress": False}
    with pytest.raises(Stop):
        adapt(network, images, images, method=method, callbacks=[start], **small)
    trainer = start.trainer
    own = trainer.objective.modules() if isinstance(trainer.objective, torch.nn.Module) else ()
    for module in [*trainer.adapter.modules(), *own]:
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = torch.nn.Parameter(on_meta(parameter))
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = on_meta(buffer)
    batch = trainer.batches.batch(0).map(on_meta)
    if method in LOOK_AT_NUMBERS:
        told = r"item\(\) cannot be called on meta|register_meta function for torch.nonzero"
        with pytest.raises((RuntimeError, NotImplementedError), match=told):
            trainer.objective(trainer.adapter, batch, 0.5)
        return
    losses = trainer.objective(trainer.adapter, batch, 0.5)
    losses.total.backward()
    assert losses.total.device.type == "meta"


def test_several_processes_beside_cards_talk_by_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which was never run: here it is only asked for."""
    asked: list[str] = []

    def join(backend: str, **_: Any) -> None:
        asked.append(backend)
        raise Stop

    monkeypatch.setattr(torch.distributed, "init_process_group", join)
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1")):
        monkeypatch.setenv(name, value)
    for available in (False, True):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            monkeypatch.setenv("MASTER_PORT", str(free.getsockname()[1]))
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=available: there)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
        with pytest.raises(Stop), _distributed.process_group("auto"):
            pass
    assert asked == ["gloo", "nccl"]


def test_each_process_takes_its_own_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for local, expected in ((0, 0), (1, 1), (3, 1)):
        monkeypatch.setenv("LOCAL_RANK", str(local))
        assert _distributed.choose_device("auto") == torch.device("cuda", expected)


def test_a_card_that_is_not_there_is_one_line() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a card here")
    with pytest.raises(InputError, match="device 'cuda' can't be used here") as caught:
        _distributed.choose_device("cuda")
    assert "\n" not in str(caught.value)


def test_autocast_leaves_reversal_and_losses_in_place() -> None:
    """The branch that bfloat16 takes on a card, under the CPU's autocast."""
    trainer = image_trainer(steps=3)
    batch = trainer.batches.batch(0)
    trainer.adapter.network.eval()  # dropout draws otherwise for another type
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = trainer.objective(trainer.adapter, batch, 1.0)
    assert losses.total.dtype == torch.float32
    losses.total.backward()  # type: ignore[no-untyped-call]
    full = trainer.objective(trainer.adapter, batch, 1.0)
    torch.testing.assert_close(losses.total, full.total, rtol=0.1, atol=0.1)


def test_metrics_are_summed_in_double_where_the_device_has_it() -> None:
    assert RunningMeans(torch.device("cuda")).home == torch.device("cuda")
    assert RunningMeans(torch.device("mps")).home == torch.device("cpu")
