"""What several commands share: opening data as a run did, loading a run, speaking to the user."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from revgrad.errors import InputError

if TYPE_CHECKING:
    from revgrad.adapting import Adapted
    from revgrad.domains import Domain
    from revgrad.training import Run

JSON = typer.Option(False, "--json", help="Print json on standard output, for programs.")
NETWORK_AGAIN = typer.Option(
    None, "--network", help="module:function, again, where the run's network is your own."
)


@dataclass(frozen=True)
class ImageOptions:
    """How images of folders are read: the same for a run's training and for everything after it."""

    size: str | None = None
    fit: str = "crop"
    corrupt: str = "fail"

    def opened(
        self, text: str, *, labels: bool | None = None, classes: Sequence[str] | None = None
    ) -> Domain:
        """The domain that `text` means; labels are dropped where `labels` is False."""
        from revgrad.domains import open_domain

        domain = open_domain(
            text,
            size=parse_size(self.size),
            fit=self.fit,
            corrupt=self.corrupt,
            labels=labels,
            classes=classes,
        )
        return domain.without_labels() if labels is False else domain


def parse_size(text: str | None) -> int | tuple[int, int] | None:
    """`28` or `32x48` (height x width)."""
    if text is None:
        return None
    try:
        numbers = [int(part) for part in text.lower().replace("×", "x").split("x")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2) or min(numbers) < 1:
        raise InputError(f"a size is one number or HEIGHTxWIDTH, not '{text}'")
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])


def parse_widths(text: str | None) -> tuple[int, ...] | None:
    """`1024,1024`; an empty text means no hidden layer."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise InputError(f"hidden widths are numbers with commas between, not '{text}'") from None


def image_options(run: Run) -> ImageOptions:
    """How a run read its images."""
    saved = run.config.options
    return ImageOptions(saved.get("size"), saved.get("fit", "crop"), saved.get("corrupt", "fail"))


def open_like(run: Run, text: str, adapted: Adapted, labels: bool | None = None) -> Domain:
    """Data for a run's network: same size, same number of channels, same classes."""
    domain = image_options(run).opened(text, labels=labels, classes=adapted.classes)
    shape = run.config.input_shape
    if domain.is_images and shape[0] == 3:
        domain = domain.as_colour()
    if list(domain.shape or ()) != list(shape):
        raise InputError(
            f"{text} has inputs of shape {domain.shape}; this run's network takes {tuple(shape)}"
        )
    return domain


def load_run(folder: Path, network: str | None) -> tuple[Run, Adapted]:
    """A run and its network. A network of the user's own is built from what the user says now."""
    from revgrad.adapting import load
    from revgrad.networks import build_network
    from revgrad.training import Run

    run = Run(folder)
    if network is None:
        return run, load(folder)
    config = run.config
    channels, *size = config.input_shape if len(config.input_shape) == 3 else (0, 0, 0)
    built = build_network(
        network,
        classes=config.class_count or 1,
        channels=channels,
        size=(size[0], size[1]),
        seed=config.settings["seed"],
    )
    return run, load(folder, built)


def speak(quiet: bool = False) -> None:
    """Notes and warnings as plain lines on standard error, from the first process only."""
    logger = logging.getLogger("revgrad")
    level = logging.WARNING if quiet else logging.INFO
    logger.setLevel(logging.ERROR if int(os.environ.get("RANK", 0)) else level)
    if not logger.handlers:
        logger.addHandler(_Lines())


class _Lines(logging.Handler):
    """Each record as one line on whatever standard error is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        kind = "note" if record.levelno <= logging.INFO else "warning"
        print(f"{kind}: {record.getMessage()}", file=sys.stderr)


@contextmanager
def told_when_interrupted() -> Iterator[None]:
    """Say where training stopped and exit with 130 or 143: typer would only say "aborted"."""
    from revgrad.training import Interrupted

    try:
        yield
    except Interrupted as stop:
        if not int(os.environ.get("RANK", 0)):
            print(f"revgrad: {stop}", file=sys.stderr)
        raise typer.Exit(stop.exit_code) from None


def echo_json(value: Any) -> None:
    import json

    typer.echo(json.dumps(value, ensure_ascii=False))
