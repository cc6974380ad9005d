"""Shared by all tests: one thread (two on a busy machine can be ten times slower), real data, the
same examples every time."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from revgrad.cli import main
from shown import Shown

torch.set_num_threads(1)
settings.register_profile("seeded", derandomize=True)
settings.load_profile("seeded")
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # Begun in the background of a script: processes of ours would ignore Ctrl-C too, for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The paper's lane is its folders'."""
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).parts[0] in ("paper", "studies"):
            item.add_marker(pytest.mark.paper)


@pytest.fixture
def data_folder() -> Path:
    """The folder of real data; tests that want it skip where there is none."""
    folder = os.environ.get("REVGRAD_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("real data wanted: set REVGRAD_DATA to a folder that holds it")
    return Path(folder)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Decoded images go to a folder of the test's own, never to the user's cache."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("REVGRAD_CACHE", str(folder))
    return folder


@pytest.fixture
def call(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Shown]:
    def run(*words: object) -> Shown:
        monkeypatch.setattr(sys, "argv", ["revgrad", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        return Shown(code, *capfd.readouterr())

    return run
