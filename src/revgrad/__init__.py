"""revgrad: unsupervised domain adaptation by gradient reversal, for any PyTorch network."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from revgrad.version import __version__

if TYPE_CHECKING:
    from revgrad.adapted import Adapted, load, report, verdict
    from revgrad.adapter import DomainAdapter
    from revgrad.api import adapt, adapt_without_source
    from revgrad.batch import Batch
    from revgrad.cutting import cut, layers
    from revgrad.domains import (
        Domain,
        from_arrays,
        from_dataset,
        from_folder,
        from_frame,
        from_npz,
        from_series,
        from_shards,
        from_texts,
        joined,
        open_domain,
    )
    from revgrad.errors import RevgradError
    from revgrad.estimators import DANNClassifier, DANNRegressor
    from revgrad.exporting import export
    from revgrad.networks import Blueprint, DomainClassifier
    from revgrad.objectives import (
        Adversarial,
        AdversarialConsistency,
        AdversarialEntropy,
        Adversary,
        ClassConfusion,
        ConditionalReversal,
        CovarianceMatching,
        InformationMaximisation,
        KernelMatching,
        Losses,
        MarginDisparity,
        MeanMatching,
        PartialAdversarial,
        PredictionEntropy,
        Reversal,
        Stabilised,
        Supervised,
        Terms,
        TwoLosses,
    )
    from revgrad.preprocessing import Preprocessing
    from revgrad.recipes import RECIPES, Recipe
    from revgrad.reversal import GradientReversal, reverse_gradient
    from revgrad.schedules import Annealed, Constant, RampUp
    from revgrad.training import Callback, PairedBatches, Provenance, Run, Settings, Trainer

#: The front door: name → where it lives. Imported when first asked for.
_HOMES = {
    "Adapted": "adapted",
    "Terms": "objectives",
    "Reversal": "objectives",
    "PredictionEntropy": "objectives",
    "MarginDisparity": "objectives",
    "CovarianceMatching": "objectives",
    "ConditionalReversal": "objectives",
    "ClassConfusion": "objectives",
    "Adversarial": "objectives",
    "AdversarialConsistency": "objectives",
    "AdversarialEntropy": "objectives",
    "Adversary": "objectives",
    "Annealed": "schedules",
    "Batch": "batch",
    "Blueprint": "networks",
    "Callback": "training",
    "Constant": "schedules",
    "DANNClassifier": "estimators",
    "DANNRegressor": "estimators",
    "Domain": "domains",
    "DomainAdapter": "adapter",
    "DomainClassifier": "networks",
    "GradientReversal": "reversal",
    "KernelMatching": "objectives",
    "Losses": "objectives",
    "MeanMatching": "objectives",
    "PairedBatches": "training",
    "Preprocessing": "preprocessing",
    "Provenance": "training",
    "RECIPES": "recipes",
    "RampUp": "schedules",
    "Recipe": "recipes",
    "RevgradError": "errors",
    "Run": "training",
    "Settings": "training",
    "Stabilised": "objectives",
    "Supervised": "objectives",
    "Trainer": "training",
    "TwoLosses": "objectives",
    "InformationMaximisation": "objectives",
    "PartialAdversarial": "objectives",
    "adapt": "api",
    "adapt_without_source": "api",
    "cut": "cutting",
    "export": "exporting",
    "from_arrays": "domains",
    "from_dataset": "domains",
    "from_folder": "domains",
    "from_frame": "domains",
    "from_npz": "domains",
    "from_series": "domains",
    "from_shards": "domains",
    "from_texts": "domains",
    "joined": "domains",
    "layers": "cutting",
    "load": "adapted",
    "open_domain": "domains",
    "report": "adapted",
    "reverse_gradient": "reversal",
    "verdict": "adapted",
}

__all__ = [
    "RECIPES",
    "Adapted",
    "Adversarial",
    "AdversarialConsistency",
    "AdversarialEntropy",
    "Adversary",
    "Annealed",
    "Batch",
    "Blueprint",
    "Callback",
    "ClassConfusion",
    "ConditionalReversal",
    "Constant",
    "CovarianceMatching",
    "DANNClassifier",
    "DANNRegressor",
    "Domain",
    "DomainAdapter",
    "DomainClassifier",
    "GradientReversal",
    "InformationMaximisation",
    "KernelMatching",
    "Losses",
    "MarginDisparity",
    "MeanMatching",
    "PairedBatches",
    "PartialAdversarial",
    "PredictionEntropy",
    "Preprocessing",
    "Provenance",
    "RampUp",
    "Recipe",
    "Reversal",
    "RevgradError",
    "Run",
    "Settings",
    "Stabilised",
    "Supervised",
    "Terms",
    "Trainer",
    "TwoLosses",
    "__version__",
    "adapt",
    "adapt_without_source",
    "cut",
    "export",
    "from_arrays",
    "from_dataset",
    "from_folder",
    "from_frame",
    "from_npz",
    "from_series",
    "from_shards",
    "from_texts",
    "joined",
    "layers",
    "load",
    "open_domain",
    "report",
    "reverse_gradient",
    "verdict",
]


#: The rooms of the package: `revgrad.diagnostics.verdict` works without a further import.
_ROOMS = frozenset(
    {
        "adapter",
        "cutting",
        "diagnostics",
        "domains",
        "errors",
        "estimators",
        "evaluation",
        "exporting",
        "model_selection",
        "networks",
        "objectives",
        "preprocessing",
        "recipes",
        "reports",
        "reversal",
        "schedules",
        "tasks",
        "training",
    }
)


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"revgrad.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'revgrad' has no attribute {name!r}")
    value = getattr(import_module(f"revgrad.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
