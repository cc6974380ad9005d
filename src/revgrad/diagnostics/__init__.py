"""Judgement without target labels: pure functions over features, logits and records.

No training imports it; a score reaches a trainer as a callable.
"""

from __future__ import annotations

from revgrad.diagnostics.domain_separation import (
    AdaptationBound,
    DomainSeparation,
    adaptation_bound,
    domain_separation,
    own_domain_error,
)
from revgrad.diagnostics.estimating import (
    ESTIMATORS,
    AccuracyEstimate,
    available_estimates,
    combined_estimate,
)
from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.gathering import gather
from revgrad.diagnostics.kept import EvidenceKeeper, KeptEvidence, read_kept
from revgrad.diagnostics.label_shift import LabelShift, label_shift
from revgrad.diagnostics.layer_shift import (
    LayerRanking,
    LayerShift,
    layer_shift,
    rank_layers,
    rank_network_layers,
)
from revgrad.diagnostics.scores import SCORES, Score, available_scores, score
from revgrad.diagnostics.symptoms import Symptom, find_symptoms
from revgrad.diagnostics.verdict import Verdict, verdict

__all__ = [
    "ESTIMATORS",
    "SCORES",
    "AccuracyEstimate",
    "AdaptationBound",
    "DomainSeparation",
    "Evidence",
    "EvidenceKeeper",
    "KeptEvidence",
    "LabelShift",
    "LayerRanking",
    "LayerShift",
    "Score",
    "Symptom",
    "Verdict",
    "adaptation_bound",
    "available_estimates",
    "available_scores",
    "combined_estimate",
    "domain_separation",
    "find_symptoms",
    "gather",
    "label_shift",
    "layer_shift",
    "own_domain_error",
    "rank_layers",
    "rank_network_layers",
    "read_kept",
    "score",
    "verdict",
]
