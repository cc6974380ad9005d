"""The reference: every public name has words, and its examples run."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import revgrad


def public() -> dict[str, Any]:
    """Every name of the front door and of the rooms, once."""
    found = {f"revgrad.{name}": getattr(revgrad, name) for name in revgrad.__all__}
    for room in revgrad._ROOMS:
        module = import_module(f"revgrad.{room}")
        for name in getattr(module, "__all__", ()):
            found[f"revgrad.{room}.{name}"] = getattr(module, name)
    once = {id(value): (name, value) for name, value in reversed(found.items())}
    return {name: value for name, value in once.values() if inspect.getdoc(value)}


PUBLIC = public()


def undocumented() -> Iterator[str]:
    for name, value in PUBLIC.items():
        if not callable(value):
            continue
        if not (value.__doc__ or "").strip():
            yield f"{name} has no docstring"
        for member, one in vars(value).items() if inspect.isclass(value) else ():
            public_member = inspect.isfunction(one) or isinstance(one, property)
            if public_member and member[0] != "_" and not inspect.getdoc(getattr(value, member)):
                yield f"{name}.{member} has no docstring"


def test_every_public_name_has_words() -> None:
    assert list(undocumented()) == []


@pytest.mark.parametrize("name", sorted(n for n in PUBLIC if ">>>" in inspect.getdoc(PUBLIC[n])))
def test_an_example_shows_what_it_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    known = {"revgrad": revgrad, "np": np, "torch": torch, "nn": nn}
    parsed = doctest.DocTestParser().get_doctest(
        inspect.getdoc(PUBLIC[name]) or "", known, name, None, 0
    )
    said: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(optionflags=flags).run(parsed, out=said.append)
    assert said == []
