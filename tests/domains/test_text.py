"""Texts: words and tokens, what is learnt of the source alone, and a run's folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import revgrad
from revgrad import adapt, from_texts, load
from revgrad.domains import as_domain, encoder_of
from revgrad.errors import InputError
from shown import Shown
from tiny import seeded

GOOD = ["a fine film", "a good fine day", "good book , very good", "fine words, good acting"]
BAD = ["a bad film", "a dull bad day", "dull book , very dull", "bad words, dull acting"]
TEXTS, LABELS = [*GOOD, *BAD], ["good"] * 4 + ["bad"] * 4
TARGET = ["the battery is good", "a dull screen", "bad battery", "fine , fine screen"]
WORDS = 10


class Bag(nn.Module):
    def __init__(self, words: int = WORDS) -> None:
        super().__init__()
        self.lower = nn.Linear(words, 4)
        self.upper = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.upper(self.lower(x).relu())


class Sentences(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(200, 4)
        self.lower = nn.Linear(4, 4)
        self.upper = nn.Linear(4, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        weights = attention_mask[..., None] / attention_mask.sum(1)[:, None, None]
        return self.upper(self.lower((self.embedding(input_ids) * weights).sum(1)).relu())


def trained(network: Any, source: Any, target: Any = TARGET, **changes: Any) -> revgrad.Adapted:
    short = {
        "recipe": "paper",
        "layer": "lower",
        "steps": 4,
        "batch_size": 4,
        "domain_classifier": (4,),
    }
    return adapt(seeded(network), source, target, progress=False, **{**short, **changes})


def values(domain: revgrad.Domain) -> Any:
    return domain.batch(np.arange(len(domain))).inputs


def by_letters(text: str) -> list[int]:
    return [ord(one) % 200 for one in text]


def hugging_face() -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    words = sorted({word for text in TEXTS + TARGET for word in text.split()})
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", *words])}
    model = tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.enable_padding(length=50)  # its own padding is not ours
    return tokenizer


def test_words_are_weighted_as_scikit_learn_does() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    domain = from_texts(TEXTS, LABELS)
    reference = TfidfVectorizer(sublinear_tf=True)
    wanted = reference.fit_transform(TEXTS).toarray()
    assert domain.shape == (WORDS,)
    np.testing.assert_allclose(values(domain), wanted, rtol=1e-6)
    assert domain.classes == ("bad", "good")
    assert from_texts(TEXTS, max_words=3).shape == (3,)


def test_weights_are_of_the_training_part_alone() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    source = from_texts(TEXTS, LABELS)
    adapted = trained(Bag, source, held_out=0.3)
    rest, _ = source.split(0.3)
    words: Any = encoder_of(source)
    reference = TfidfVectorizer(vocabulary=list(words.words), sublinear_tf=True)
    wanted = reference.fit([TEXTS[i] for i in rest.rows]).transform(TARGET).toarray()
    found = values(adapted.domain(TARGET))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_hashing_needs_no_vocabulary() -> None:
    domain = from_texts(TEXTS, LABELS, vectorizer="hashing", max_words=64)
    found = values(domain)
    assert found.shape == (8, 64)
    np.testing.assert_allclose(found.norm(dim=1), torch.ones(8), rtol=1e-6)
    same = values(from_texts(["Film fine", ""], vectorizer="hashing", max_words=64))
    assert torch.equal(same[0], found[0])  # "a" is no word of two letters
    assert not same[1].any()


def test_tokens_of_a_function() -> None:
    domain = from_texts(TEXTS, LABELS, tokenizer=by_letters)
    longest = max(map(len, TEXTS))
    assert domain.shape == {"input_ids": (longest,), "attention_mask": (longest,)}
    inputs = values(domain)
    for i, text in enumerate(TEXTS):
        ids = by_letters(text)
        assert inputs["input_ids"][i].tolist() == ids + [0] * (longest - len(ids))
        assert inputs["attention_mask"][i].sum() == len(ids)
    assert from_texts(TEXTS, tokenizer=by_letters, max_length=5).shape["input_ids"] == (5,)
    as_dict = from_texts(TEXTS, LABELS, tokenizer=lambda text: {"input_ids": by_letters(text)})
    assert torch.equal(values(as_dict)["input_ids"], inputs["input_ids"])


def test_tokens_of_a_library() -> None:
    tokenizer = hugging_face()
    domain = from_texts(TEXTS, LABELS, tokenizer=tokenizer)
    inputs = values(domain)
    tokenizer.no_padding()
    for i, text in enumerate(TEXTS):
        ids = tokenizer.encode(text).ids
        assert inputs["input_ids"][i, : len(ids)].tolist() == ids
        assert not inputs["input_ids"][i, len(ids) :].any()
        assert inputs["attention_mask"][i].sum() == len(ids)


@pytest.mark.parametrize("kind", ["tfidf", "hashing", "tokenizers"])
def test_from_training_to_a_loaded_run(kind: str, tmp_path: Path) -> None:
    options: dict[str, Any] = (
        {"tokenizer": hugging_face()}
        if kind == "tokenizers"
        else {"vectorizer": kind, "max_words": WORDS}
    )
    network = Sentences if kind == "tokenizers" else Bag
    adapted = trained(network, from_texts(TEXTS, LABELS, **options), run=tmp_path / "run")
    loaded = load(tmp_path / "run", network())
    assert loaded.encoder == adapted.encoder
    assert torch.equal(loaded.outputs(TARGET), adapted.outputs(TARGET))
    assert torch.equal(loaded.outputs(np.array(TARGET)), adapted.outputs(TARGET))
    assert adapted.evaluate(TARGET, ["good", "bad", "bad", "good"]).count == 4
    loaded.export(tmp_path / "model.pt2")  # by made-up texts
    program = torch.export.load(tmp_path / "model.pt2").module()
    inputs = loaded.domain(TARGET).batch(range(4)).inputs
    torch.testing.assert_close(program(inputs), loaded.outputs(TARGET), rtol=1e-4, atol=1e-5)


def test_the_command_line_says_that_these_texts_were_no_column(
    tmp_path: Path, call: Callable[..., Shown]
) -> None:
    trained(Bag, from_texts(TEXTS, LABELS, max_words=WORDS), run=tmp_path / "run")
    (tmp_path / "new.txt").write_text("a fine film")
    own = ("--network", "test_text:Bag")
    shown = call("predict", str(tmp_path / "run"), str(tmp_path / "new.txt"), *own)
    assert "trained on texts that were not a table's column (--text): revgrad.load(" in shown.line


def test_a_function_of_one_s_own_is_given_again(tmp_path: Path) -> None:
    source = from_texts(TEXTS, LABELS, tokenizer=by_letters)
    adapted = trained(Sentences, source, run=tmp_path / "run")
    with pytest.raises(
        InputError, match=r"give it again, revgrad.load\(run, network, tokenizer=…\)"
    ):
        load(tmp_path / "run", Sentences()).predict(TARGET)
    loaded = load(tmp_path / "run", Sentences(), tokenizer=by_letters)
    assert torch.equal(loaded.outputs(TARGET), adapted.outputs(TARGET))


def test_lists_of_strings_are_texts() -> None:
    assert as_domain((TEXTS, LABELS), "x").shape == (WORDS,)
    assert as_domain(TEXTS, "x").labels is None
    assert as_domain(np.array(TEXTS, dtype=object), "x").shape == (WORDS,)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: from_texts("one"), "texts are a list of strings, not one string"),
        (lambda: from_texts(["a", None]), "text 1 is None, not a string"),
        (lambda: from_texts([]), "no texts"),
        (lambda: from_texts(TEXTS, vectorizer="word2vec"), "vectorizer is tfidf or hashing"),
        (lambda: from_texts(["a", "b"]).shape, "hold no words to learn from"),
        (lambda: from_texts(TEXTS, tokenizer=7).shape, "a tokenizer of type int can't be called"),
        (lambda: from_texts(TEXTS, tokenizer=str.split).shape, "a list of token ids"),
        (lambda: from_texts(TEXTS, max_length=0), "max_length and max_words are 1 or more"),
        (
            lambda: trained(Bag, from_texts(TEXTS, LABELS), np.zeros((4, WORDS))),
            "texts are a list of strings|not a string",
        ),
    ],
)
def test_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("library", [True, False])
def test_longer_texts_of_a_target_are_cut_and_said(
    library: bool, caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = hugging_face() if library else (lambda text: [1] * len(text.split()))
    source = encoder_of(from_texts(["a film", "a fine day"], tokenizer=tokenizer))
    assert source is not None
    longer = ["a fine dull day", "a very good fine film", "a day"]
    source.encode(["a film"], "target")
    assert not caplog.messages
    source.encode(longer, "target")
    assert caplog.messages == [
        "target: 2 of 3 texts have more than 3 tokens and are cut: from_texts(source, …, "
        "max_length=…) keeps more of them"
    ]
    wide = from_texts(["a film"], tokenizer=tokenizer, max_length=5)
    assert wide.shape["input_ids"] == (5,)
    encoder_of(wide).encode(longer, "target")  # type: ignore[union-attr]
    assert len(caplog.messages) == 1
