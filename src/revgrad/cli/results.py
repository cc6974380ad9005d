"""A finished run as a result record: the small json that tables are made from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from revgrad.files import write_json

if TYPE_CHECKING:
    from revgrad.adapting import Adapted

RESULT = "result.json"


def cell(source: str, target: str | None) -> str:
    """The pair of domains as tables name it: named domains without their split."""
    from revgrad.domains import DOMAINS

    def short(text: str) -> str:
        name = text.partition(":")[0]
        return name if name in DOMAINS else text

    return f"{short(source)}->{short(target) if target else '-'}"


def result_record(run: Path, adapted: Adapted) -> dict[str, Any]:
    """The record of a finished run; also written into its folder."""
    from revgrad.training import Run

    config = Run(run).config
    outcome = adapted.outcome
    assert outcome is not None
    last = outcome.last
    options = config.options
    record = {
        "cell": cell(options["source"], options["target"] or options["test"]),
        "method": config.method,
        "seed": config.settings["seed"],
        "steps": outcome.steps,
        "budget": f"{outcome.steps} steps",
        "source_accuracy": None if last is None else last.source_accuracy,
        "target_accuracy": None if last is None else last.target_accuracy,
        "settings": {
            **config.settings,
            "network": config.network,
            "layer": config.layer,
            "objective": config.objective,
            "domain_hidden": config.domain_hidden,
            **{key: options[key] for key in ("size", "per_image", "test")},
            **{key: config.machine[key] for key in ("threads", "processes")},
        },
        "command": config.command,
        "torch": config.machine["torch"],
        "seconds": outcome.seconds,
    }
    write_json(run / RESULT, record)
    return record
