"""Networks of transformers: `transformers:FOLDER`, or a name of the hub; images or text.

No code of the hub or of a folder is ever run, only architectures that transformers itself has.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from revgrad.errors import DataError, InputError
from revgrad.networks.zoo import Model, last_linear
from revgrad.networks.zoo.packages import asking_hub, imported, naming_what_is_broken

#: transformers' own defaults, for folders that do not say.
MEAN = SD = (0.5, 0.5, 0.5)
#: What a folder with a tokenizer has one of.
TOKENIZER_FILES = ("tokenizer*", "vocab*", "*.model")


class ImageLogits(nn.Module):
    """(n, 3, size, size) → (n, classes): the logits of a model that returns more than them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(pixel_values=images).logits
        return logits


class TextClassifier(nn.Module):
    """Token ids and mask (n, tokens) → (n, classes) logits.

    The features are the mean of the last hidden states over a text's own tokens, as sentence
    encoders take it.
    """

    def __init__(self, encoder: nn.Module, width: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.classifier = nn.Linear(width, 2)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        if input_ids.is_floating_point():
            raise InputError(
                "a network of texts takes tokens, and these are vectors of floats: "
                "revgrad.from_texts(texts, labels, tokenizer=…) makes tokens (--text COLUMN)"
            )
        given = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None:
            given["token_type_ids"] = token_type_ids
        hidden: Tensor = self.encoder(**given).last_hidden_state
        if attention_mask is None:
            pooled = hidden.mean(1)
        else:
            mask = attention_mask.to(hidden.dtype).unsqueeze(-1)
            pooled = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1.0)
        logits: Tensor = self.classifier(pooled)
        return logits


def build(name: str, pretrained: bool) -> Model:
    """The network of a folder as `save_pretrained` writes it, or of a name of the hub."""
    text = f"transformers:{name}"
    transformers = imported("transformers", text)
    folder = Path(name).expanduser()
    place = str(folder.resolve()) if folder.is_dir() else name
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise InputError(f"{folder} is no network of transformers: it has no config.json")
    if not folder.is_dir() and (name.startswith((".", "/", "~")) or name.count("/") > 1):
        raise InputError(f"there is no folder {name}")
    with asking_hub(text):
        config: Any = transformers.AutoConfig.from_pretrained(place, trust_remote_code=False)
    names = transformers.models.auto.modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES
    of_images = config.model_type in names
    with naming_what_is_broken("transformers", text):
        kind = transformers.AutoModelForImageClassification if of_images else transformers.AutoModel
        if pretrained:
            made = _pretrained(kind, place, text)
        else:
            made = kind.from_config(config, trust_remote_code=False)
    if not of_images:
        return Model(TextClassifier(made, _width(config, text)), "classifier", False)
    network = ImageLogits(made)
    size, mean, sd = _pixels(folder, config, transformers)
    return Model(network, last_linear(network, text), False, size, mean, sd)


def tokenizer_of(name: str) -> Any:
    """The tokenizer that comes with the network of a folder, or of a name of the hub."""
    text = f"transformers:{name}"
    transformers = imported("transformers", text)
    folder = Path(name).expanduser()
    place = str(folder.resolve()) if folder.is_dir() else name
    if folder.is_dir() and not any(any(folder.glob(one)) for one in TOKENIZER_FILES):
        # without files transformers makes one that knows no word
        raise InputError(
            f"{folder} holds no tokenizer, which texts need: tokenizer.save_pretrained('{folder}') "
            "puts one there"
        )
    with asking_hub(text):
        return transformers.AutoTokenizer.from_pretrained(place, trust_remote_code=False)


def _pretrained(kind: Any, place: str, text: str) -> nn.Module:
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with asking_hub(text):
            made: nn.Module = kind.from_pretrained(place, trust_remote_code=False)
    finally:
        if shown:
            logging.enable_progress_bar()
    return made


def _width(config: Any, text: str) -> int:
    width = getattr(config, "hidden_size", None) or getattr(config, "d_model", None)
    if not isinstance(width, int):
        raise InputError(f"network '{text}' ({config.model_type}) is neither of images nor of text")
    return width


def _pixels(
    folder: Path, config: Any, transformers: Any
) -> tuple[int | None, tuple[float, ...], tuple[float, ...]]:
    """Side, mean and deviation of the images, by the folder's preprocessor_config.json."""
    file = folder / "preprocessor_config.json"
    if folder.is_dir():
        facts = _json(file) if file.is_file() else {}
    else:
        found = transformers.utils.cached_file(
            str(folder), "preprocessor_config.json", _raise_exceptions_for_missing_entries=False
        )
        facts = {} if found is None else _json(Path(found))
    size = facts.get("crop_size") or facts.get("size") or getattr(config, "image_size", None)
    if isinstance(size, dict):
        size = size.get("height") or size.get("shortest_edge")
    if isinstance(size, list | tuple):
        size = size[0]
    if facts.get("do_normalize", True):
        mean, sd = facts.get("image_mean") or MEAN, facts.get("image_std") or SD
    else:
        mean, sd = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    if not facts.get("do_rescale", True):
        mean, sd = ([value / 255 for value in values] for values in (mean, sd))
    return size, tuple(float(value) for value in mean), tuple(float(value) for value in sd)


def _json(file: Path) -> dict[str, Any]:
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{file} can't be read as json: {error}") from error
    return values if isinstance(values, dict) else {}
