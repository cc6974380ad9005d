"""Checkpoints: tensors in safetensors, the rest in json, committed by one rename.

`checkpoint.json` names the tensor file and its SHA-256, and has a SHA-256 of its own. It is
replaced only when the tensor file is safely on disk, so what it names is always whole. Loading
reads numbers and text; it runs no code.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from revgrad._distributed import rank
from revgrad._seals import unsealed, write_sealed
from revgrad._system import read_file, sha256, sync, write_atomically
from revgrad.errors import CheckpointError
from revgrad.training.sharding import Place, put, read_shards, write_shards

FORMAT = 1
#: Of an optimiser's groups: its parameters, and the kernels, which sharded weights have others of.
_OWN = ("params", "fused", "foreach")
INDEX = "checkpoint.json"


@dataclass(frozen=True)
class Checkpoint:
    """The state of training after `step` steps."""

    step: int
    seconds: float
    tensors: dict[str, Tensor]
    optimiser: dict[str, Any]  # the json half of the optimiser's state


@dataclass(frozen=True)
class _Index:
    format: int
    step: int
    seconds: float
    file: str
    sha256: str
    optimiser: dict[str, Any]
    metrics: int = 0
    #: of a sharded network `file` is a folder: the SHA-256 of each file in it, by name
    shards: dict[str, str] = field(default_factory=dict)


def save_checkpoint(folder: Path, checkpoint: Checkpoint, *, metrics: int = 0) -> None:
    """Write the tensors under a new name, then rename the index over the old one.

    Parameters
    ----------
    metrics
        bytes of the run's metrics so far: they belong to this state
    """
    from safetensors.torch import save

    data = save({name: _plain(value) for name, value in checkpoint.tensors.items()})
    digest = sha256(data)
    name = f"checkpoint-{checkpoint.step:08d}-{digest[:8]}.safetensors"
    write_atomically(folder / name, data)
    index = _Index(
        FORMAT, checkpoint.step, checkpoint.seconds, name, digest, checkpoint.optimiser, metrics
    )
    write_sealed(folder / INDEX, asdict(index))
    _keep_only(folder, name)


def save_sharded(folder: Path, checkpoint: Checkpoint, *, metrics: int = 0) -> None:
    """`save_checkpoint` by all processes together, each its parts of the tensors."""
    part = folder / f".checkpoint-{checkpoint.step:08d}.part"
    shards = write_shards(part, checkpoint.tensors)
    digest = sha256(json.dumps(shards).encode())
    name = f"checkpoint-{checkpoint.step:08d}-{digest[:8]}"
    if rank() != 0:
        return
    if (folder / name).exists():  # the same state, written before a stop
        shutil.rmtree(part)
    else:
        sync(part)
        part.rename(folder / name)
        sync(folder)
    index = _Index(
        FORMAT, checkpoint.step, checkpoint.seconds, name, digest, checkpoint.optimiser, metrics
    )
    write_sealed(folder / INDEX, asdict(replace(index, shards=shards)))
    _keep_only(folder, name)


def sweep(folder: Path) -> None:
    """Remove what a process that was killed left: half-written files, here and in the run's own
    folders (evidence), and tensors that no index names."""
    for part in [*folder.glob(".*.part"), *folder.glob("*/.*.part")]:
        _remove(part)
    with contextlib.suppress(CheckpointError):  # who loads it will say what is wrong
        index = _read_index(folder)
        if index is not None:
            _keep_only(folder, index.file)


def metrics_saved(folder: Path) -> int:
    """Bytes of the metrics that the last checkpoint counts on; 0 where there is none."""
    index = _read_index(folder)
    return 0 if index is None else index.metrics


def load_checkpoint(folder: Path, place: Place | None = None) -> Checkpoint | None:
    """The last committed checkpoint; None where there is none yet.

    Parameters
    ----------
    place
        what each tensor is read into, by all processes together, where the network is sharded
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    index = _read_index(folder)
    if index is None:
        return None
    if index.shards:
        tensors = read_shards(folder / index.file, index.shards, place)
        return Checkpoint(index.step, index.seconds, tensors, index.optimiser)
    try:
        data = read_file(folder / index.file)
    except OSError as error:
        raise CheckpointError(f"{folder / index.file} can't be read: {error.strerror}") from error
    if sha256(data) != index.sha256:
        raise CheckpointError(_altered(folder / index.file))
    try:
        tensors = load(data)
    except SafetensorError as error:
        raise CheckpointError(
            f"{folder / index.file} is not a safetensors file: {error}"
        ) from error
    if place is not None:
        tensors = {k: put(v, place(k, v.shape, v.dtype)) for k, v in tensors.items()}
    return Checkpoint(index.step, index.seconds, tensors, index.optimiser)


