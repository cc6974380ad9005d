"""The adapted network as one file: its weights, a torch.export program, or ONNX.

| suffix         | holds                                                                      |
| -------------- | -------------------------------------------------------------------------- |
| `.safetensors` | the plain network's own state dict; the header's metadata entry            |
|                | `preprocessing` has the preprocessing's state as JSON (name → numbers)      |
| `.pt`          | the same state dict, for `torch.load(…, weights_only=True)`                |
| `.pt2`         | preprocessing + network by torch.export, from raw inputs to outputs        |
| `.onnx`        | preprocessing + network as ONNX (opset 18), from raw inputs to outputs     |

Programs take any number of samples. Everything is made from a copy on the CPU in evaluation mode,
so the network itself stays as it was; a program is compared with the network before it is written.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import logging
import pickle
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from revgrad._system import write_atomically
from revgrad.adapter import DeployableModel, DomainAdapter, evaluating
from revgrad.batch import Inputs, concatenate, map_inputs, sample_count, select_samples, tensors_of
from revgrad.errors import ExportError, InputError, RevgradError, missing_extra, unknown
from revgrad.reversal import NOT_EXPORTED

#: Kinds of file, each also the suffix that asks for it, and what the file holds.
KINDS = {
    "safetensors": "the network's weights",
    "pt": "the network's weights, for torch.load",
    "pt2": "preprocessing and network, for torch.export.load",
    "onnx": "preprocessing and network as ONNX",
}

#: Version of the ONNX operators: the oldest that torch's exporter writes.
OPSET = 18

#: Largest difference between a program's output and the network's, per unit of the largest output.
TOLERANCE = 1e-4
_TOLERANCES = {torch.float16: 1e-2, torch.bfloat16: 1e-1}

#: More numbers than this are not written into a header as text.
_HEADER_NUMBERS = 1_000_000

#: Samples of the example that a program is made with. torch.export takes 0 and 1 for constants.
_FEWEST_SAMPLES, _MOST_SAMPLES = 2, 4


class Exportable(Protocol):
    """A plain network with the preprocessing that belongs in front of it."""

    @property
    def network(self) -> nn.Module:
        """The plain network."""

    @property
    def preprocessing(self) -> nn.Module:
        """What belongs in front of it."""


def is_program(path: Path | str, kind: str | None = None) -> bool:
    """Whether a file of that name holds a program, which is made with example inputs."""
    return _kind(Path(path), kind) in ("pt2", "onnx")


def export(
    adapted: Exportable | nn.Module,
    path: Path | str,
    example: Inputs | None = None,
    *,
    kind: str | None = None,
    check: bool = True,
) -> Path:
    """Write the adapted network to `path`, whole or not at all, and return the path.

    Parameters
    ----------
    adapted
        what `adapt` returned, a `DeployableModel` or a `DomainAdapter`; any other module is
        taken as it is, without preprocessing
    path
        the file; its suffix says what it is: `.safetensors`, `.pt`, `.pt2` or `.onnx`
    example
        raw inputs, one sample at least, for `.pt2` and `.onnx`: their shapes but for the
        number of samples, and their types, are the program's. A program of a tuple or dict
        of tensors takes one of the same structure; ONNX names them `inputs_0`, … or by the
        dict's keys, a single tensor `images` (uint8) or `inputs`, a single result `outputs`
    kind
        one of `KINDS`; the path's suffix by default
    check
        compare the program with the network, on random inputs and other numbers of samples

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> revgrad.export(network, "model.safetensors").name
    'model.safetensors'
    """
    file = Path(path)
    chosen = _kind(file, kind)
    if file.is_dir() or not file.parent.is_dir():
        missing = "is a folder" if file.is_dir() else f"lies in no folder ({file.parent} is none)"
        raise InputError(f"can't export to {file}: it {missing}; give the path of a new file")
    model = _shipped(adapted)
    if chosen == "onnx":
        _require(("onnx", "onnxscript", *(("onnxruntime",) if check else ())))
    with _in_one_line(file):
        if chosen == "safetensors":
            data = _safetensors(model)
        elif chosen == "pt":
            data = _state_dict_file(model)
        else:
            inputs = _example_rows(example, chosen)
            frozen = _frozen_copy(model, inputs)
            inputs = map_inputs(lambda tensor: tensor.detach().cpu(), inputs)
            program = _program(frozen, inputs)
            make, load = (_onnx, _run_onnx) if chosen == "onnx" else (_pt2, _run_pt2)
            data = make(program, inputs)
            if check:
                _compare(file, frozen, load(data, inputs), inputs)
    write_atomically(file, data)
    return file


def _kind(file: Path, kind: str | None) -> str:
    if kind is not None:
        if kind not in KINDS:
            raise unknown("kind of export", kind, KINDS)
        return kind
    suffix = file.suffix.lower()
    if suffix[1:] not in KINDS:
        known = ", ".join(f".{name} ({holds})" for name, holds in KINDS.items())
        raise InputError(f"the suffix says what to export: {known}; not '{suffix}' as in {file}")
    return suffix[1:]


def _shipped(adapted: Any) -> DeployableModel:
    if isinstance(adapted, nn.Module) and not isinstance(adapted, DeployableModel | DomainAdapter):
        preprocessing: Any = nn.Identity()
        network: Any = adapted
        part = None
    else:
        preprocessing = getattr(adapted, "preprocessing", None)
        network = getattr(adapted, "network", None)
        part = getattr(adapted, "output", None)
    if not isinstance(preprocessing, nn.Module) or not isinstance(network, nn.Module):
        raise InputError(
            f"export takes a network or what adapt returned, not {type(adapted).__name__}"
        )
    # torch.compile's wrapper would put its own name before every key
    return DeployableModel(preprocessing, getattr(network, "_orig_mod", network), part)


def _require(packages: Sequence[str]) -> None:
    for package in packages:
        if find_spec(package) is None:
            raise missing_extra(package, "export", "export to ONNX")


def _state(module: nn.Module) -> dict[str, Any]:
    """The state dict with tensors of their own memory: whole, contiguous, on the CPU."""
    return {
        key: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        if isinstance(value, Tensor)
        else value
        for key, value in module.state_dict().items()
    }


def _safetensors(model: DeployableModel) -> bytes:
    from safetensors.torch import save

    state = _state(model.network)
    for key, value in state.items():
        if not isinstance(value, Tensor):
            raise ExportError(
                f"the network's state has a {type(value).__name__}, '{key}', and safetensors holds "
                "tensors only: export .pt"
            )
    metadata = {"format": "pt"}
    numbers = {k: v for k, v in _state(model.preprocessing).items() if isinstance(v, Tensor)}
    count = sum(tensor.numel() for tensor in numbers.values())
    if count > _HEADER_NUMBERS:
        raise ExportError(
            f"the preprocessing has {count} numbers, too many for the header of a safetensors "
            "file: export .pt2 or .onnx, which hold it"
        )
    if numbers:
        metadata["preprocessing"] = json.dumps({k: v.tolist() for k, v in numbers.items()})
    return bytes(save(state, metadata))


def _state_dict_file(model: DeployableModel) -> bytes:
    buffer = io.BytesIO()
    torch.save(_state(model.network), buffer)
    buffer.seek(0)
    try:
        torch.load(buffer, weights_only=True)
    except pickle.UnpicklingError as error:  # tensors pass; an extra state may not
        raise ExportError(
            "the network's state holds more than tensors and plain values (get_extra_state), and "
            "torch.load(…, weights_only=True) would refuse it: export .pt2 or .onnx"
        ) from error
    return buffer.getvalue()


def _example_rows(example: Inputs | None, kind: str) -> Inputs:
    if example is None:
        raise InputError(f"a .{kind} file needs an example: raw inputs of the network, two samples")
    tensors = pytree.tree_leaves(example)
    if not tensors or not all(isinstance(x, Tensor) and x.ndim for x in tensors):
        raise InputError("an example is a tensor, or a tuple or dict of tensors, with samples")
    counts = {len(tensor) for tensor in tensors}
    if len(counts) > 1 or counts == {0}:
        raise InputError(
            "an example's tensors have the same number of samples, at least 1, not "
            f"{sorted(counts)}"
        )
    samples = select_samples(example, slice(0, _MOST_SAMPLES))
    return (
        samples
        if sample_count(samples) >= _FEWEST_SAMPLES
        else concatenate([samples] * _FEWEST_SAMPLES)
    )


def _frozen_copy(model: DeployableModel, inputs: Inputs) -> DeployableModel:
    """A copy on the CPU in evaluation mode, with contiguous weights that get no gradient."""
    parameter = next(model.parameters(), None)
    device = torch.device("cpu") if parameter is None else parameter.device
    with evaluating(model), torch.no_grad():
        try:
            # also settles what a network computes as it runs (weight norm) and can't be copied
            model(map_inputs(lambda tensor: tensor.to(device), inputs))
        except Exception as error:
            raise ExportError(f"the network does not take the example: {_reason(error)}") from error
        frozen = copy.deepcopy(model)
    frozen.eval().requires_grad_(False).to("cpu")
    for tensor in (*frozen.parameters(), *frozen.buffers()):
        tensor.data = tensor.data.clone(memory_format=torch.contiguous_format)
    return frozen


def _program(frozen: DeployableModel, inputs: Inputs) -> torch.export.ExportedProgram:
    samples = torch.export.Dim("batch")
    free: Any
    if isinstance(inputs, Tensor):
        free = {0: samples}
    elif isinstance(inputs, dict):
        free = {key: {0: samples} for key in inputs}
    else:
        free = tuple({0: samples} for _ in inputs)
    with torch.no_grad(), _quiet():
        return torch.export.export(frozen, (inputs,), dynamic_shapes=(free,), strict=False)


def _pt2(program: torch.export.ExportedProgram, inputs: Inputs) -> bytes:
    buffer = io.BytesIO()
    with _quiet():
        torch.export.save(program, buffer)
    return buffer.getvalue()


def _run_pt2(data: bytes, example: Inputs) -> Callable[[Inputs], list[Tensor]]:
    with _quiet():
        module = torch.export.load(io.BytesIO(data)).module()
    return lambda inputs: _leaves(module(inputs))


def _onnx(program: torch.export.ExportedProgram, inputs: Inputs) -> bytes:
    single = len(program.graph_signature.user_outputs) == 1
    with _quiet():
        made = torch.onnx.export(
            program,
            dynamo=True,
            opset_version=OPSET,
            input_names=_names(inputs),
            output_names=["outputs"] if single else None,
            verbose=False,
        )
    if made is None:
        raise ExportError("torch.onnx made nothing")
    model = made.model_proto
    first = model.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    described = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    for value in described:  # torch's own name for the number of samples says nothing
        for dim in value.type.tensor_type.shape.dim:
            if first and dim.dim_param:
                dim.dim_param = re.sub(rf"\b{re.escape(first)}\b", "batch", dim.dim_param)
    return bytes(model.SerializeToString())


def _run_onnx(data: bytes, example: Inputs) -> Callable[[Inputs], list[Tensor]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what fails is raised
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = _names(example)
    taken = {value.name for value in session.get_inputs()}

    def run(inputs: Inputs) -> list[Tensor]:
        feed = {
            name: tensor.numpy()
            for name, tensor in zip(names, tensors_of(inputs), strict=True)
            if name in taken
        }
        return [torch.from_numpy(output) for output in session.run(None, feed)]

    return run


def _names(inputs: Inputs) -> list[str]:
    if isinstance(inputs, Tensor):
        return ["images" if inputs.dtype == torch.uint8 else "inputs"]
    if isinstance(inputs, dict):
        return list(inputs)
    return [f"inputs_{i}" for i in range(len(inputs))]


def _compare(
    file: Path, frozen: DeployableModel, run: Callable[[Inputs], list[Tensor]], example: Inputs
) -> None:
    """Raise unless the program agrees with the network on random inputs, also of other sizes."""
    generator = torch.Generator().manual_seed(0)
    made_with = sample_count(example)
    for samples in (made_with, made_with + 3, 1):
        inputs = map_inputs(lambda tensor: _random_like(tensor, samples, generator), example)  # noqa: B023
        with torch.no_grad():
            expected = _leaves(frozen(inputs))
            try:
                came = run(inputs)
            except Exception as error:
                raise ExportError(
                    f"the program made for {file} fails on {samples} samples: {_reason(error)}"
                ) from error
        shapes = [[tuple(tensor.shape) for tensor in tensors] for tensors in (expected, came)]
        if shapes[0] != shapes[1]:
            raise ExportError(
                f"the program made for {file} gives shapes {shapes[1]} for {samples} samples, the "
                f"network {shapes[0]}"
            )
        for wanted, got in zip(expected, came, strict=True):
            difference, allowed = _difference(wanted, got)
            if not difference <= allowed:
                raise ExportError(
                    f"the program made for {file} differs from the network by {difference:.2g} on "
                    f"{samples} samples ({allowed:.2g} would do): does the network draw random "
                    "numbers in evaluation mode?"
                )


def _difference(wanted: Tensor, got: Tensor) -> tuple[float, float]:
    """The largest difference, and what is allowed; infinite where only one is not a number."""
    if wanted.numel() == 0:
        return 0.0, 0.0
    exact = not wanted.is_floating_point()
    expected, came = wanted.double(), got.double()
    same = (expected == came) | (expected.isnan() & came.isnan())
    apart = torch.where(same, 0.0, (expected - came).abs()).nan_to_num(nan=float("inf"))
    finite = torch.where(expected.isfinite(), expected.abs(), 0.0)
    share = 0.0 if exact else _TOLERANCES.get(wanted.dtype, TOLERANCE)
    return float(apart.max()), share * max(1.0, float(finite.max()))


def _random_like(tensor: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    """Random samples of the example's type and range: an index stays one, a pixel has 256."""
    shape = (samples, *tensor.shape[1:])
    if tensor.is_floating_point():
        low, high = (float(edge) for edge in tensor.aminmax()) if tensor.numel() else (0.0, 0.0)
        if low == high:
            low, high = low - 1.0, high + 1.0
        return (low + (high - low) * torch.rand(shape, generator=generator)).to(tensor.dtype)
    if tensor.dtype == torch.uint8:
        return torch.randint(0, 256, shape, generator=generator).to(torch.uint8)
    low, high = (int(edge) for edge in tensor.aminmax()) if tensor.numel() else (0, 0)
    return torch.randint(low, high + 1, shape, generator=generator).to(tensor.dtype)


def _leaves(outputs: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, Tensor)]


@contextlib.contextmanager
def _in_one_line(file: Path) -> Iterator[None]:
    """Whatever an exporter raises, as an `ExportError` of one line."""
    try:
        yield
    except RevgradError:
        raise
    except Exception as error:
        if NOT_EXPORTED in str(error):  # torch wraps a refusal in many lines of its own
            raise ExportError(NOT_EXPORTED) from error
        raise ExportError(f"{file} could not be exported: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """The first telling line of the error at the bottom."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and lines[0].startswith("Constraints violated"):
        return "the network fixes the number of samples, and a program takes any"
    if lines and "data-dependent" in lines[0]:
        return "the network takes another way for other values of its inputs (an if on a tensor)"
    return lines[0] if lines else type(error).__name__


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What the exporters tell their own developers (no torchvision, old names) goes nowhere."""
    names = ("torch.onnx", "torch.export", "torch.fx", "onnxscript")
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    nowhere = io.StringIO()
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
