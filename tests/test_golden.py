"""Golden numbers: what trainings, generators and verdicts gave before the house was rebuilt.

`golden.json` holds, for each case, a SHA-256 and a few of its numbers. The numbers must agree to
rounding on any machine; the hash must agree on the kind of machine that made it (processor and
PyTorch), where a change of one bit is a change of what is computed. With tests/helpers
in PYTHONPATH `python tests/test_golden.py` writes the file anew, for a defect that was mended on
purpose.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import platform
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from revgrad import Recipe, Run, Settings, adapt, from_arrays
from revgrad.diagnostics import Evidence
from revgrad.diagnostics.accuracy_estimate import accuracy_by_signs
from revgrad.diagnostics.scores import available_scores
from revgrad.diagnostics.verdict import comparison
from revgrad.domains.digits import digits_m
from revgrad.networks.compact import CompactNetwork
from revgrad.paper.synthetic.syn_numbers import SynNumbers, syn_numbers
from revgrad.paper.synthetic.syn_signs import syn_signs
from revgrad.preprocessing import Preprocessing
from tiny import Images, Perceptron, digest, image_trainer, images, seeded, vectors

FILE = Path(__file__).parent / "golden" / "golden.json"
NETWORKS = ("perceptron", "images", "compact")
#: Methods that were there before the house was rebuilt.
METHODS = (
    *("source-only", "train-on-target", "adversarial", "adversarial-entropy"),
    *("adversarial-consistency", "two-losses", "mean-matching", "kernel-matching"),
)
#: Methods that need images: the consistency of changed images.
OF_IMAGES = ("adversarial-consistency",)


class Case:
    """Bytes to hash, and numbers to compare to rounding."""

    def __init__(self, sha256: str, numbers: list[float]) -> None:
        self.sha256, self.numbers = sha256, numbers


def of_tensors(tensors: dict[str, Tensor]) -> Case:
    values = [tensors[name] for name in sorted(tensors) if tensors[name].is_floating_point()]
    numbers = [float(value.double().norm()) for value in values]
    return Case(digest(tensors), numbers[:12])


def of_array(array: np.ndarray) -> Case:
    data = np.ascontiguousarray(array)
    numbers = [float(data.mean()), float(data.std())]
    return Case(hashlib.sha256(data.tobytes()).hexdigest(), numbers)


def of_numbers(numbers: dict[str, float]) -> Case:
    text = json.dumps({k: round(v, 9) for k, v in sorted(numbers.items())})
    return Case(hashlib.sha256(text.encode()).hexdigest(), [v for _, v in sorted(numbers.items())])


def trained(method: str, network: str) -> Case:
    """The network's weights after 30 steps of a method."""
    if network == "perceptron":
        built, layer = seeded(Perceptron), "lower"
        source, target = vectors(60, 1), vectors(50, 2, shift=1.0)
    elif network == "images":
        built, layer = seeded(Images), "flat"
        source, target = images(60, 1), images(50, 2, shift=40)
    else:
        built, layer = CompactNetwork(3, 3, 12, widths=((4,), (6, 6), (8,)), seed=1), "pool"
        random = np.random.default_rng(3)
        pixels = random.integers(0, 255, (110, 12, 12, 3)).astype(np.uint8)
        labels = random.integers(0, 3, 110)
        source = from_arrays(pixels[:60], labels[:60], name="source")
        target = from_arrays(pixels[60:], labels[60:], name="target")
    settings = Settings(
        steps=30,
        batch_size=24,
        max_gradient_norm=5.0,
        ema_decay=0.9,
        max_weight_norm=3.0,
        weight_decay=1e-4,
        evaluate_every=0,
        device="cpu",
        batch_norm="joint" if method in ("source-only", "train-on-target") else "target",
    )
    adapt(
        built,
        source,
        target,
        layer=layer,
        method=method,
        recipe=Recipe(settings=settings),
        domain_classifier=(7,),
        preprocessing=Preprocessing.identity() if network == "perceptron" else "fitted",
        progress=False,
    )
    return of_tensors(built.state_dict())


def resumed() -> Case:
    """A run that was stopped after 13 of 30 steps, then went on: every tensor it keeps."""

    class Stop(Exception):
        pass

    class Stopper:
        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *_: None

        def on_step(self, trainer: Any, step: int) -> None:
            if step == 13:
                trainer._save(step)
                raise Stop

    with tempfile.TemporaryDirectory() as folder:
        stopped = image_trainer(folder, callbacks=(Stopper(),), ema_decay=0.9)
        with pytest.raises(Stop):
            stopped.fit()
        image_trainer(folder, ema_decay=0.9).fit()
        checkpoint = Run(folder).checkpoint()
        assert checkpoint is not None
        return of_tensors(checkpoint.tensors)


