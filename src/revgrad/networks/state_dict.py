"""Weights from a file, by name: safetensors, or a PyTorch file of which only tensors are read."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from revgrad.errors import DataError, InputError, some

#: Under these names, training scripts keep the state dict inside a larger checkpoint.
WRAPPERS = ("state_dict", "model", "model_state_dict")


def read_state_dict(path: Path | str) -> dict[str, Tensor]:
    """The tensors of a `.safetensors` file, or of a `.pth`, `.pt` or `.bin` file; on the CPU.

    Nothing in the file is run: PyTorch's files are read weights-only. A state dict inside a
    larger checkpoint is found, and the "module." that DataParallel puts in front is left out.
    """
    file = Path(path)
    if file.is_dir():
        raise DataError(f"{file} is a folder: a file of weights was expected")
    if file.exists() and not file.is_file():  # a pipe would make its reader wait for ever
        raise DataError(f"{file} is no regular file: a file of weights was expected")
    reader = _read_safetensors if file.suffix == ".safetensors" else _read_pickled
    try:
        found = reader(file)
    except FileNotFoundError:
        raise DataError(f"there is no file of weights {file}") from None
    except Exception as error:  # many kinds, for many ways to be no state dict
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        if isinstance(error, pickle.UnpicklingError):  # PyTorch's advice would run its code
            reason = "it is none, or holds more than tensors, which is never loaded"
        raise DataError(f"{file} is not a readable file of weights: {reason}") from error
    for name in WRAPPERS:
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            found = found[name]
    if not isinstance(found, Mapping) or not found:
        raise DataError(f"{file} holds no state dict")
    tensors = {str(name): value for name, value in found.items() if isinstance(value, Tensor)}
    if not tensors:
        raise DataError(f"{file} holds no tensors by name")
    if all(name.startswith("module.") for name in tensors):
        tensors = {name.removeprefix("module."): value for name, value in tensors.items()}
    return tensors


def fill_backbone(
    network: nn.Module,
    state: Mapping[str, Tensor],
    is_new: Callable[[str], bool],
    origin: str,
) -> None:
    """Copy `state` into the network but for the tensors that are new (`is_new` of their name).

    What the state has beyond them is left. Nothing is changed unless everything fits.
    """
    wanted = {name: v for name, v in network.state_dict().items() if not is_new(name)}
    # counted by BatchNorm since PyTorch 0.4.1 only; nothing depends on it
    missing = [n for n in wanted if n not in state and not n.endswith("num_batches_tracked")]
    if missing:
        raise InputError(
            f"{origin} lacks {some(missing, 3)}, which {type(network).__name__} needs: it has "
            f"{some(list(state), 3)}"
        )
    for name, value in wanted.items():
        if name in state and state[name].shape != value.shape:
            raise InputError(
                f"'{name}' of {origin} has shape {tuple(state[name].shape)}; "
                f"{type(network).__name__} takes {tuple(value.shape)}"
            )
    network.load_state_dict({n: state[n] for n in wanted if n in state}, strict=False)


def _read_safetensors(path: Path) -> Any:
    from safetensors.torch import load_file

    return load_file(path)


def _read_pickled(path: Path) -> Any:
    return torch.load(path, map_location="cpu", weights_only=True)
