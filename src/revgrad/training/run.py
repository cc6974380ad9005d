"""A run is a directory: config.json, metrics.jsonl, checkpoint.json and its tensors."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import UnionType
from typing import IO, Any, get_args, get_origin, get_type_hints

from revgrad._seals import sealed_line, unsealed, unsealed_line, write_sealed
from revgrad._system import Lock, disk_errors, read_file, regular, write_atomically
from revgrad.errors import RunError
from revgrad.training.callbacks import EvaluationRecord, TrainingRecord
from revgrad.training.checkpoint import (
    Checkpoint,
    load_checkpoint,
    metrics_saved,
    save_checkpoint,
    save_sharded,
    sweep,
)
from revgrad.training.settings import RESUME_MAY_CHANGE
from revgrad.training.sharding import Place

log = logging.getLogger("revgrad")

CONFIG, METRICS, LOCK, FAILURE = "config.json", "metrics.jsonl", "lock", "failure.json"
#: What makes inputs of raw samples (frames, texts), where there is such.
ENCODER = "encoder.json"
#: Roles of domains that are not trained on.
EVALUATED = ("held_out", "test")
#: In a run's folder: the source-only run that it is compared with.
BASELINE = "baseline"
#: In a run's folder: the trainings that `recipe="auto"` chooses among.
CANDIDATES = "candidates"


@dataclass(frozen=True)
class Provenance:
    """Origin of a run's network and data, in words by which it can be repeated.

    Attributes
    ----------
    network
        a name of `NETWORKS`, timm:NAME or such, module:function, or the class of the
        user's own
    source, target, test
        names or paths of the data
    init
        the run or file whose weights training started from
    weights
        the file of pretrained weights; None: those that come with the network
    fit, corrupt, follow_links
        how images of folders were read (`from_folder`)
    text, label
        columns of tables whose texts alone were read
    command
        that started the training
    """

    network: str = ""
    source: str = ""
    target: str | None = None
    test: str | None = None
    init: str | None = None
    weights: str | None = None
    fit: str = "crop"
    corrupt: str = "fail"
    follow_links: bool = False
    text: str | None = None
    label: str | None = None
    command: str = ""


@dataclass(frozen=True)
class RunConfig:
    """Configuration of a run: enough to resume it, to refuse another, to read its weights."""

    method: str
    layer: str
    settings: dict[str, Any]
    input_shape: Any
    outputs: int | None  # of the network, where it gives one number per class or per target
    class_count: int | None
    classes: list[str] | None
    domain_classifier: list[int]  # hidden widths
    domains: dict[str, dict[str, Any]]  # role → name, samples, labels, fingerprint
    machine: dict[str, Any]  # what may differ without being another run, but can change rounding
    provenance: Provenance = field(default_factory=Provenance)
    version: str = ""
    preprocessing: str = ""
    label_loss: str = ""
    objective: str = ""  # with its own numbers
    normalise: str = "none"  # what the domain classifier does to each sample's features first
    chosen_by: str = ""  # the score that the best evaluated weights are kept by; "": the last are
    encoder: str = ""  # SHA-256 of the encoder's description; "": inputs were arrays or images
    task: dict[str, Any] = field(default_factory=dict)  # as `Task.describe` says it
    output: str | int | None = None  # the part of the network's output that is meant
    # where they are more than one domain classifier of two domains: as `DescribedAdversary`
    adversaries: list[dict[str, Any]] = field(default_factory=list)
    format: int = 2

    @property
    def network(self) -> str:
        """The network's name, module:function or class."""
        return self.provenance.network

    def check(self) -> None:
        """A ValueError where a part that others rely on is missing or of another kind."""
        for name in ("seed", "steps", "evaluate_every"):
            if not isinstance(self.settings.get(name), int):
                raise ValueError(f"settings.{name} must be a whole number")
        for role, facts in self.domains.items():
            if not isinstance(facts, dict) or not {"name", "fingerprint"} <= set(facts):
                raise ValueError(f"domains.{role} must have a name and a fingerprint")
        if any(not isinstance(one, str) for one in self.classes or ()):
            raise ValueError("classes must be names")
        if any(not isinstance(one, int) for one in self.domain_classifier):
            raise ValueError("domain_classifier must be widths")
        if not _is_shape(self.input_shape):
            raise ValueError("input_shape must be numbers, or several such shapes")

    def identity(self) -> dict[str, Any]:
        """The values that must be the same for a run to be resumed, by name."""
        values: dict[str, Any] = {
            "method": self.method,
            "network": self.network,
            "layer": self.layer,
            "input shape": self.input_shape,
            "domain classifier": self.domain_classifier,
            "normalise": self.normalise,
            "preprocessing": self.preprocessing,
            "init": self.provenance.init,
            "weights": self.provenance.weights,
            "label loss": self.label_loss,
            "objective": self.objective,
            "task": self.task,
            "output": self.output,
        }
        values |= {
            key: value for key, value in self.settings.items() if key not in RESUME_MAY_CHANGE
        }
        if self.encoder:
            values["encoder"] = self.encoder
        if self.chosen_by:  # then when one evaluates decides what is handed back
            values |= {"score": self.chosen_by, "evaluate_every": self.settings["evaluate_every"]}
        for role, facts in self.domains.items():
            if role in EVALUATED:  # what is only evaluated on decides nothing
                continue
            values[f"{role} data"] = facts["fingerprint"]
            if augmentation := facts.get("augmentation"):
                values[f"{role} augmentation"] = augmentation
        return json.loads(json.dumps(values))  # type: ignore[no-any-return]


