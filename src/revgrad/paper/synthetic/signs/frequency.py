"""How often each sign is drawn: roughly as often as a driver meets it.

Where shares of classes differ between domains, mixing the domains mismatches classes: with all 43
drawn alike often, plain reversal saw five times as many limits of 20 in GTSRB as there are.
"""

from __future__ import annotations

import numpy as np

from revgrad.paper.data.gtsrb_classes import SIGNS

#: Met on every drive, and now and then; all others are rare.
COMMON_SIGNS = (
    *(f"speed limit {limit}" for limit in (30, 50, 60, 70, 80, 100, 120)),
    *("no overtaking", "no overtaking by lorries", "priority at next junction", "priority road"),
    *("give way", "road works", "ahead only", "keep right"),
)
OCCASIONAL_SIGNS = (
    *("stop", "no vehicles", "no lorries", "no entry", "danger", "traffic signals", "children"),
    *("wild animals", "turn right ahead", "turn left ahead"),
)

#: Images of each class in a round.
ON_ROADS = tuple(
    5 if sign in COMMON_SIGNS else 2 if sign in OCCASIONAL_SIGNS else 1 for sign in SIGNS
)


def in_turn(often: tuple[int, ...]) -> np.ndarray:
    """The classes of one round of images, those of a class spread over it."""
    places = [((turn + 0.5) / count, at) for at, count in enumerate(often) for turn in range(count)]
    return np.array([at for _, at in sorted(places)])
