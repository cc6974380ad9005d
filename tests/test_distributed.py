"""Several processes, for real: gloo on this machine, each a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from forked import Forked, finish, free_port, start
from revgrad import Run
from tiny import checkpoint_digest, environment

pytestmark = pytest.mark.slow

#: Trains every named case in turn, so that the processes start once.
CASES = """
import sys
from pathlib import Path
import numpy as np
import torch
torch.set_num_threads(1)
from tiny import Perceptron, digest, seeded, vectors
from torch import nn
from revgrad import *
from revgrad.objectives import Adversaries
from revgrad.objectives.conditional import ConditionalDomainClassifier
from revgrad._distributed import rank
from revgrad._distributed import process_group

class Wide(nn.Module):  # a label predictor of more than one bucket of gradients
    def __init__(self):
        super().__init__()
        self.lower = nn.Linear(4, 5)
        self.middle = nn.Sequential(nn.Linear(5, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU())
        self.upper = nn.Linear(400, 3)
    def forward(self, x):
        return self.upper(self.middle(self.lower(x).tanh()))

source = vectors(31, 1, dtype=np.float64)
target = vectors(17, 2, 1.0, dtype=np.float64)
objectives = dict(
    supervised=Supervised(), adversarial=Adversarial(), swapped=TwoLosses("swapped"),
    pair=TwoLosses("reversal"), means=MeanMatching(),
    kernels=KernelMatching(), waiting=Stabilised(learned=0.9), entropy=AdversarialEntropy(0.3),
    consistent=AdversarialConsistency(0.7, 0.4, 0.5, 0.3, augment=lambda x: x * 1.1 + 0.2),
    cdan=Terms((ConditionalReversal(0.5, sure_first=True), PredictionEntropy())),
    mcc=Terms((Reversal(), ClassConfusion())), mdd=Terms((MarginDisparity(),)),
    coral=CovarianceMatching(weight=10.0), partial=PartialAdversarial(decay=0.8),
    information=InformationMaximisation(),
)
kinds = dict(
    plain=dict(target=target.without_labels(), batch_size=10),
    odd=dict(target=target.without_labels(), batch_size=7, source_share=0.4),
    one_source_row=dict(target=target.without_labels(), batch_size=6, source_share=0.01),
    few_labels=dict(target=target.keeping_labels(4, seed=1), batch_size=9, source_share=0.15),
    few_source_labels=dict(
        source=source.keeping_labels(3, seed=0), target=target.without_labels(), batch_size=6,
    ),
    weighted=dict(
        source=source.weighted(np.linspace(0, 3, 31), by_class="balanced"),
        target=target.keeping_labels(4, seed=1), batch_size=9, source_share=0.3,
    ),
    clipped=dict(
        target=target.without_labels(), batch_size=9, max_gradient_norm=0.1,
        max_weight_norm=0.7, ema_decay=0.9,
    ),
    wide=dict(target=target.without_labels(), batch_size=6, source_share=0.01, network=Wide),
)

class Records(Callback):
    def __init__(self):
        self.kept = []
    def on_log(self, trainer, record):
        self.kept.append(record)

def train(objective, source=source, target=None, network=Perceptron, **settings):
    # each process begins with weights of its own: rank 0's must win
    built = seeded(network, 1 + rank(), torch.float64)
    make = getattr(objective, "make_head", lambda *_: None)
    head = make(5, 3, (6,), 2) or DomainClassifier(5, hidden=(6,), seed=2)
    adapter = DomainAdapter(built, "lower", head.double())
    values = dict(steps=20, device="cpu", learning_rate=Constant(0.05), log_every=5, **settings)
    records = Records()
    Trainer(adapter, source, target, objective=objective, settings=Settings(**values),
            callbacks=[records]).fit()
    tensors = {k: v.clone() for k, v in adapter.state_dict().items()}
    for record in records.kept:
        numbers = [record.label_loss, record.domain_loss, record.domain_accuracy]
        tensors[f"log {record.step}"] = torch.tensor([np.nan if x is None else x for x in numbers])
    return tensors

def attributed(domain, seed):
    random, n = np.random.default_rng(seed), len(domain)
    return domain.with_attributes({
        "site": np.where(random.random(n) < 0.3, None, random.choice(["a", "b", "c"], n)),
        "age": np.where(random.random(n) < 0.3, np.nan, random.normal(50, 9, n)),
    })

def several(batch_norm="joint", **settings):
    # two sources and two targets; the domain, a site and an age at two layers
    adversaries = (Adversary("domain", "lower"), Adversary("site", "lower", factor=0.5),
                   Adversary("age", "relu"), Adversary("site", "relu", conditional="class"))
    heads = [DomainClassifier(5, (6,), 4, seed=2), DomainClassifier(5, (6,), 3, seed=3),
             DomainClassifier(5, (6,), 2, seed=4), ConditionalDomainClassifier(5, 3, (6,), 5, 3)]
    built = seeded(Perceptron, 1 + rank(), torch.float64)
    layers = [one.layer for one in adversaries]
    further = [(layer, head.double()) for layer, head in zip(layers, heads)]
    adapter = DomainAdapter(built, "lower", further[0][1], further=further[1:])
    sources = [attributed(source, 7), attributed(vectors(12, 5, 0.5, dtype=np.float64), 8)]
    targets = [attributed(target, 9).without_labels(),
               attributed(vectors(9, 6, 2.0, dtype=np.float64), 10).keeping_labels(4)]
    records = Records()
    values = dict(steps=20, device="cpu", learning_rate=Constant(0.05), log_every=5, **settings)
    Trainer(adapter, sources, targets, objective=Adversaries(adversaries, correlation=0.7),
            settings=Settings(**values), callbacks=[records]).fit()
    tensors = {k: v.clone() for k, v in adapter.state_dict().items()}
    for record in records.kept:
        shown = [*record.adversary_losses.values(), *record.adversary_scores.values()]
        tensors[f"log {record.step}"] = torch.tensor(shown)
    return tensors

with process_group("cpu"):
    made = {f"adversaries/{size}/{k}": v for size in (9, 16)
            for k, v in several(batch_size=size).items()}
    for name, objective in objectives.items():
        for kind, settings in kinds.items():
            if name == "coral" and kind in ("one_source_row", "few_labels"):
                continue  # a covariance needs two samples of each domain
            if kind != "wide" or name in ("means", "adversarial"):
                made |= {f"{name}/{kind}/{k}": v for k, v in train(objective, **settings).items()}
    torch.save(made, Path(sys.argv[1]) / f"{torch.distributed.is_initialized()}-{rank()}.pt")
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, torch.Tensor]]:
    """What one process made, then what each of two made together."""
    folder = tmp_path_factory.mktemp("cases")
    script = folder / "cases.py"
    script.write_text(CASES)
    alone = Forked(script, str(folder))
    told = alone.communicate()
    assert alone.returncode == 0, told
    pair = start(script, 2, str(folder))
    told = finish(pair)
    assert [p.returncode for p in pair] == [0, 0], told
    names = ("False-0.pt", "True-0.pt", "True-1.pt")
    return [torch.load(folder / name, weights_only=True) for name in names]


