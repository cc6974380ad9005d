"""A run is a directory: config.json, metrics.jsonl, checkpoint.json and its tensors."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from revgrad.errors import RunError
from revgrad.files import disk_error, write_atomically, write_json
from revgrad.training.checkpoints import Checkpoint, load_checkpoint, save_checkpoint, sweep
from revgrad.training.events import EvaluationRecord, TrainingRecord
from revgrad.training.settings import DISPLAY

CONFIG, METRICS, LOCK, FAILURE = "config.json", "metrics.jsonl", "lock", "failure.txt"
#: In a run's folder: the source-only run that it is compared with.
BASELINE = "baseline"


@dataclass(frozen=True)
class RunConfig:
    """What a run is: enough to resume it, to refuse another in its place, to read its weights."""

    method: str
    network: str  # a registered name, module:function, or the class of the user's own
    layer: str
    settings: dict[str, Any]
    input_shape: Any
    class_count: int | None
    classes: list[str] | None
    domain_hidden: list[int]
    domains: dict[str, dict[str, Any]]  # role → name, samples, labels, fingerprint
    machine: dict[str, Any]  # what may differ without being another run, but can change rounding
    options: dict[str, Any] = field(default_factory=dict)  # how the domains were opened
    command: str = ""
    version: str = ""
    preprocessing: str = ""
    label_loss: str = ""
    objective: str = ""  # with its own numbers
    chosen_by: str = ""  # the score that the best evaluated weights are kept by; "": the last are
    format: int = 1

    def identity(self) -> dict[str, Any]:
        """What must be the same for a run to be resumed, flattened to names and values."""
        values: dict[str, Any] = {
            "method": self.method,
            "network": self.network,
            "layer": self.layer,
            "input shape": self.input_shape,
            "domain classifier": self.domain_hidden,
            "preprocessing": self.preprocessing,
            "init": self.options.get("init"),
            "label loss": self.label_loss,
            "objective": self.objective,
        }
        values |= {key: value for key, value in self.settings.items() if key not in DISPLAY}
        if self.chosen_by:  # then when one evaluates decides what is handed back
            values |= {"score": self.chosen_by, "evaluate_every": self.settings["evaluate_every"]}
        for role in ("source", "target"):  # what is only evaluated on decides nothing
            if role in self.domains:
                values[f"{role} data"] = self.domains[role]["fingerprint"]
        return json.loads(json.dumps(values))  # type: ignore[no-any-return]


class Run:
    """One run's directory. Reading needs no lock; writing goes through `opened`."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._metrics: IO[str] | None = None

    @property
    def config(self) -> RunConfig:
        path = self.folder / CONFIG
        try:
            return RunConfig(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise RunError(f"{self.folder} is not a run: it has no {CONFIG}") from None
        except (OSError, TypeError, ValueError) as error:
            raise RunError(f"{path} can't be read as a run's configuration: {error}") from error

    def exists(self) -> bool:
        return (self.folder / CONFIG).exists()

    @property
    def failure(self) -> str | None:
        """What ended the run, where it was no signal: a loss that was not finite."""
        try:
            return (self.folder / FAILURE).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise RunError(f"{self.folder / FAILURE} can't be read: {error}") from error

    def note_failure(self, text: str) -> None:
        write_atomically(self.folder / FAILURE, f"{text}\n".encode())

    def checkpoint(self) -> Checkpoint | None:
        return load_checkpoint(self.folder)

    def save(self, checkpoint: Checkpoint) -> None:
        save_checkpoint(self.folder, checkpoint)

    def records(self) -> list[TrainingRecord | EvaluationRecord]:
        """The metrics so far; a last line that was cut short is left out."""
        found: list[TrainingRecord | EvaluationRecord] = []
        for values in _read_lines(self.folder / METRICS):
            kind = values.pop("kind", None)
            with contextlib.suppress(TypeError):
                if kind == "training":
                    found.append(TrainingRecord(**values))
                elif kind == "evaluation":
                    found.append(EvaluationRecord(**values))
        return found

    @contextmanager
    def opened(self, config: RunConfig) -> Iterator[Run]:
        """Hold the directory for writing: refuse a second process and another configuration."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(disk_error(self.folder, error)) from error
        with _locked(self.folder / LOCK):
            if self.exists():
                self._must_match(config)
            else:
                if stranger := next(self._strangers(), None):
                    raise RunError(
                        f"{self.folder} is not empty ({stranger}) and not a run: "
                        "choose a new or an empty folder"
                    )
                write_json(self.folder / CONFIG, asdict(config))
            sweep(self.folder)
            (self.folder / FAILURE).unlink(missing_ok=True)
            try:
                yield self
            finally:
                if self._metrics is not None:
                    with contextlib.suppress(OSError):  # a full disk has had its line already
                        self._metrics.close()
                    self._metrics = None

    def append(self, record: TrainingRecord | EvaluationRecord) -> None:
        """Add a line to the metrics."""
        kind = "training" if isinstance(record, TrainingRecord) else "evaluation"
        path = self.folder / METRICS
        try:
            if self._metrics is None:
                self._metrics = open(path, "a", encoding="utf-8")  # noqa: SIM115 (closed in opened)
            self._metrics.write(json.dumps({"kind": kind, **asdict(record)}) + "\n")
            self._metrics.flush()
        except OSError as error:
            raise RunError(disk_error(path, error)) from error

    def cut_back(self, step: int) -> None:
        """Forget metrics of steps after `step`: they will be made again."""
        path = self.folder / METRICS
        if path.exists():
            kept = [values for values in _read_lines(path) if values.get("step", 0) <= step]
            text = "".join(json.dumps(values) + "\n" for values in kept)
            write_atomically(path, text.encode())

    def _strangers(self) -> Iterator[str]:
        own = (LOCK, BASELINE)
        return (p.name for p in self.folder.iterdir() if p.name not in own and p.suffix != ".part")

    def _must_match(self, config: RunConfig) -> None:
        old, new = self.config.identity(), config.identity()
        differing = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        if not differing:
            return
        if differing == ["steps"]:
            command = config.command or "the same settings"
            raise RunError(
                f"{self.folder} is a run of {old['steps']} steps; {new['steps']} would change the "
                "progress that λ and μ follow at every step, so it can't be continued. To start "
                f"a new run from its weights: {_from_weights(command, self.folder)}"
            )
        shown = "; ".join(
            f"{key}: {old.get(key)} there, {new.get(key)} now" for key in differing[:4]
        )
        more = f" and {len(differing) - 4} more" if len(differing) > 4 else ""
        raise RunError(
            f"{self.folder} is a run of another configuration ({shown}{more}): "
            "choose another folder, or the same settings to resume it"
        )


def _from_weights(command: str, folder: Path) -> str:
    words = shlex.split(command)
    for flag in ("--output", "-o", "--run"):
        if flag in words[:-1]:
            words[words.index(flag) + 1] = f"{folder}-continued"
    return shlex.join([*words, "--init", str(folder)])


def this_command() -> str:
    """The command that started this process, as one could type it again."""
    program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    if program == "__main__.py":
        program = "revgrad"
    return shlex.join([program, *sys.argv[1:]])


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                with contextlib.suppress(ValueError):
                    values = json.loads(line)
                    if isinstance(values, dict):
                        yield values
    except FileNotFoundError:
        return


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that the system releases when the process ends, however it ends."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise RunError(disk_error(path, error)) from error
    try:
        try:
            import fcntl
        except ImportError:  # Windows: an open file can't be replaced there anyway
            yield
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunError(
                f"{path.parent} is being written by another process: wait for it, or choose "
                "another folder"
            ) from None
        yield
    finally:
        os.close(handle)
