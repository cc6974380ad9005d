"""The paper's networks (appendix B), and those of the methods it compares with."""

from __future__ import annotations

from revgrad.paper.networks.alexnet import AlexNet
from revgrad.paper.networks.gtsrb import GTSRBNetwork
from revgrad.paper.networks.mnist import MNISTNetwork
from revgrad.paper.networks.one_hidden import OneHidden
from revgrad.paper.networks.svhn import SVHNNetwork
from revgrad.paper.networks.xor import XorDomainClassifier

__all__ = [
    "AlexNet",
    "GTSRBNetwork",
    "MNISTNetwork",
    "OneHidden",
    "SVHNNetwork",
    "XorDomainClassifier",
]