OBJECTIVES = ("supervised", "adversarial", "swapped", "pair", "means", "kernels", "waiting")
KINDS = ("plain", "odd", "one_source_row", "few_labels", "few_source_labels", "clipped")


@pytest.mark.parametrize(
    ("objective", "kind"),
    [
        *((o, k) for o in OBJECTIVES for k in KINDS),
        *(("means", "wide"), ("adversarial", "wide")),
        *(("supervised", "weighted"), ("adversarial", "weighted")),
        *((o, k) for o in ("cdan", "mcc", "mdd") for k in ("plain", "odd", "few_labels")),
        *((o, k) for o in ("partial", "information") for k in ("plain", "odd", "few_labels")),
        ("partial", "weighted"),
        *(("coral", "plain"), ("coral", "odd")),
        *(("adversaries", "9"), ("adversaries", "16")),
    ],
)
def test_two_processes_equal_one(
    objective: str, kind: str, trained: list[dict[str, torch.Tensor]]
) -> None:
    """In float64, after 20 steps, to 1e-10; each process, and what was logged too."""
    alone, *together = trained
    prefix = f"{objective}/{kind}/"
    weights = [k for k in alone if k.startswith(prefix) and "log" not in k]
    assert len(weights) >= 8
    for name in weights:
        for other in together:
            assert float((alone[name].double() - other[name].double()).abs().max()) <= 1e-10, name
    logged = [k for k in alone if k.startswith(f"{prefix}log")]
    assert len(logged) == 4
    for name in logged:
        torch.testing.assert_close(
            alone[name], together[0][name], rtol=1e-6, atol=1e-7, equal_nan=True
        )
    assert not [k for k in together[1] if "log" in k]  # events are rank 0's