def _rank(rank: int, port: int, file: str) -> None:
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE="2",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    torch.set_num_threads(1)
    network = seeded(Perceptron)
    adapt(
        network,
        vectors(60, 1),
        vectors(50, 2, shift=1.0),
        recipe="paper",
        layer="lower",
        steps=30,
        batch_size=24,
        device="cpu",
        domain_classifier=(7,),
        preprocessing=Preprocessing.identity(),
        progress=False,
    )
    if rank == 0:
        np.savez(file, **{name: value.numpy() for name, value in network.state_dict().items()})
    os._exit(0)  # on a busy machine gloo's threads may abort while Python shuts down


def two_ranks() -> Case:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    spawning = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "weights.npz")
        ranks = [spawning.Process(target=_rank, args=(rank, port, file)) for rank in (0, 1)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join(120)
            assert process.exitcode == 0
        with np.load(file) as weights:
            return of_tensors({name: torch.from_numpy(weights[name]) for name in weights.files})


def drawn(name: str) -> Case:
    """64 images of a generator, and their labels."""
    if name == "digits-m":
        domain = digits_m("train").subset(range(64))
    elif name == "syn-signs":  # over the photographs of the wheel, whatever data there is
        with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as nothing:
            patch.setenv("REVGRAD_DATA", nothing)
            domain = syn_signs("train", count=64, workers=1, progress=False)
    else:
        parameters = SynNumbers.varied() if name == "syn-numbers-varied" else SynNumbers()
        domain = syn_numbers("train", count=64, parameters=parameters, workers=1, progress=False)
    batch = domain.batch(range(64))
    assert isinstance(batch.inputs, Tensor)
    assert batch.labels is not None
    pixels = batch.inputs.permute(0, 2, 3, 1).contiguous().numpy()
    return of_array(np.concatenate([pixels.ravel(), batch.labels.numpy().astype(np.uint8)]))


def evidence(seed: int, gain: float) -> Evidence:
    """Evidence made by hand: three classes of vectors, a network that is `gain` better."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, 300)
    truth = random.integers(0, 3, 300)
    centres = np.eye(3) * 3
    source_inputs = centres[labels] + random.normal(size=(300, 3))
    target_inputs = centres[truth] + 0.7 + random.normal(size=(300, 3))
    source_logits = 2 * np.eye(3)[labels] + random.normal(size=(300, 3))
    target_logits = gain * np.eye(3)[truth] + random.normal(size=(300, 3))
    return Evidence(
        target_logits=target_logits,
        source_logits=source_logits,
        source_labels=labels,
        source_features=source_inputs,
        target_features=target_inputs,
        source_inputs=source_inputs,
        target_inputs=target_inputs,
    )


def judged() -> Case:
    """Scores, estimate and comparison of evidence made by hand."""
    after, before = evidence(1, 2.5), evidence(1, 0.5)
    numbers = dict(available_scores(after))
    numbers["estimate"] = accuracy_by_signs(after).value
    found = comparison(after, before)
    numbers["gain"] = float(found.gain if found.gain is not None else -1)
    return of_numbers(numbers)


CASES: dict[str, Callable[[], Case]] = {
    **{
        f"{network}: {method}": lambda method=method, network=network: trained(method, network)  # type: ignore[misc]
        for network in NETWORKS
        for method in METHODS
        if network != "perceptron" or method not in OF_IMAGES
    },
    "resumed": resumed,
    "two ranks": two_ranks,
    **{
        name: lambda name=name: drawn(name)  # type: ignore[misc]
        for name in ("digits-m", "syn-numbers", "syn-numbers-varied", "syn-signs")
    },
    "verdict": judged,
}


def machine() -> dict[str, str]:
    """What may change the last bits of a sum: processor and libraries."""
    processor = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        processor = next((line for line in lines if line.startswith("model name")), processor)
    return {
        "processor": " ".join(processor.split()),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_those_of_before(name: str) -> None:
    kept = json.loads(FILE.read_text())
    case = CASES[name]()
    assert case.numbers == pytest.approx(kept["cases"][name]["numbers"], rel=1e-3, abs=1e-4)
    if kept["machine"] == machine():
        assert case.sha256 == kept["cases"][name]["sha256"]


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = {name: vars(make()) for name, make in CASES.items()}
    FILE.write_text(json.dumps({"machine": machine(), "cases": found}, indent=1) + "\n")
    print(f"{len(found)} cases in {FILE}", file=sys.stderr)
