"""Table 2 as printed: Office-31 in full, AlexNet fine-tuned with a 256-unit bottleneck.

It needs what can't come with a package: the folder of Office-31 and torchvision's AlexNet weights
(`revgrad reproduce office31 --data FOLDER --weights alexnet.pth`). Five random splits of 20
labelled images a class from Amazon, 8 from the others; the whole target takes part unlabelled.
AlexNet is torchvision's, where the paper had Caffe's; new layers learn ten times as fast as
pretrained ones. The number of steps is ours: the paper gives none.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from revgrad.errors import DataError, InputError
from revgrad.paper.data.office import SAENKO_SEEDS
from revgrad.paper.tables.experiment import Experiment
from revgrad.paper.tables.table2 import PUBLISHED

OFFICE31_TABLE = tuple(
    Experiment(
        table="office31",
        cell=f"{source}->{target}",
        source=f"office31:{source}",
        target=f"office31:{target}",
        test=f"office31:{target}",
        network="alexnet",
        size=224,
        methods=("source-only", "adversarial"),
        published={
            method: number
            for method, number in published.items()
            if method in ("source-only", "adversarial")
        },
        fine_tuned=True,
        seeds=SAENKO_SEEDS,
        note="31 classes, five splits, transductive; torchvision's AlexNet fine-tuned, where the "
        "paper had Caffe's; its source only is DeCAF6's",
    )
    for (source, target), published in PUBLISHED.items()
)


def with_files(experiment: Experiment, data: Path | None, weights: Path | None) -> Experiment:
    """The experiment on a folder of Office-31 and a file of weights.

    Parameters
    ----------
    data
        the folder that has amazon, dslr and webcam; None: office31 in the data folder
    """
    if not experiment.fine_tuned:
        if data is not None or weights is not None:
            raise InputError(f"--data and --weights are for office31, not for {experiment.table}")
        return experiment
    if weights is None:
        raise InputError(
            "office31 fine-tunes AlexNet: name torchvision's state dict, --weights alexnet.pth"
        )
    if not weights.is_file():
        raise DataError(f"there is no file of weights {weights}")
    if data is not None and not data.is_dir():
        raise DataError(f"there is no folder {data} of Office-31")
    there = "" if data is None else f"@{data}"
    return replace(
        experiment,
        source=f"{experiment.source}{there}",
        target=f"{experiment.target}{there}",
        test=f"{experiment.test}{there}",
        weights=str(weights),
    )
