"""Networks: by name, ours for small images, pretrained ones, and the domain classifier."""

from __future__ import annotations

from revgrad.networks.compact import CompactNetwork
from revgrad.networks.domain_classifier import DomainClassifier
from revgrad.networks.initialisation import initialise
from revgrad.networks.registry import (
    NETWORKS,
    Blueprint,
    blueprint_named,
    blueprint_of,
    build_network,
)

__all__ = [
    "NETWORKS",
    "Blueprint",
    "CompactNetwork",
    "DomainClassifier",
    "blueprint_named",
    "blueprint_of",
    "build_network",
    "initialise",
]