def test_cases_differ_from_each_other(trained: list[dict[str, torch.Tensor]]) -> None:
    """The comparison above is of trained weights: every objective and kind made its own."""
    for kind in ("odd", "few_labels"):
        made = [tuple(trained[0][f"{o}/{kind}/network.lower.bias"].tolist()) for o in OBJECTIVES]
        assert len({tuple(round(x, 9) for x in m) for m in made}) == 6  # the pair is reversal


#: A run in a directory, by `image_trainer`; told what to do to itself at some step.
RUN = """
import json, os, signal, sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
from tiny import image_trainer
from revgrad._distributed import rank
from revgrad.training import Interrupted, Trainer
from revgrad._distributed import process_group

folder, what, who, at = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
written = set()

def audit(event, arguments):
    if event == "open" and str(folder) in str(arguments[0]):
        flags = arguments[2] if len(arguments) > 2 else 0
        if (arguments[1] or "r")[0] in "wax" or (flags or 0) & (os.O_WRONLY | os.O_RDWR):
            written.add(str(arguments[0]))
sys.addaudithook(audit)

plain = Trainer.train_step
def step_and_more(self, step):
    marker = folder.parent / "marker"
    if rank() == who and step == at and not marker.exists():
        if what == "term":
            os.kill(os.getpid(), signal.SIGTERM)
        elif what == "kill":
            marker.write_text("killed once")
            os.kill(os.getpid(), signal.SIGKILL)
        elif what == "nan":
            with torch.no_grad():
                self.adapter.network.out.weight[0, 0] = float("nan")
    return plain(self, step)
Trainer.train_step = step_and_more

code, text, step = 0, "", None
with process_group("cpu"):
    try:
        image_trainer(folder, checkpoint_every=4, ema_decay=0.9).fit()
    except Interrupted as stopped:
        code, text = stopped.exit_code, str(stopped)
    except ArithmeticError as error:
        code, text = error.exit_code, str(error)
    where = rank()
print(json.dumps(dict(rank=where, code=code, text=text, written=sorted(written))))
sys.exit(code)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "run.py"
    path.write_text(RUN)
    return path


@pytest.fixture(scope="module")
def preserved_rng(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The checkpoint of two processes that nothing disturbed."""
    folder = tmp_path_factory.mktemp("preserved_rng")
    path = folder / "run.py"
    path.write_text(RUN)
    pair = start(path, 2, str(folder / "run"), "nothing", "0", "0")
    told = finish(pair)
    assert [p.returncode for p in pair] == [0, 0], told
    first, second = (json.loads(out) for out, _ in told)
    assert any("checkpoint" in name for name in first["written"])
    assert second["written"] == []  # only rank 0 writes
    return checkpoint_digest(folder / "run")