class Run:
    """One run's directory. Reading needs no lock; writing goes through `opened`."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._metrics: IO[str] | None = None

    @property
    def config(self) -> RunConfig:
        """The configuration that the run was started with."""
        path = self.folder / CONFIG
        try:
            values = unsealed(read_file(path).decode())
            check_types(Provenance, values["provenance"])
            config = RunConfig(**{**values, "provenance": Provenance(**values["provenance"])})
            check_types(RunConfig, vars(config))
            config.check()
            return config
        except FileNotFoundError:
            raise RunError(f"{self.folder} is not a run: it has no {CONFIG}") from None
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise RunError(f"{path} can't be read as a run's configuration: {error}") from error

    @property
    def encoder(self) -> dict[str, Any] | None:
        """The description of what makes inputs of raw samples; None where the run has none."""
        wanted, path = self.config.encoder, self.folder / ENCODER
        if not wanted:
            return None
        try:
            state = unsealed(read_file(path).decode(), required=True)
        except (OSError, ValueError) as error:
            raise RunError(f"{path} can't be read: {error}") from None
        if state_digest(state) != wanted:
            raise RunError(f"{path} was altered: it is not what the run was trained with")
        return dict(state)

    def exists(self) -> bool:
        """Whether the folder holds a run."""
        return (self.folder / CONFIG).exists()

    @property
    def failure(self) -> str | None:
        """The reason why the run ended, where it was no signal: a loss that was not finite."""
        try:
            return str(unsealed(read_file(self.folder / FAILURE).decode())["reason"])
        except FileNotFoundError:
            return None
        except (OSError, KeyError, ValueError) as error:
            raise RunError(f"{self.folder / FAILURE} can't be read: {error}") from error

    def note_failure(self, text: str) -> None:
        """Keep why the run failed, for `report` and `verdict`."""
        write_sealed(self.folder / FAILURE, {"reason": text})

    def checkpoint(self, place: Place | None = None) -> Checkpoint | None:
        """The last one; all processes read it together into `place`, where that is given."""
        return load_checkpoint(self.folder, place)

    def save(self, checkpoint: Checkpoint, *, sharded: bool = False) -> None:
        """Keep the checkpoint, once the metrics before it are on the disk; a sharded one is written
        by all processes together."""
        path = self.folder / METRICS
        if self._metrics is not None:
            with disk_errors(path):
                os.fsync(self._metrics.fileno())
        length = path.stat().st_size if path.exists() else 0
        save = save_sharded if sharded else save_checkpoint
        save(self.folder, checkpoint, metrics=length)

    def records(self) -> list[TrainingRecord | EvaluationRecord]:
        """The metrics so far; a last line that a kill cut short is left out."""
        found: list[TrainingRecord | EvaluationRecord] = []
        saved = metrics_saved(self.folder)
        for _, values in _read_lines(self.folder / METRICS, saved):
            kind = values.pop("kind", None)
            with contextlib.suppress(TypeError):
                if kind == "training":
                    found.append(TrainingRecord(**values))
                elif kind == "evaluation":
                    found.append(EvaluationRecord(**values))
        return found

    @contextmanager
    def opened(self, config: RunConfig, encoder: dict[str, Any] | None = None) -> Iterator[Run]:
        """Hold the directory for writing: refuse a second process and another configuration.

        Parameters
        ----------
        encoder
            the description that `config.encoder` seals
        """
        with self.held():
            if self.exists():
                self._refuse_mismatch(config)
            else:
                if stranger := next(self.strangers(), None):
                    raise RunError(
                        f"{self.folder} is not empty ({stranger}) and not a run: "
                        "choose a new or an empty folder"
                    )
                if encoder is not None:  # before the configuration that names it
                    write_sealed(self.folder / ENCODER, encoder)
                write_sealed(self.folder / CONFIG, asdict(config))
            sweep(self.folder)
            (self.folder / FAILURE).unlink(missing_ok=True)
            try:
                yield self
            finally:
                if self._metrics is not None:
                    with contextlib.suppress(OSError):  # a full disk has had its line already
                        self._metrics.close()
                    self._metrics = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the directory's lock, unless another process does."""
        lock = Lock(self.folder / LOCK)
        with disk_errors(self.folder):
            free = lock.acquire(wait=False)
        if not free:
            raise RunError(
                f"{self.folder} is being written by another process: wait for it, or choose "
                "another folder"
            )
        try:
            yield
        finally:
            lock.release()

    def append(self, record: TrainingRecord | EvaluationRecord) -> None:
        """Add a line to the metrics."""
        kind = "training" if isinstance(record, TrainingRecord) else "evaluation"
        path = self.folder / METRICS
        with disk_errors(path):
            if self._metrics is None:
                self._metrics = open(path, "a", encoding="utf-8")  # noqa: SIM115 (closed in opened)
            self._metrics.write(sealed_line({"kind": kind, **asdict(record)}))
            self._metrics.flush()

    def cut_back(self, step: int) -> None:
        """Forget metrics of steps after `step`, the checkpoint's: they will be made again."""
        path, saved = self.folder / METRICS, metrics_saved(self.folder)
        if not path.exists():
            if saved:
                log.warning("%s is missing: the metrics before step %d are lost", path, step)
            return
        kept = 0
        for end, values in _read_lines(path, saved, resuming=True):
            if values.get("step", 0) <= step:
                kept = end
        if path.stat().st_size > kept:
            write_atomically(path, path.read_bytes()[:kept])

    def strangers(self) -> Iterator[str]:
        """Names of what lies in the folder and is no run's."""
        own = (LOCK, BASELINE, ENCODER)
        return (p.name for p in self.folder.iterdir() if p.name not in own and p.suffix != ".part")

    def _refuse_mismatch(self, config: RunConfig) -> None:
        found = differences([self.config.identity(), config.identity()])
        if not found:
            return
        if [one.name for one in found] == ["steps"]:
            old, new = found[0].values
            raise RunError(
                f"{self.folder} is a run of {old} steps; {new} would change the progress that λ "
                "and μ follow at every step, so it can't be continued. To start a new run from "
                f"its weights: {_from_weights(config, self.folder)}"
            )
        raise RunError(
            f"{self.folder} is a run of another configuration ({there_and_now(found)}): "
            "choose another folder, or the same settings to resume it"
        )


