"""The semi-supervised figure (§4.1): SYN SIGNS and 1,280 labelled signs of GTSRB.

By the paper's protocol the labelled signs are random frames, the whole target training set, and the
rest is for evaluation only: other frames of the same tracks are then in the test. By ours the split
is by track, and the other training signs take part without labels.
"""

from __future__ import annotations

from dataclasses import replace

from revgrad.paper.tables.experiment import Experiment, Published

LABELLED = 1280

PAPERS = Experiment(
    table="semi-supervised",
    cell="syn-signs+1280->gtsrb, the paper's protocol",
    source="syn-signs",
    target="gtsrb:all",
    test="gtsrb:all",
    network="gtsrb",
    size=40,
    methods=("real-only", "synthetic-only", "both", "recommended"),
    published={
        "real-only": Published(0.168),
        "synthetic-only": Published(0.258),
        "both": Published(0.059),
    },
    measure="error",
    labelled=LABELLED,
    others=False,
    note="1,280 random frames are the target's training set, all other frames the test",
)

SEMI_SUPERVISED = (
    PAPERS,
    replace(
        PAPERS,
        cell="syn-signs+1280->gtsrb, split by track",
        target="gtsrb",
        test="gtsrb:test",
        published={},
        others=True,
        note="the test's signs are in no training; the other training signs take part unlabelled",
    ),
)
