"""Choosing without target labels: among layers, among finished runs, and by search.

select(["runs/a", "runs/b"]).chosen.run
suggest_layer(network, source, target).layer
Searching("search", space, start, score="mutual-information").work(train, trials=20)
"""

from __future__ import annotations

from revgrad.choosing.configuration import Configuration
from revgrad.choosing.searching import Searching
from revgrad.choosing.selecting import SelectedRun, Selection, select
from revgrad.choosing.space import Choice, Range, Space, make_space
from revgrad.choosing.suggesting import Suggestion, suggest_layer
from revgrad.choosing.trials import Search, TrialRow

__all__ = [
    "Choice",
    "Configuration",
    "Range",
    "Search",
    "Searching",
    "SelectedRun",
    "Selection",
    "Space",
    "Suggestion",
    "TrialRow",
    "make_space",
    "select",
    "suggest_layer",
]
