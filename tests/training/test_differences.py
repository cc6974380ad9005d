"""Differences of configurations: which values, whose, and in what order."""

from __future__ import annotations

from revgrad.training.run import Difference, differences, there_and_now


def test_values_that_are_not_all_alike_are_found_in_order() -> None:
    found = differences([{"b": 1, "a": [1, 2]}, {"a": [1, 2], "b": 2, "c": 0}, {"b": 1}])
    assert found == [
        Difference("b", (1, 2, 1)),
        Difference("a", ([1, 2], [1, 2], None)),
        Difference("c", (None, 0, None)),
    ]
    assert differences([{"a": 1.0}, {"a": 1}]) == []
    assert differences([{"a": 1}]) == []


def test_a_few_differences_are_said_and_the_others_counted() -> None:
    found = differences([{"a": 1, "b": 2, "c": 3}, {"a": 4, "b": 5}])
    assert there_and_now(found, most=2) == "a: 1 there, 4 now; b: 2 there, 5 now and 1 more"
    assert there_and_now(found[2:]) == "c: 3 there, None now"
