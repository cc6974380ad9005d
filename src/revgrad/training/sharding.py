"""Sharded networks (FSDP2): each process keeps a part of every weight, of its gradient and of the
optimiser's state, and gets the others' parts of a block while the block computes.

Checkpoints are written by torch.distributed.checkpoint, each process its parts, as safetensors.
"""

from __future__ import annotations

import copy
import hashlib
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn

from revgrad._distributed import (
    from_every_process,
    full_tensor,
    is_sharded,
    rank,
    share_buffers,
    sharing_out,
    world_size,
)
from revgrad._system import disk_error, disk_errors, regular, sync
from revgrad.adapter import DomainAdapter
from revgrad.cutting import cut
from revgrad.errors import CheckpointError, InputError, RunError
from revgrad.training.activations import blocks
from revgrad.training.paired_batches import PairedBatches

#: (name, shape, type) → the tensor that a checkpoint's tensor of that name is read into.
Place = Callable[[str, torch.Size, torch.dtype], Tensor]


def sharded(adapter: DomainAdapter, device: torch.device) -> DomainAdapter:
    """A copy of the adapter whose weights, process 0's, are divided among the processes.

    Blocks are divided one by one: at most one of them, and what lies in none, is whole at a time.
    The adapter itself stays as it is, in the memory where it is.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    try:
        own = copy.deepcopy(adapter)
    except Exception as error:
        raise InputError(
            f"shard: {type(adapter.network).__name__} can't be copied ({error}); a sharded network "
            "is a copy of yours, which gets the weights at the end"
        ) from error
    for name, value in own.named_parameters():
        if not value.ndim:
            raise InputError(
                f"shard: the parameter {name} is a single number without a dimension, which can't "
                "be divided: give it the shape (1,)"
            )
    with torch.no_grad():
        state: list[Tensor] = [*own.parameters(), *own.buffers()]
        for held in state:
            first = held.detach().to(device)
            torch.distributed.broadcast(first, src=0)
            held.copy_(first)
    # a traced feature extractor goes around the blocks: a tap runs the network's own forward
    own.cut = cut(own.network, own.cut.layer, tap=True, output=own.output, also=own.cut.also)
    mesh = init_device_mesh(device.type, (world_size(),))
    heads = [head for head in own.heads if next(head.parameters(), None) is not None]
    for part in (*_units(own.network, own.layer), own.network, *heads):
        part.register_forward_hook(_no_view)
        # whole only while it computes: then every weight outside a pass is a part
        fully_shard(part, mesh=mesh, reshard_after_forward=True)
    own.to(device)
    return own


def _no_view(module: nn.Module, inputs: Any, output: Any) -> Any:
    """What a block gives back must be no view: an operation in place behind it would lose the hook
    by which the block gets its weights again in the backward pass."""
    is_view = isinstance(output, Tensor) and output._is_view()
    return output.clone() if is_view else output


def _units(network: nn.Module, layer: str) -> list[nn.Module]:
    """Blocks that share no weight with anything outside them."""
    owners: dict[int, int] = {}
    for module in network.modules():
        for value in module.parameters(recurse=False):
            owners[id(value)] = owners.get(id(value), 0) + 1

    def is_alone(block: nn.Module) -> bool:
        inside: dict[int, int] = {}
        for module in block.modules():
            for value in module.parameters(recurse=False):
                inside[id(value)] = inside.get(id(value), 0) + 1
        return bool(inside) and all(owners[key] == count for key, count in inside.items())

    return [block for block in blocks(network, layer) if is_alone(block)]


def check_alike(batches: PairedBatches, adapter: DomainAdapter, micro_batch: int | None) -> None:
    """Refuse what would let processes run different parts of the network in one step: each would
    wait for weights that the others do not give."""
    world, sizes = batches.world, batches.sizes
    if min(sizes) < world:
        raise InputError(
            f"shard: a batch has {min(sizes)} samples of a domain for {world} processes, and each "
            "needs one: a larger batch_size would do"
        )
    own = [size for size, one in zip(sizes, batches.domains, strict=True) if _is_labelled(one)]
    if not own:
        raise InputError(
            "shard: each process needs a labelled sample in every batch, and no domain has labels "
            "for all its samples: leave out the source's samples without a label (subset)"
        )
    if micro_batch is not None:
        uneven = any(size % world for size in sizes)
        parts = -(-sum(sizes) // (world * micro_batch)) + len(sizes)
        if uneven or max(own) // world < parts:
            raise InputError(
                f"shard: with micro_batch={micro_batch} all {world} processes need equally many "
                f"parts, each with labelled samples; batches have {list(sizes)} samples of each "
                "domain: an even batch_size, or a larger micro_batch would do"
            )
    if adapter.batch_norm != "joint" and adapter.samples_meet(batches.batch(0)):
        raise InputError(
            f"shard: with batch_norm='{adapter.batch_norm}' domains pass one by one, and not all "
            "of the network runs for each: batch_norm='joint', or layers that do not normalise "
            "over the batch (LayerNorm, GroupNorm) would do"
        )


def _is_labelled(domain: Any) -> bool:
    return bool(domain.labelled_count == len(domain))


class ShardedStep(nn.Module):
    """A step of a sharded adapter, as DistributedDataParallel wraps one of a whole adapter:
    gradients are averaged, BatchNorm's statistics are process 0's."""

    def __init__(self, step: nn.Module, adapter: DomainAdapter) -> None:
        super().__init__()
        self.step = step
        self.adapter = adapter

    def forward(self, *values: Any) -> Any:
        share_buffers(self.adapter)
        return self.step(*values)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients stay each process's own."""
        parts: list[Any] = [self.adapter.network, *self.adapter.heads]
        parts = [part for part in parts if hasattr(part, "set_requires_gradient_sync")]
        for part in parts:
            part.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            for part in parts:
                part.set_requires_gradient_sync(True)


