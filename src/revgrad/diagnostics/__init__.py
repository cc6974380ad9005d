"""Diagnostics without target labels: the verdict on a run, label-free scores, estimated accuracy,
symptoms, divergence of the domains, choice of the layer; functions of features, logits and records.

No training imports it; a score reaches a trainer as a callable.
"""

from __future__ import annotations

from revgrad.diagnostics.accuracy_estimate import (
    ESTIMATORS,
    AccuracyEstimate,
    available_estimates,
    combined_estimate,
    estimate_accuracy,
)
from revgrad.diagnostics.divergence import (
    AdaptationBound,
    DomainSeparation,
    adaptation_bound,
    domain_separation,
    own_domain_error,
)
from revgrad.diagnostics.evidence import Evidence, gather_evidence
from revgrad.diagnostics.label_shift import LabelShift, estimate_label_shift
from revgrad.diagnostics.layer_choice import (
    LayerRanking,
    LayerShift,
    LayerSuggestion,
    layer_shift,
    rank_layers,
    rank_network_layers,
    suggest_layer,
)
from revgrad.diagnostics.recorder import EvidenceRecorder, RecordedEvidence, read_evidence
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
    "EvidenceRecorder",
    "LabelShift",
    "LayerRanking",
    "LayerShift",
    "LayerSuggestion",
    "RecordedEvidence",
    "Score",
    "Symptom",
    "Verdict",
    "adaptation_bound",
    "available_estimates",
    "available_scores",
    "combined_estimate",
    "domain_separation",
    "estimate_accuracy",
    "estimate_label_shift",
    "find_symptoms",
    "gather_evidence",
    "layer_shift",
    "own_domain_error",
    "rank_layers",
    "rank_network_layers",
    "read_evidence",
    "score",
    "suggest_layer",
    "verdict",
]