def _read_index(folder: Path) -> _Index | None:
    path = folder / INDEX
    try:
        text = read_file(path).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} can't be read: {error}") from error
    try:
        index = _Index(**unsealed(text, required=True))
        if Path(index.file).name != index.file or index.file in ("", ".."):
            raise ValueError("it names a file outside its folder")
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is not a checkpoint's index: {error}") from error
    if index.format != FORMAT:
        raise CheckpointError(f"{path} has format {index.format}; this version reads {FORMAT}")
    return index


def _keep_only(folder: Path, name: str) -> None:
    for old in folder.glob("checkpoint-*"):
        if old.name != name and (old.is_dir() or old.suffix == ".safetensors"):
            with contextlib.suppress(OSError):
                _remove(old)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _altered(path: Path) -> str:
    return (
        f"{path} was altered since it was written (SHA-256 differs): restore it from a copy, "
        "or start the run again in another folder"
    )


def optimiser_state(optimiser: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimiser's state as named tensors and json."""
    state = optimiser.state_dict()
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, dict[str, Any]] = {}
    for index, values in state["state"].items():
        for name, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"{index}.{name}"] = value
            else:
                numbers.setdefault(str(index), {})[name] = value
    groups = [
        {key: value for key, value in group.items() if _is_json(value)}
        for group in state["param_groups"]
    ]
    return tensors, {"state": numbers, "groups": groups}


def restore_optimiser(
    optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor], rest: dict[str, Any]
) -> None:
    """Put a saved state back, each tensor in the memory order of its parameter.

    The order matters: kernels round differently along different strides.
    """
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    current = optimiser.state_dict()
    saved: dict[int, dict[str, Any]] = {
        int(index): dict(values) for index, values in rest["state"].items()
    }
    for key, value in tensors.items():
        index, name = key.split(".", 1)
        if int(index) >= len(parameters):
            raise CheckpointError(f"the checkpoint's optimiser knows {key}; this one does not")
        parameter = parameters[int(index)]
        if _lies_like(parameter, name, value):
            value = torch.empty_like(parameter, requires_grad=False, dtype=value.dtype).copy_(value)
        saved.setdefault(int(index), {})[name] = value
    groups = []
    if len(current["param_groups"]) != len(rest["groups"]):
        raise CheckpointError("the checkpoint's optimiser has another number of parameter groups")
    for now, then in zip(current["param_groups"], rest["groups"], strict=True):
        restored = {k: _like(now.get(k), v) for k, v in then.items() if k not in _OWN}
        groups.append({**now, **restored})
    optimiser.load_state_dict({"state": saved, "param_groups": groups})
    # load_state_dict may change the memory order of what it copies: put ours in
    for number, values in saved.items():
        parameter = parameters[number]
        for name, value in values.items():
            if isinstance(value, Tensor) and _lies_like(parameter, name, value):
                optimiser.state[parameter][name] = value


def tensors_under(tensors: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors whose names begin with `name.`, without that beginning."""
    prefix = f"{name}."
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _lies_like(parameter: Tensor, name: str, value: Tensor) -> bool:
    """Whether a state tensor has one number per weight (Adam's step counter never has)."""
    return name != "step" and value.shape == parameter.shape


def _plain(value: Tensor) -> Tensor:
    """A tensor that shares memory with no other, in the plain order, on the CPU."""
    copy = value.detach().cpu().contiguous()
    return copy.clone() if copy.data_ptr() == value.data_ptr() else copy


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


def _like(now: Any, value: Any) -> Any:
    return tuple(value) if isinstance(now, tuple) else value