def test_processes_agree_on_stopping(script: Path, tmp_path: Path, preserved_rng: str) -> None:
    """SIGTERM to rank 1 only: both stop at the same step, and rank 0 saves."""
    folder = tmp_path / "run"
    pair = start(script, 2, str(folder), "term", "1", "9")
    told = finish(pair)
    assert [p.returncode for p in pair] == [143, 143], told
    answers = [json.loads(out) for out, _ in told]
    saved = Run(folder).checkpoint()
    assert saved is not None
    assert saved.step == 10
    assert [a["text"].split(",")[0] for a in answers] == ["stopped at step 10 of 30"] * 2
    assert answers[1]["written"] == []
    pair = start(script, 2, str(folder), "nothing", "0", "0")
    told = finish(pair)
    assert [p.returncode for p in pair] == [0, 0], told
    assert checkpoint_digest(folder) == preserved_rng


def test_a_loss_that_is_not_finite_on_one_process_stops_both(script: Path, tmp_path: Path) -> None:
    pair = start(script, 2, str(tmp_path / "run"), "nan", "1", "9")
    told = finish(pair)
    assert [p.returncode for p in pair] == [3, 3], told
    assert all("the checkpoint of step 8 is kept" in json.loads(out)["text"] for out, _ in told)


#: `recipe="auto"` in two processes; one way to adapt is told that it does harm.
AUTO = """
import json, logging, sys
import torch
torch.set_num_threads(1)
from revgrad import adapt
from revgrad.diagnostics.early_signs import EarlySigns
from tiny import Perceptron, digest, seeded, vectors

plain = EarlySigns._sign
def planted(self, trainer, step):
    method, settings = trainer.config.method, trainer.settings
    harm = method == "kernel-matching" and step == 8 and settings.steps == 10
    return "planted" if harm else plain(self, trainer, step)
EarlySigns._sign = planted

said = []
class Heard(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())
logging.getLogger("revgrad").setLevel(logging.INFO)
logging.getLogger("revgrad").addHandler(Heard())
found = adapt(
    seeded(Perceptron, 1), vectors(80, 1), vectors(40, 2, 1.0).without_labels(), layer="lower",
    recipe="auto", steps=20, batch_size=8, progress=False,
)
back = [line for line in said if "a step back" in line]
names = [one.name for one in found.choice.candidates]
print(json.dumps(dict(back=back, names=names, weights=digest(found.network.state_dict()))))
"""


def test_auto_steps_back_on_every_process(tmp_path: Path) -> None:
    script = tmp_path / "auto.py"
    script.write_text(AUTO)
    pair = start(script, 2)
    told = finish(pair)
    assert [p.returncode for p in pair] == [0, 0], told
    first, second = (json.loads(out.splitlines()[-1]) for out, _ in told)
    assert first == second
    assert len(first["back"]) == 1
    assert "a step back to step 6" in first["back"][0]
    assert first["names"][1] == "kernel-matching-weaker"


def test_a_dead_peer_does_not_hang(script: Path, tmp_path: Path) -> None:
    pair = start(script, 2, str(tmp_path / "run"), "kill", "1", "9")
    try:
        pair[1].communicate()
        dead = time.monotonic()
        pair[0].communicate(timeout=60)
        assert time.monotonic() - dead < 60
    finally:
        finish(pair)
    assert pair[1].returncode == -signal.SIGKILL
    assert pair[0].returncode not in (0, None)
    saved = Run(tmp_path / "run").checkpoint()
    assert saved is not None
    assert saved.step == 8


@pytest.mark.timeout(600)
def test_torchrun_restarts_a_killed_worker(
    script: Path, tmp_path: Path, preserved_rng: str
) -> None:
    """kill -9 of one of two in mid-run: the weights are those of an preserved_rng pair."""
    arguments = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "3"]
    arguments += ["--master-port", str(free_port()), "--monitor-interval", "0.1"]
    told = subprocess.run(
        [sys.executable, *arguments, str(script), str(tmp_path / "run"), "kill", "1", "14"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert (tmp_path / "marker").exists()
    assert checkpoint_digest(tmp_path / "run") == preserved_rng


def test_joining_is_for_torchrun_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from revgrad._distributed import process_group, rank, world_size

    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    with process_group("cpu"):
        assert not torch.distributed.is_initialized()
        assert (rank(), world_size()) == (0, 1)
