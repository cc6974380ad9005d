"""Settings of runs in words: all of one run's, and those in which several differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from revgrad.training.run import Difference, RunConfig, differences
from revgrad.training.settings import RESUME_MAY_CHANGE

#: Roles of domains, as they are called on a page.
ROLES = {
    "source": "source",
    "target": "target",
    "held_out": "held-out source",
    "test": "target test",
}


@dataclass(frozen=True)
class ShownDomain:
    """A domain that took part."""

    role: str
    name: str
    samples: str
    labels: str


def shown_domains(config: RunConfig) -> tuple[ShownDomain, ...]:
    """Every domain of the run, in the order in which it was recorded."""
    return tuple(
        ShownDomain(
            ROLES.get(role, role),
            str(about.get("name", "?")),
            *(_counted(about.get(key)) for key in ("samples", "labels")),
        )
        for role, about in config.domains.items()
    )


def shown_settings(config: RunConfig) -> dict[str, str]:
    """Everything that decides what the run computes, by a name for people."""
    shown: dict[str, Any] = {
        "method": config.method.partition("(")[0],
        "objective": re.sub(r"<function (\w+)>", r"\1", config.objective),
        "network": config.network,
        "layer": config.layer,
        "domain classifier": " → ".join([*map(str, config.domain_classifier), "1"]),
        "input shape": "×".join(map(str, config.input_shape or ())),
        "classes": config.class_count,
        "preprocessing": config.preprocessing,
        "weights handed back": f"best by {config.chosen_by}" if config.chosen_by else "last",
        **config.settings,
        "fit": config.provenance.fit,
        "init": config.provenance.init,
    }
    return {_spoken(name): _in_words(value) for name, value in shown.items()}


def shown_machine(config: RunConfig) -> dict[str, str]:
    """Versions, device and threads that the run was trained with."""
    machine = {_spoken(name): _in_words(value) for name, value in config.machine.items()}
    return {"revgrad": config.version, **machine}


def differing_settings(configs: Sequence[RunConfig]) -> list[Difference]:
    """Data and settings in which the runs are not all alike, with each run's value in words."""
    methods = {config.method for config in configs}
    unsaid = {_spoken(name) for name in RESUME_MAY_CHANGE}  # these change nothing
    if len(methods) == len({(config.method, config.objective) for config in configs}):
        unsaid.add("objective")  # the method says it all
    return differences(
        [
            {name: value for name, value in _decisive(config).items() if name not in unsaid}
            for config in configs
        ]
    )


def short_names(folders: Sequence[Path]) -> list[str]:
    """The folders' own names where these tell them apart, else as much of the path as does."""
    paths = [folder.resolve() for folder in folders]
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(set(paths)):
            return names
    return [str(path) for path in paths]


def _decisive(config: RunConfig) -> dict[str, str]:
    """What runs are compared by."""
    labels = config.domains.get("target", {}).get("labels")
    return {
        "source": config.provenance.source,
        "target": _in_words(config.provenance.target),
        "target labels": _in_words(labels or 0),
        **shown_settings(config),
        # a mean and a scale follow from the data
        "preprocessing": re.sub(r"^(\w+)\(mean=.*\)$", r"\1", config.preprocessing),
    }


def _spoken(name: str) -> str:
    return name.replace("_", " ")


def _counted(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _in_words(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, str) and (schedule := re.fullmatch(r"([a-z-]+):([-+.e\d,]+)", value)):
        numbers = (f"{float(number):g}" for number in schedule[2].split(","))
        return f"{schedule[1]}:{','.join(numbers)}"  # ramp-up:10.0,1.0 as ramp-up:10,1
    return str(value)
