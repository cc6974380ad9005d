"""Model selection without target labels: among finished runs, and by search.

select(["runs/a", "runs/b"]).chosen.run
Search("search", space, start, score="mutual-information").work(train, trials=20)
"""

from __future__ import annotations

from revgrad.model_selection.search import Search, SearchResult, Trial
from revgrad.model_selection.selection import SelectedRun, Selection, select
from revgrad.model_selection.space import Configuration, LogRange, OneOf, Space, make_space

__all__ = [
    "Configuration",
    "LogRange",
    "OneOf",
    "Search",
    "SearchResult",
    "SelectedRun",
    "Selection",
    "Space",
    "Trial",
    "make_space",
    "select",
]
