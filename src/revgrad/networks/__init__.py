"""Networks: by name, ours for small images, pretrained ones, and the domain classifier."""

from __future__ import annotations

from revgrad.networks.compact import CompactNetwork
from revgrad.networks.default import BY_SHAPE, default_network
from revgrad.networks.domain_classifier import DomainClassifier
from revgrad.networks.initialisation import initialise
from revgrad.networks.perceptron import Perceptron
from revgrad.networks.registry import (
    NETWORKS,
    Blueprint,
    blueprint_named,
    blueprint_of,
    build_network,
)
from revgrad.networks.series import SeriesNetwork

__all__ = [
    "BY_SHAPE",
    "NETWORKS",
    "Blueprint",
    "CompactNetwork",
    "DomainClassifier",
    "Perceptron",
    "SeriesNetwork",
    "blueprint_named",
    "blueprint_of",
    "build_network",
    "default_network",
    "initialise",
]
