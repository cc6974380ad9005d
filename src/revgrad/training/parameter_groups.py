"""Fine-tuning: which layers are frozen, and how fast each of the others learns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from revgrad.errors import InputError, unknown
from revgrad.networks.batch_norm import batch_norms
from revgrad.networks.registry import blueprint_of
from revgrad.training.settings import Settings


class FrozenLayers:
    """Layers of a network that training leaves as they are: `Settings.freeze`.

    A layer is named by its path, which means all that lies in it ("layer1" is not "layer10"), or
    by a pattern ("blocks.[0-3]", "*.norm*"). Its weights take no gradient. BatchNorm in it
    normalises by the statistics it has, and these stay; dropout goes on.
    """

    def __init__(self, network: nn.Module, patterns: Sequence[str]) -> None:
        found = dict(network.named_parameters())
        self._modules: list[nn.Module] = []
        names: set[str] = set()
        kept = {id(norm) for norm in batch_norms(network)} if patterns else set()
        modules = [(path, one) for path, one in network.named_modules() if path]
        for pattern in patterns:
            inside = {name for name in found if _lies_in(name, pattern)}
            norms = [one for path, one in modules if id(one) in kept and _lies_in(path, pattern)]
            if not inside and not norms:
                raise unknown("layer to freeze", pattern, [path for path, _ in modules])
            names |= inside
            self._modules += norms
        self._parameters = [found[name] for name in found if name in names]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, frozen weights take no gradient; afterwards all is as it was."""
        before = [value.requires_grad for value in self._parameters]
        try:
            for value in self._parameters:
                value.requires_grad_(False)
            yield
        finally:
            for value, wanted in zip(self._parameters, before, strict=True):
                value.requires_grad_(wanted)

    def keep_statistics(self) -> None:
        """After the network went into training mode: BatchNorm that is frozen leaves it again."""
        for module in self._modules:
            module.eval()


def parameter_groups(
    network: nn.Module, heads: Sequence[nn.Module], settings: Settings
) -> list[dict[str, Any]]:
    """What the optimiser gets: the parameters that take a gradient, by their share of μ.

    That of a parameter of the network is the factor of the longest prefix in
    `settings.layer_rates` that its name lies in, else `settings.pretrained_lr_factor` where its
    weights are pretrained (by the network's blueprint), else 1; of the domain classifier and
    further heads, `settings.domain_lr_factor`.
    """
    factors = _factors(network, settings)
    if not factors:
        raise InputError("the network has no parameter that requires a gradient")
    groups: dict[float, list[nn.Parameter]] = {}  # one group costs less than two
    for value, factor in factors:
        groups.setdefault(factor, []).append(value)
    for head in heads:
        for value in _trained(head.parameters()):
            groups.setdefault(settings.domain_lr_factor, []).append(value)
    return [{"params": values, "rate_factor": factor} for factor, values in groups.items()]


def _factors(network: nn.Module, settings: Settings) -> list[tuple[nn.Parameter, float]]:
    rates = settings.layer_rates
    names = [name for name, _ in network.named_parameters()]
    for prefix in rates:
        if not any(_lies_in(name, prefix, patterns=False) for name in names):
            paths = [path for path, _ in network.named_modules() if path]
            raise unknown("layer with a rate of its own", prefix, paths)
    new = _new_layers(network)

    def factor(name: str) -> float:
        own = [prefix for prefix in rates if _lies_in(name, prefix, patterns=False)]
        if own:
            return rates[max(own, key=len)]
        pretrained = new is not None and not any(_lies_in(name, layer) for layer in new)
        slowed = settings.pretrained_lr_factor
        return slowed if pretrained and slowed is not None else 1.0

    return [(v, factor(name)) for name, v in network.named_parameters() if v.requires_grad]


def _new_layers(network: nn.Module) -> Sequence[str] | None:
    blueprint = blueprint_of(network)
    return None if blueprint is None else blueprint.new_layers


def _trained(parameters: Iterable[nn.Parameter]) -> Iterator[nn.Parameter]:
    return (value for value in parameters if value.requires_grad)


def _lies_in(name: str, place: str, patterns: bool = True) -> bool:
    """Whether a parameter or module is `place`, or lies in it."""
    if name == place or name.startswith(f"{place}."):
        return True
    if not patterns or not any(mark in place for mark in "*?["):
        return False
    parts = name.split(".")
    return any(fnmatchcase(".".join(parts[: n + 1]), place) for n in range(len(parts)))
