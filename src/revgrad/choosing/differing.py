"""The settings in which runs differ: what one looks for when one of them is better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from revgrad.training.runs import RunConfig

#: Parts of a run's identity that follow from others, or that only a machine can read.
_UNSHOWN = ("source data", "target data", "preprocessing", "input shape", "label loss", "score")


def differing_settings(configs: Sequence[RunConfig]) -> list[dict[str, str]]:
    """Of each run, the settings that are not the same in all of them, as text."""
    every = [_settings(config) for config in configs]
    names = list(dict.fromkeys(name for settings in every for name in settings))
    differing = [n for n in names if len({repr(settings.get(n)) for settings in every}) > 1]
    if "method" in differing:
        differing = [name for name in differing if name != "objective"]
    return [{name: _shown(settings.get(name)) for name in differing} for settings in every]


def _settings(config: RunConfig) -> dict[str, Any]:
    values = {name: v for name, v in config.identity().items() if name not in _UNSHOWN}
    source = config.options.get("source") or config.domains.get("source", {}).get("name")
    more = {name: bool(config.options.get(name)) for name in ("per_image", "balance")}
    return {"source": source, **values, **more, "keep": config.chosen_by or "last"}


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(_shown(item) for item in value) or "none"
    if isinstance(value, str) and ":" in value:
        name, _, numbers = value.partition(":")
        try:  # a schedule: ramp-up:10.0,1.0 as ramp-up:10,1
            return f"{name}:" + ",".join(f"{float(number):.3g}" for number in numbers.split(","))
        except ValueError:
            return value
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)
