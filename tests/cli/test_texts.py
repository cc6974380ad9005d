"""Texts from the command line: a column of a table, as words or as a network's own tokens."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import revgrad
from shown import Shown

pd = pytest.importorskip("pandas")
Call = Callable[..., Shown]

BOOKS = ["a moving story", "dull and far too long", "could not put it down", "a waste of paper"]
KITCHENS = ["cuts well, easy to clean", "broke after a week", None, "useless"]
TRAIN = (
    *("train", "--source", "books.csv", "--target", "kitchens.csv", "--text", "review"),
    *("--label", "mood", "--recipe", "stabilised", "--steps", "4", "--batch-size", "8"),
    *("--domain-classifier", "4", "--quiet", "-o", "run"),
)


@pytest.fixture
def reviews(place: Path) -> Path:
    """Tables with a column of numbers beside, which is no input."""
    moods = ["good", "bad"] * 20
    books = pd.DataFrame({"page": range(40), "review": BOOKS * 10, "mood": moods})
    books.to_csv(place / "books.csv", index=False)
    kitchens = pd.DataFrame({"review": KITCHENS * 10, "mood": moods})
    kitchens.to_csv(place / "test.csv", index=False)
    kitchens.drop(columns="mood").to_csv(place / "kitchens.csv", index=False)
    return place


def predicted(call: Call, *words: str) -> list[str]:
    shown = call("predict", "run", "kitchens.csv", *words)
    assert shown.code == 0, shown.err
    return [line["class"] for line in csv.DictReader(shown.out.splitlines())]


def test_words_from_training_to_predictions(reviews: Path, call: Call) -> None:
    made = call(*TRAIN, "--test", "test.csv", "--json")
    assert made.code == 0, made.err
    found = predicted(call)
    adapted = revgrad.load("run")
    assert found == adapted.predict([one or "" for one in KITCHENS] * 10).tolist()
    assert adapted.encoder is not None
    assert "page" not in adapted.encoder.state()["words"]
    evaluated = json.loads(call("evaluate", "run", "test.csv", "--json").out)
    truth = pd.read_csv(reviews / "test.csv")["mood"].tolist()
    right = sum(one == other for one, other in zip(found, truth, strict=True)) / 40
    assert evaluated["accuracy"] == pytest.approx(right)
    assert json.loads(made.out)["target_accuracy"] == pytest.approx(right)


@pytest.mark.slow
def test_tokens_of_a_network_s_own_tokenizer(reviews: Path, call: Call) -> None:
    from torchvision_schemas import declare

    declare()
    transformers = pytest.importorskip("transformers")
    words = sorted({word for one in BOOKS for word in one.split()})
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    (reviews / "vocab.txt").write_text("\n".join(vocabulary))
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(**small, intermediate_size=16, vocab_size=len(vocabulary))
    transformers.BertModel(config).save_pretrained("bert")
    network = ("--network", "transformers:bert")
    shown = call(*TRAIN, *network)
    assert shown.code == 2
    assert "bert holds no tokenizer, which texts need" in shown.line
    tokenizer = transformers.BertTokenizerFast(str(reviews / "vocab.txt"))
    tokenizer.save_pretrained("bert")
    shown = call(*TRAIN, *network)
    assert shown.code == 0, shown.err
    adapted = revgrad.load("run")
    assert adapted.input_shape.keys() == {"input_ids", "attention_mask"}
    asked = [one or "" for one in KITCHENS] * 10
    assert predicted(call) == adapted.predict(asked).tolist()
    by_name = revgrad.load("run", "transformers:bert")
    assert by_name.predict(asked).tolist() == adapted.predict(asked).tolist()
    vectors = call(*TRAIN[:5], "--label", "mood", "--drop", "page", *network, "-o", "other")
    assert vectors.code == 2
    assert "takes tokens, and these are vectors of floats" in vectors.line


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--text", "reviews"), "did you mean 'review'"),
        (("--text", "page"), "column 'page' holds numbers, not text"),
        (("--text", "mood"), "column 'mood' holds the labels: which one holds the texts?"),
        (("--source", "mnist"), "mnist is no table with a column 'review' of texts"),
        (("--label", "moods"), "did you mean 'mood'"),
    ],
)
def test_mistakes_are_one_line(reviews: Path, call: Call, more: tuple[str, str], said: str) -> None:
    words = list(TRAIN)
    words[words.index(more[0]) + 1] = more[1]
    shown = call(*words)
    assert shown.code == 2
    assert said in shown.line
