"""revgrad: unsupervised domain adaptation by gradient reversal, for any PyTorch network."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from revgrad.version import __version__

if TYPE_CHECKING:
    from revgrad.adapter import DomainAdapter
    from revgrad.adapting import Adapted, adapt, load
    from revgrad.batches import Batch
    from revgrad.cutting import cut, layers
    from revgrad.domains import Domain, from_arrays, from_dataset, from_folder, from_npz
    from revgrad.errors import RevgradError
    from revgrad.exporting import export
    from revgrad.networks import DomainClassifier
    from revgrad.objectives import (
        Adversarial,
        AdversarialConsistency,
        AdversarialEntropy,
        KernelMatching,
        Losses,
        MeanMatching,
        Supervised,
        TwoLosses,
    )
    from revgrad.preprocessing import Preprocessing
    from revgrad.reversal import GradientReversal, reverse_gradient
    from revgrad.schedules import Annealed, Constant, RampUp
    from revgrad.training import Events, PairedBatches, Run, Settings, Trainer

#: The front door: name → where it lives. Imported when first asked for.
_HOMES = {
    "Adapted": "adapting",
    "Adversarial": "objectives",
    "AdversarialConsistency": "objectives",
    "AdversarialEntropy": "objectives",
    "Annealed": "schedules",
    "Batch": "batches",
    "Constant": "schedules",
    "Domain": "domains",
    "DomainAdapter": "adapter",
    "DomainClassifier": "networks",
    "Events": "training",
    "GradientReversal": "reversal",
    "KernelMatching": "objectives",
    "Losses": "objectives",
    "MeanMatching": "objectives",
    "PairedBatches": "training",
    "Preprocessing": "preprocessing",
    "RampUp": "schedules",
    "RevgradError": "errors",
    "Run": "training",
    "Settings": "training",
    "Supervised": "objectives",
    "Trainer": "training",
    "TwoLosses": "objectives",
    "adapt": "adapting",
    "cut": "cutting",
    "export": "exporting",
    "from_arrays": "domains",
    "from_dataset": "domains",
    "from_folder": "domains",
    "from_npz": "domains",
    "layers": "cutting",
    "load": "adapting",
    "reverse_gradient": "reversal",
}

__all__ = [
    "Adapted",
    "Adversarial",
    "AdversarialConsistency",
    "AdversarialEntropy",
    "Annealed",
    "Batch",
    "Constant",
    "Domain",
    "DomainAdapter",
    "DomainClassifier",
    "Events",
    "GradientReversal",
    "KernelMatching",
    "Losses",
    "MeanMatching",
    "PairedBatches",
    "Preprocessing",
    "RampUp",
    "RevgradError",
    "Run",
    "Settings",
    "Supervised",
    "Trainer",
    "TwoLosses",
    "__version__",
    "adapt",
    "cut",
    "export",
    "from_arrays",
    "from_dataset",
    "from_folder",
    "from_npz",
    "layers",
    "load",
    "reverse_gradient",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'revgrad' has no attribute {name!r}")
    value = getattr(import_module(f"revgrad.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
