"""A run's settings as a page lists them, and those in which runs differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from revgrad.training.runs import RunConfig
from revgrad.training.settings import DISPLAY

ROLES = {
    "source": "source",
    "target": "target, unlabelled",
    "held_out": "held-out source",
    "target_test": "target test",
}
#: What is only evaluated on decides nothing.
DECIDING = (ROLES["source"], ROLES["target"])


@dataclass(frozen=True)
class Data:
    """A domain that took part."""

    role: str
    name: str
    samples: str
    labels: str


def data_of(config: RunConfig) -> list[Data]:
    found = []
    for role, about in config.domains.items():
        name, samples, labels = (about.get(key, "?") for key in ("name", "samples", "labels"))
        found.append(Data(ROLES.get(role, role), str(name), _text(samples), _text(labels)))
    return found


def settings_of(config: RunConfig) -> dict[str, str]:
    """Everything that decides what the run computes, by a name for people."""
    shown: dict[str, Any] = {
        "method": config.method,
        "objective": re.sub(r"<function (\w+)>", r"\1", config.objective),
        "network": config.network,
        "layer": config.layer,
        "domain classifier": " → ".join([*map(str, config.domain_hidden), "1"]),
        "input shape": "×".join(map(str, config.input_shape or ())),
        "classes": config.class_count,
        "preprocessing": config.preprocessing,
        "weights handed back": f"best by {config.chosen_by}" if config.chosen_by else "last",
    }
    shown |= {key.replace("_", " "): value for key, value in config.settings.items()}
    shown |= {
        key.replace("_", " "): value
        for key, value in config.options.items()
        if key in ("size", "fit", "per_image", "balance", "init")
    }
    return {key: _text(value) for key, value in shown.items()}


def machine_of(config: RunConfig) -> dict[str, str]:
    return {
        "revgrad": config.version,
        **{key.replace("_", " "): _text(value) for key, value in config.machine.items()},
    }


def differing(configs: Sequence[RunConfig]) -> list[tuple[str, list[str]]]:
    """Settings and data in which the runs are not all alike, with each run's value."""
    described = []
    for config in configs:
        data = {row.role: row.name for row in data_of(config) if row.role in DECIDING}
        settings = settings_of(config)
        for name in DISPLAY:  # these change nothing
            settings.pop(name.replace("_", " "), None)
        described.append({**data, **settings})
    if len({config.method for config in configs}) == len(
        {(c.method, c.objective) for c in configs}
    ):
        for one in described:  # the method says it all
            one.pop("objective")
    names = list(dict.fromkeys(name for values in described for name in values))
    found = []
    for name in names:
        values = [one.get(name, "none") for one in described]
        if len(set(values)) > 1:
            found.append((name, values))
    return found


def names_of(folders: Sequence[Path]) -> list[str]:
    """The folders' own names where these tell them apart, else as much of the path as does."""
    paths = [folder.resolve() for folder in folders]
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(set(paths)):
            return names
    return [str(path) for path in paths]


def _text(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
