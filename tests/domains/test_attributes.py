"""Attributes of samples: read from whatever holds them, kept through every change of a domain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from revgrad import from_arrays, from_dataset, from_folder, from_npz
from revgrad.domains.attributes import Attribute, read_attributes, share_attribute
from revgrad.errors import InputError

SITES = ["b", "a", None, "b", "c", "a"]
AGES = [30.0, 41.5, np.nan, 28.0, 60.0, 33.0]


def six(**attributes: Any) -> Any:
    inputs = np.arange(24, dtype=np.float32).reshape(6, 4)
    return from_arrays(inputs, [0, 1, 0, 1, 0, 1], attributes=attributes, name="six")


def text(attribute: Attribute) -> list[str | None]:
    assert attribute.names is not None
    pairs = zip(attribute.values.tolist(), attribute.known.tolist(), strict=True)
    return [attribute.names[value] if known else None for value, known in pairs]


def test_text_is_categories_and_floats_are_numbers() -> None:
    domain = six(site=SITES, age=AGES)
    site, age = domain.attributes["site"], domain.attributes["age"]
    assert site.names == ("a", "b", "c")
    assert text(site) == SITES
    assert age.names is None
    assert age.known.tolist() == [True, True, False, True, True, True]
    assert age.values[age.known].tolist() == [30.0, 41.5, 28.0, 60.0, 33.0]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ([2, 10, 2, 1, 1, 1], ("1", "2", "10")),  # by their size
        (np.array([True, False, True, True, False, True]), ("False", "True")),
        (torch.tensor([3, 1, 1, 3, 3, 1]), ("1", "3")),
        ([True, None, False, True, True, True], ("False", "True")),
        (np.array([b"x", b"y", b"x", b"x", b"y", b"y"]), ("x", "y")),
    ],
)
def test_whole_numbers_and_truth_values_are_categories(given: Any, names: Any) -> None:
    assert six(one=given).attributes["one"].names == names


def test_whole_numbers_of_many_values_are_numbers() -> None:
    found = read_attributes({"age": np.arange(80)}, 80, "people")["age"]
    assert found.names is None
    assert found.values.tolist() == list(range(80))
    assert read_attributes({"days": np.array(["2024-01-02", "NaT"], "M8[D]")}, 2, "x")[
        "days"
    ].known.tolist() == [True, False]


def test_they_go_with_their_samples() -> None:
    domain = six(site=SITES, age=AGES)
    rest, held = domain.split(0.34, seed=3)
    for part in (
        *(rest, held, domain.subset([5, 0, 0])),
        *(domain.without_labels(), domain.keeping_labels(2), domain.balanced(), domain.sample(3)),
    ):
        where = part.rows
        assert text(part.attributes["site"]) == [SITES[row] for row in where]
        np.testing.assert_array_equal(
            np.where(part.attributes["age"].known, part.attributes["age"].values, np.nan),
            np.array(AGES)[where],
        )


def test_they_are_part_of_the_fingerprint() -> None:
    marks = {six().fingerprint(), six(site=SITES).fingerprint(), six(place=SITES).fingerprint()}
    assert len(marks) == 3
    assert six(site=SITES).fingerprint() == six(site=np.array(SITES, dtype=object)).fingerprint()


def test_more_can_be_given_to_any_domain() -> None:
    domain = six(site=SITES).with_attributes({"age": AGES})
    assert list(domain.attributes) == ["site", "age"]


def test_of_a_dataset_and_of_an_npz_file(tmp_path: Path) -> None:
    made = from_dataset(
        TensorDataset(torch.zeros(6, 4), torch.arange(6)), attributes={"site": SITES}
    )
    assert text(made.attributes["site"]) == SITES
    path = tmp_path / "six.npz"
    np.savez(path, x=np.zeros((6, 4)), site=np.array(["u", "v"] * 3))
    assert text(from_npz(path, attributes=["site"]).attributes["site"]) == ["u", "v"] * 3
    with pytest.raises(InputError, match="no array 'age' to take as an attribute"):
        from_npz(path, attributes=["age"])


def test_of_a_frames_columns() -> None:
    pandas = pytest.importorskip("pandas")
    from revgrad import adapt, from_frame

    frame = pandas.DataFrame(
        {
            "x": np.linspace(0, 1, 12),
            "y": [0, 1] * 6,
            "sex": ["f", "m", None] * 4,
            "age": np.linspace(20, 60, 12),
            "post": [7, 7, 8] * 4,
        }
    )
    domain = from_frame(
        frame, "y", attributes=["sex", "age", "post"], categorical=["post"], name="people"
    )
    assert domain.shape == (1,)
    assert text(domain.attributes["sex"]) == ["f", "m", None] * 4
    assert domain.attributes["age"].names is None
    assert domain.attributes["post"].names == ("7", "8")
    with pytest.raises(InputError, match="column 'sexx'"):
        from_frame(frame, "y", attributes=["sexx"])
    # a target of raw samples is read like the source: its attributes too, where it has them
    encoder = domain.store.encoder
    like = encoder.read(frame.drop(columns=["age"]), None, "other")
    assert text(like.attributes["sex"]) == ["f", "m", None] * 4
    assert "age" not in like.attributes
    assert like.attributes["post"].names == ("7", "8")
    adapted = adapt(
        "perceptron",
        domain,
        frame,
        recipe="paper",
        steps=2,
        device="cpu",
        progress=False,
        batch_size=4,
    )
    assert adapted.predict(frame[["x"]]).shape == (12,)  # which an attribute is no part of


def test_levels_of_folders(tmp_path: Path) -> None:
    for site in ("north", "south"):
        for label in ("cat", "dog"):
            folder = tmp_path / "data" / site / label
            folder.mkdir(parents=True)
            for number in range(2):
                shade = len(site + label) + 40 * number + 7 * (site == "north")
                Image.new("RGB", (8, 8), (shade, 0, 0)).save(folder / f"{number}.png")
    found = from_folder(tmp_path / "data", attributes=["site"], cache=tmp_path / "cache")
    assert found.files is not None
    assert text(found.attributes["site"]) == [file.split("/")[0] for file in found.files]
    assert found.classes == ("cat", "dog")
    assert [found.classes[label] for label in found.labels] == [
        file.split("/")[1] for file in found.files
    ]
    bare = from_folder(
        tmp_path / "data", attributes=["site"], labels=False, cache=tmp_path / "cache"
    )
    assert bare.labels is None
    assert len(bare.attributes["site"].names or ()) == 2
    with pytest.raises(InputError, match="above the folders of 'scanner'"):
        from_folder(
            tmp_path / "data" / "north", attributes=["site", "scanner"], cache=tmp_path / "cache"
        )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"site": ["a"] * 5}, "six: 6 inputs but 5 values of 'site'"),
        ({"domain": SITES}, "'domain' is the attribute that all domains have"),
        ({"site": np.zeros((6, 2))}, r"one value a sample, \(n,\), not of shape"),
        ({"site": ["a", 1, "b", 2, None, 3]}, "all text or all numbers would do"),
        ({"age": [1.0, np.inf, 2, 3, 4, 5]}, "numbers must be finite"),
        ({"age": np.zeros(6, complex)}, "text or numbers would do"),
    ],
)
def test_bad_attributes_are_one_line(given: Any, told: str) -> None:
    with pytest.raises(InputError, match=told) as error:
        six(**given)
    assert "\n" not in str(error.value)


def test_attributes_that_are_no_dict_are_refused() -> None:
    with pytest.raises(InputError, match="attributes are a dict"):
        from_arrays(np.zeros((2, 2), np.float32), attributes=[1, 2])  # type: ignore[arg-type]


# -- one code for several domains ----------------------------------------------------------------


def shared(*parts: Any, shares: Any = None) -> Any:
    read = [
        (f"d{i}", None if one is None else read_attributes({"a": one}, len(one), "d")["a"], 6)
        for i, one in enumerate(parts)
    ]
    return share_attribute("a", read, shares or [1] * len(parts))


def test_categories_of_all_domains_share_one_code() -> None:
    found = shared(SITES, ["d", "d", "b", None, None, None], None)
    assert found.names == ("a", "b", "c", "d")
    assert found.outputs == 4
    assert [one.tolist() for one in found.values] == [
        [1, 0, -1, 1, 2, 0],
        [3, 3, 1, -1, -1, -1],
        [-1] * 6,
    ]
    counts = np.array([2, 3, 1, 2])
    np.testing.assert_allclose(found.shares, counts / counts.sum())


def test_numbers_are_standardised_as_they_are_drawn() -> None:
    """Each domain's samples weigh by its share of the batch over its number of samples."""
    one, two = [1.0, 2, 3, 4, 5, np.nan], [10.0, 20, 30, 40, 50, 60]
    found = shared(one, two, shares=[3, 1])
    weights = np.array([3] * 5 + [1] * 6)
    values = np.array(one[:5] + two)
    mean = (weights * values).sum() / weights.sum()
    deviation = np.sqrt((weights * (values - mean) ** 2).sum() / weights.sum())
    np.testing.assert_allclose(found.values[1], (np.array(two) - mean) / deviation)
    assert np.isnan(found.values[0][5])
    assert found.outputs == 1


def test_what_can_not_be_told_apart_is_refused() -> None:
    for parts, told in (
        ((["a"] * 6, ["a", None] * 3), r"one value only \(a\)"),
        (([2.5] * 6, [2.5] * 6), r"one value only \(2.5\)"),
        (([None] * 6,), "no value"),
        (([np.nan] * 6,), "no value"),
        ((None, None), "no domain has an attribute 'a'"),
        ((SITES, AGES), "categories in d0, numbers in d1"),
    ):
        with pytest.raises(InputError, match=told):
            shared(*parts)
