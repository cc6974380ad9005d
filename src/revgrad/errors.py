"""Errors that a user can cause, each said in one line.

Every error a user can cause is a `RevgradError`: its text names the culprit, what came, what
would do, and the likely fix. The command line prints that one line and exits with `exit_code`;
from Python it is an ordinary exception (also a ValueError, KeyError, … where one would expect it).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class RevgradError(Exception):
    """Base of everything revgrad raises on purpose."""

    exit_code = 1

    def __str__(self) -> str:  # KeyError would show the text in quotes
        return " ".join(str(part) for part in self.args)


class InputError(RevgradError, ValueError):
    """An argument, a label, an image or a folder that can't be used as it is."""

    exit_code = 2


class UnknownNameError(InputError, KeyError):
    """A layer, network, domain or setting that does not exist."""


class DataError(RevgradError):
    """Data that is missing, damaged or not of the format its name promises."""


class CutError(InputError):
    """A layer at which the network can't be cut."""


class RunError(RevgradError):
    """A run directory that can't be used: other configuration, locked, finished."""


class CheckpointError(RunError):
    """A checkpoint that was altered, cut short, or does not fit the network."""


class MissingExtraError(RevgradError, ImportError):
    """A feature whose optional package is not installed."""


class NonFiniteLossError(RevgradError, ArithmeticError):
    """The loss became infinite or not a number; the last good checkpoint is kept."""

    exit_code = 3


class ExportError(RevgradError):
    """An exported file that could not be made, or that disagrees with the network."""


def unknown(kind: str, name: str, choices: Iterable[str]) -> UnknownNameError:
    """The error for a name that is not among `choices`, with the nearest ones suggested.

    >>> str(unknown("layer", "pol2", ["pool1", "pool2", "fc3"]))
    "no layer 'pol2'; did you mean 'pool2'? (there are: pool1, pool2, fc3)"
    """
    known = list(choices)
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    most = 12 if near else 30
    listed = ", ".join(known[:most]) + (", …" if len(known) > most else "")
    return UnknownNameError(f"no {kind} '{name}'{hint} (there are: {listed or 'none'})")


def some(names: Sequence[str], most: int = 5) -> str:
    """The first `most` names, and how many more there are.

    >>> some(["ant", "bee", "cow"], 2)
    'ant, bee and 1 more'
    """
    return ", ".join(names[:most]) + f" and {len(names) - most} more" * (len(names) > most)


def missing_extra(package: str, extra: str, purpose: str) -> MissingExtraError:
    """The error for an optional package that is missing, with the command that installs it."""
    return MissingExtraError(
        f"{purpose} needs {package}, which is not installed: pip install 'revgrad[{extra}]'"
    )
