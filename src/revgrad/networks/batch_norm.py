"""BatchNorm in a network, torch's layers or one's own: what it keeps of the batches it saw.

torch's layers can be told not to keep anything. Of a class of one's own, or a call of F.batch_norm,
nothing is known but that what it keeps for inference lies in buffers: while its statistics are
frozen, it gets copies of them to write into.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from revgrad.batch import Inputs, call_on, sample_count, select_samples, tensors_of
from revgrad.errors import InputError

_TORCHS = nn.modules.batchnorm._BatchNorm
_OBEDIENT = (_TORCHS.forward, nn.SyncBatchNorm.forward)  # these heed `track_running_stats`
_NAMES = ("running_mean", "running_var")
#: Functions that write running statistics, with the place of the mean among their arguments.
_FUNCTIONS = {F.batch_norm: 1, torch.batch_norm: 3, F.instance_norm: 1, torch.instance_norm: 3}


def batch_norms(network: nn.Module) -> list[nn.Module]:
    """BatchNorm layers: torch's, and innermost modules with buffers named like theirs."""
    return [module for module in network.modules() if _is_batch_norm(module)]


def normalises_batches(part: nn.Module) -> bool:
    """Whether a network, or a traced part of one, has normalisation that keeps statistics."""
    calls = part.graph.nodes if isinstance(part, fx.GraphModule) else ()
    return bool(batch_norms(part)) or any(node.target in _FUNCTIONS for node in calls)


class RunningStatistics:
    """Running statistics of a network: what its layers keep of batches, for inference."""

    def __init__(self, network: nn.Module) -> None:
        self._network = network
        self.of_torch = [m for m in network.modules() if isinstance(m, _TORCHS)]
        self._obedient = [m for m in self.of_torch if type(m).forward in _OBEDIENT]
        told = set(self._obedient)
        self._others = [m for m in network.modules() if m._buffers and m not in told]
        self._looked = False

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Inside, training normalises by the batch, and what is kept for inference stays as it is.

        Raises InputError where running statistics are not in buffers.
        """
        tracking = [norm.track_running_stats for norm in self._obedient]
        kept = [
            (module, name, buffer)
            for module in self._others
            for name, buffer in module._buffers.items()
            if buffer is not None
        ]
        look = nullcontext() if self._looked else _RefusePlainTensors(self._network)
        copies: dict[int, Tensor] = {}  # a buffer may have two owners
        try:
            for norm in self._obedient:
                norm.track_running_stats = False
            for module, name, buffer in kept:
                if id(buffer) not in copies:
                    copies[id(buffer)] = buffer.clone()
                module._buffers[name] = copies[id(buffer)]
            with look:
                yield
            self._looked = True
        finally:
            for norm, mode in zip(self._obedient, tracking, strict=True):
                norm.track_running_stats = mode
            for module, name, buffer in kept:
                module._buffers[name] = buffer

    @torch.no_grad()
    def depend_on_batch(self, inputs: Inputs, count: int) -> bool:
        """Whether the network's samples meet: in a training pass, what it gives for the first
        `count` samples of `inputs`, or what it keeps in buffers, depends on the other samples.

        Two passes that leave no trace, of these inputs and with other samples in place of those
        behind the first, tell. They draw the same random numbers.
        """
        device = tensors_of(inputs)[0].device
        repeated = torch.arange(sample_count(inputs), device=device) % count
        found: list[list[Tensor]] = []
        for given in (inputs, select_samples(inputs, repeated)):
            with (
                torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
                self.frozen(),
            ):
                leaves = pytree.tree_leaves(call_on(self._network, given))
                results = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.ndim]
                found.append([*(r[:count] for r in results), *self._network.buffers()])
        return any(_differ(*pair) for pair in zip(*found, strict=True))


class _RefusePlainTensors(TorchFunctionMode):
    """Inside, running statistics in tensors that are no buffers of the network are refused."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self._network = network

    def __enter__(self) -> Any:
        for path, module in self._network.named_modules():
            for name in _NAMES:
                if isinstance(vars(module).get(name), Tensor):
                    raise _not_a_buffer(f"'{path}.{name}'" if path else f"'{name}'")
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        place = _FUNCTIONS.get(func)
        if place is not None:
            mean = args[place] if len(args) > place else (kwargs or {}).get("running_mean")
            if isinstance(mean, Tensor) and not self._is_buffer(mean):
                raise _not_a_buffer(self._name(mean) or f"a call of {func.__name__}")
        return func(*args, **(kwargs or {}))

    def _is_buffer(self, tensor: Tensor) -> bool:
        memory = tensor.untyped_storage().data_ptr()  # a row of a buffer is one
        return any(b.untyped_storage().data_ptr() == memory for b in self._network.buffers())

    def _name(self, tensor: Tensor) -> str | None:
        for path, module in self._network.named_modules():
            for name, value in vars(module).items():
                if value is tensor:
                    return f"'{path}.{name}'" if path else f"'{name}'"
        return None


def _not_a_buffer(where: str) -> InputError:
    return InputError(
        f"{where} keeps running statistics in a plain tensor, which batch_norm policies can't hold "
        "(nor does the network's state_dict): make it a buffer by register_buffer"
    )


def _is_batch_norm(module: nn.Module) -> bool:
    if isinstance(module, _TORCHS):
        return True
    own = all(module._buffers.get(name) is not None for name in _NAMES)
    return own and not any(True for _ in module.children())


def _differ(one: Tensor, other: Tensor) -> bool:
    """Beyond what the order of sums does."""
    if one.shape != other.shape:
        return True
    one, other = one.double(), other.double()
    near = 1e-3 * float(one.abs().max()) if one.numel() else 0.0
    return not torch.allclose(one, other, rtol=0, atol=near, equal_nan=True)
