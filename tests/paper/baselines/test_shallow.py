"""What all shallow methods have in common, and what they do on real features."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat

from revgrad.errors import InputError
from revgrad.paper.baselines import SHALLOW, predict_by_alignment, predict_by_geodesic_flow
from revgrad.paper.baselines.nearest_rows import nearest_labels
from revgrad.paper.baselines.subspace_alignment import choose_components

NAMES = ["subspace-alignment", "geodesic-flow", "nbnn", "interpolating-path"]


def domains(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Three classes 16 wide; the target is stretched and shifted, and (local) in 4 positions."""
    generator = np.random.default_rng(0)
    labels, answers = np.arange(60) % 3, np.arange(45)[::-1] % 3
    middles = generator.normal(size=(3, 16)) * 1.5
    noise = (4, 16) if SHALLOW[name].local_features else (16,)
    shape = (3, 1, 16) if SHALLOW[name].local_features else (3, 16)
    source = middles.reshape(shape)[labels] + generator.normal(size=(60, *noise))
    target = middles.reshape(shape)[answers] * 1.3 + generator.normal(size=(45, *noise)) + 0.2
    return source, labels, target, answers


def test_the_table() -> None:
    assert list(SHALLOW) == NAMES
    assert [name for name in NAMES if SHALLOW[name].local_features] == ["nbnn"]


@pytest.mark.parametrize("name", NAMES)
def test_target_labels_from_source_labels(name: str) -> None:
    source, labels, target, answers = domains(name)
    before = source.copy(), labels.copy(), target.copy()
    found = SHALLOW[name](source, labels, target, 0)
    assert found.dtype == np.int64
    assert found.shape == (45,)
    assert np.mean(found == answers) > 0.9
    for now, then in zip((source, labels, target), before, strict=True):
        np.testing.assert_array_equal(now, then)
    again = SHALLOW[name](source.tolist(), labels.tolist(), target.tolist(), 0)
    np.testing.assert_array_equal(again, found)
    # labels are names: others give the same prediction under those names
    renamed = SHALLOW[name](source, np.array([-7, 100, 3])[labels], target, 0)
    assert np.mean(renamed == np.array([-7, 100, 3])[found]) > 0.95


def test_alignment_is_by_the_svm_and_the_flow_from_the_labels_subspace() -> None:
    source, labels, target, _ = domains("subspace-alignment")
    target = target + 3 * np.random.default_rng(1).normal(size=target.shape)  # answers may differ
    components = choose_components(source, labels, target, seed=3)
    aligned = [
        predict_by_alignment(source, labels, target, components, classifier=by, seed=3).tolist()
        for by in ("svm", "nearest")
    ]
    assert SHALLOW["subspace-alignment"](source, labels, target, 3).tolist() == aligned[0]
    assert aligned[0] != aligned[1]
    flows = [
        predict_by_geodesic_flow(source, labels, target, source_basis=by).tolist()
        for by in ("pls", "pca")
    ]
    assert SHALLOW["geodesic-flow"](source, labels, target, 3).tolist() == flows[0]
    assert flows[0] != flows[1]


@pytest.mark.parametrize("name", NAMES)
def test_the_other_target_rows_take_part(name: str) -> None:
    """A method that adapts answers for the first rows by what the target as a whole looks like."""
    source, labels, target, _ = domains(name)
    generator = np.random.default_rng(1)
    target = target + 3 * generator.normal(size=target.shape)  # hard, so that answers may change
    other = target.copy()
    other[15:] = other[15:] * np.linspace(-4, 4, 16) + 2
    first = SHALLOW[name](source, labels, target, 0)
    second = SHALLOW[name](source, labels, other, 0)
    assert (first[:15] != second[:15]).any()


@pytest.mark.parametrize("name", NAMES)
def test_mistakes_are_one_line(name: str) -> None:
    source, labels, target, _ = domains(name)
    broken = target.copy()
    broken[3, ..., 2] = np.nan
    mistakes = [
        (source[:, ..., :5], labels, target, "same features; 5 and 16 came"),
        (source, None, target, "source labels are missing: one integer for each of the 60 samples"),
        (source, labels[:7], target, r"source labels must have the shape \(60,\), .* not \(7,\)"),
        (source, labels + 0.5, target, "source labels must be integers"),
        (source, np.zeros(60, int), target, r"source labels hold one class only \(0\)"),
        (source, labels, broken, "target features hold NaN or infinity, first in sample 3"),
        (source[0, ..., 0], labels, target, "source features must have the shape"),
        (source[:0], labels[:0], target, "source features must have the shape"),
        (source.astype(str), labels, target, "source features must be numbers, not <U"),
    ]
    for first, known, second, text in mistakes:
        with pytest.raises(InputError, match=text) as raised:
            SHALLOW[name](first, known, second, 0)
        assert "\n" not in str(raised.value)


def surf(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The 800-bin SURF histograms as Gong et al. 2012 prepare them: shares, then z-scores."""
    path = folder / "office-caltech10" / "surf" / f"{name}_SURF_L10.mat"
    if not path.exists():
        pytest.skip("real data wanted: office-caltech10/surf in the data folder")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stored = loadmat(path)
    shares = stored["fts"] / stored["fts"].sum(axis=1, keepdims=True, dtype=np.float64)
    deviation = shares.std(axis=0)
    rows = (shares - shares.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    return rows, stored["labels"].ravel().astype(np.int64)


@pytest.mark.parametrize(
    ("source", "target", "each", "flow"),
    [("amazon", "webcam", 20, 0.3), ("dslr", "webcam", 8, 0.7)],
)
def test_real_images_are_told_better_with_adaptation(
    data_folder: Path, source: str, target: str, each: int, flow: float
) -> None:
    """Published for the flow on these features: about .4 and .8."""
    features, labels = surf(data_folder, source)
    others, answers = surf(data_folder, target)
    accuracies = []
    for seed in range(3):
        generator = np.random.default_rng(seed)
        rows = np.concatenate(
            [generator.choice(np.flatnonzero(labels == c), each, False) for c in range(1, 11)]
        )
        known, answered = features[rows], labels[rows]
        components = choose_components(known, answered, others)
        predicted = [
            nearest_labels(known, answered, others),
            predict_by_alignment(known, answered, others, components, classifier="nearest"),
            predict_by_geodesic_flow(known, answered, others),
        ]
        accuracies.append([np.mean(labels_found == answers) for labels_found in predicted])
    plain, aligned, flowing = np.mean(accuracies, axis=0)
    assert aligned > plain + 0.04
    assert flowing > plain + 0.04
    assert flowing > flow