def check_types(kind: Any, values: Mapping[str, Any]) -> None:
    """A TypeError where a value is not of the type that the dataclass `kind` gives its field."""
    if not isinstance(values, Mapping):
        raise TypeError(f"{kind.__name__} must be a json object")
    for name, hint in get_type_hints(kind).items():
        if name in values and not isinstance(values[name], _classes_of(hint)):
            came = type(values[name]).__name__
            raise TypeError(f"{name} must be {' or '.join(_names_of(hint))}, not {came}")


def _classes_of(hint: Any) -> tuple[type, ...]:
    """The classes that values of a type hint have at run time."""
    if hint is Any:
        return (object,)
    if isinstance(hint, UnionType):
        return tuple(one for part in get_args(hint) for one in _classes_of(part))
    found = get_origin(hint) or hint
    return (int, float) if found is float else (found,)


def _names_of(hint: Any) -> list[str]:
    return [one.__name__ for one in _classes_of(hint)]


def _is_shape(shape: Any) -> bool:
    """Whether it is the shape of an input: whole numbers, or a list or object of such."""
    if isinstance(shape, dict):
        return all(_is_shape(one) for one in shape.values())
    return isinstance(shape, list) and (
        all(isinstance(one, int) for one in shape) or all(_is_shape(one) for one in shape)
    )


