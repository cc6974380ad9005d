"""The paper's experiments as data, and what runs them: `revgrad reproduce`.

A new cell is an `Experiment` and one line in its table.
"""

from __future__ import annotations

from revgrad.paper.tables.experiment import Experiment
from revgrad.paper.tables.mnist_to_svhn import MNIST_TO_SVHN
from revgrad.paper.tables.office31 import OFFICE31_TABLE
from revgrad.paper.tables.office_caltech import FINE_TUNED, OFFICE_CALTECH
from revgrad.paper.tables.semi_supervised import SEMI_SUPERVISED
from revgrad.paper.tables.table1 import TABLE1
from revgrad.paper.tables.table2 import TABLE2, WITH_TORCHVISION

#: The paper's tables (and what it shows in figures and text), by name.
TABLES: dict[str, tuple[Experiment, ...]] = {
    "table1": TABLE1,
    "table2": TABLE2,
    "office31": OFFICE31_TABLE,
    "semi-supervised": SEMI_SUPERVISED,
    "mnist-to-svhn": MNIST_TO_SVHN,
    "office-caltech": (*OFFICE_CALTECH, *FINE_TUNED),
}

#: Cells that are run only when they are named.
ON_REQUEST: dict[str, tuple[Experiment, ...]] = {"table2": WITH_TORCHVISION}