@torch.no_grad()
def hand_back(own: DomainAdapter, adapter: DomainAdapter) -> None:
    """The sharded adapter's weights, whole, into the adapter that it is a copy of."""
    into = adapter.state_dict()
    for name, value in own.state_dict().items():
        into[name].copy_(full_tensor(value))


def write_shards(folder: Path, tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Every process's parts of the tensors, as files of their own; the files' SHA-256 by name."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    if rank() == 0:
        shutil.rmtree(folder, ignore_errors=True)
        with disk_errors(folder):
            folder.mkdir(parents=True)
    torch.distributed.barrier()
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    parts = {name: _apart(value) for name, value in tensors.items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of how torch pickles plans between our own processes
            save(parts, storage_writer=writer)
    except CheckpointException as error:  # what went wrong in any process, told to all of them
        reason = next(iter(error.failures.values()))[0]
        said = disk_error(folder, reason) if isinstance(reason, OSError) else f"{folder}: {reason}"
        raise RunError(said) from None
    files = sorted(folder.glob("*.safetensors"))[rank() :: world_size()]
    for path in files:
        sync(path)
    with sharing_out():
        found = from_every_process({path.name: digest_of(path) for path in files})
    return dict(sorted((name, value) for part in found for name, value in part.items()))


def read_shards(folder: Path, files: Mapping[str, str], place: Place | None) -> dict[str, Tensor]:
    """The tensors that `write_shards` wrote, on any number of processes.

    Parameters
    ----------
    files
        their SHA-256, checked first
    place
        what each is read into, by all processes together; None: whole, by this process alone
    """
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    alone = place is None
    names = list(files) if alone else list(files)[rank() :: world_size()]
    bad = [name for name in names if digest_of(folder / name) != files[name]]
    bad += sorted({path.name for path in folder.glob("*.safetensors")} - set(files))  # not ours
    if not alone:
        with sharing_out():
            bad = [name for part in from_every_process(bad) for name in part]
    if bad:
        raise CheckpointError(
            f"{folder / bad[0]} is missing or was altered since it was written (SHA-256 "
            "differs): restore it from a copy, or start the run again in another folder"
        )
    reader = HuggingFaceStorageReader(str(folder))
    described: Mapping[str, Any] = reader.read_metadata().state_dict_metadata
    made = whole if place is None else place
    tensors = {name: made(name, one.size, one.properties.dtype) for name, one in described.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        load(tensors, storage_reader=reader, no_dist=alone)
    return tensors


def whole(name: str, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """A place for a tensor that is not divided."""
    return torch.empty(shape, dtype=dtype)


@torch.no_grad()
def put(value: Tensor, into: Tensor) -> Tensor:
    """A whole tensor's own part into `into`."""
    if not is_sharded(into):
        return into.copy_(value)
    from torch.distributed.tensor import distribute_tensor

    like: Any = into
    part = distribute_tensor(
        value.to(into.device), like.device_mesh, like.placements, src_data_rank=None
    )
    return into.copy_(part)


def digest_of(path: Path) -> str:
    """A file's SHA-256; "" where it can't be read."""
    try:
        with open(regular(path), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _apart(value: Tensor) -> Tensor:
    """A tensor in plain order that shares memory with no other."""
    value = value.detach()
    return value if is_sharded(value) else value.cpu().contiguous().clone()
