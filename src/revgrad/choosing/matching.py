"""A search's folder holds one search: what it is stands in search.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from revgrad.choosing.study import HELD
from revgrad.errors import RunError
from revgrad.files import write_json

SEARCH = "search.json"


def must_match(folder: Path, values: dict[str, Any]) -> None:
    """Write what the search is; where the folder holds one already, refuse another."""
    path, identity = folder / SEARCH, json.loads(json.dumps(values))
    if not path.exists():
        stranger = next((p.name for p in folder.iterdir() if p.name != HELD), None)
        if stranger is not None:
            raise RunError(
                f"{folder} is not empty ({stranger}) and not a search: choose a new or an empty "
                "folder"
            )
        write_json(path, identity)
        return
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} can't be read: {error}") from error
    differing = [key for key in {**there, **identity} if there.get(key) != identity.get(key)]
    if not differing:
        return
    shown = "; ".join(
        f"{key}: {there.get(key)} there, {identity.get(key)} now" for key in differing[:3]
    )
    more = f" and {len(differing) - 3} more" if len(differing) > 3 else ""
    raise RunError(
        f"{folder} is another search ({shown}{more}): choose another folder, or the same options "
        "to go on with it"
    )