def state_digest(state: Mapping[str, Any]) -> str:
    """SHA-256 of a json object, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Difference:
    """A named value in which configurations are not all alike: what each has; None: nothing."""

    name: str
    values: tuple[Any, ...]


def differences(configurations: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """In what the configurations are not all alike, in the order in which names first come."""
    names = dict.fromkeys(name for values in configurations for name in values)
    every = (Difference(name, tuple(one.get(name) for one in configurations)) for name in names)
    return [found for found in every if any(value != found.values[0] for value in found.values)]


def there_and_now(found: Sequence[Difference], most: int = 4) -> str:
    """Differences of a folder's configuration and a new one, in words: `most` of them."""
    shown = [f"{one.name}: {one.values[0]} there, {one.values[1]} now" for one in found[:most]]
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return "; ".join(shown) + more


def _from_weights(config: RunConfig, folder: Path) -> str:
    """Advice for training on: the same command from the run's weights, or the same in Python."""
    words = shlex.split(config.provenance.command)
    if words[:2] != ["revgrad", "train"]:
        return f"network = revgrad.load({str(folder)!r}, network).network, then adapt it elsewhere"
    for flag in ("--output", "-o"):
        if flag in words[:-1]:
            words[words.index(flag) + 1] = f"{folder}-continued"
    return shlex.join([*words, "--init", str(folder)])


def this_command() -> str:
    """The command that started this process, as one could type it again."""
    program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    if program == "__main__.py":
        program = "revgrad"
    return shlex.join([program, *sys.argv[1:]])


def _read_lines(
    path: Path, saved: int, *, resuming: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines of the metrics, each with the place of its end.

    The first `saved` bytes, which a checkpoint counts on, must be there and whole. Behind them a
    kill may have cut a line short, and whoever is `resuming` makes all of them again.
    """
    try:
        with open(regular(path), "rb") as file:
            end = 0
            for number, line in enumerate(file, start=1):
                end += len(line)
                try:
                    values = unsealed_line(line.decode())
                except ValueError as error:
                    if end <= saved or (line.endswith(b"\n") and not resuming):
                        raise RunError(_damaged(path, f"line {number}: {error}")) from None
                    return
                yield end, values
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunError(f"{path} can't be read: {error.strerror}") from None
    if end < saved:
        raise RunError(_damaged(path, f"it ends after {end} of {saved} bytes"))


def _damaged(path: Path, what: str) -> str:
    return (
        f"{path} is damaged ({what}): restore it from a copy, or delete it to go on without the "
        "metrics so far"
    )
