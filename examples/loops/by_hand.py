"""The layer and the schedules in a loop of one's own: python examples/loops/by_hand.py"""

import torch
from moons import accuracy, moons
from torch import Tensor, nn
from torch.nn import functional as F

from revgrad import Annealed, RampUp, reverse_gradient
from revgrad.networks import DomainClassifier


def train(x: Tensor, y: Tensor, target: Tensor, steps: int = 1000, batch: int = 100) -> nn.Module:
    torch.manual_seed(0)
    features = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    labels, domains = nn.Linear(64, 2), DomainClassifier(64, hidden=(64,))
    ramp_up, annealed = RampUp(), Annealed(0.05)
    parameters = [*features.parameters(), *labels.parameters(), *domains.parameters()]
    optimiser = torch.optim.SGD(parameters, lr=annealed(0.0), momentum=0.9)
    domain = torch.arange(2.0).repeat_interleave(batch)  # 0: source, 1: target
    for step in range(steps):
        progress = step / steps
        some, others = torch.randperm(len(x))[:batch], torch.randperm(len(target))[:batch]
        found = features(torch.cat([x[some], target[others]]))
        label_loss = F.cross_entropy(labels(found[:batch]), y[some])
        logits = domains(reverse_gradient(found, ramp_up(progress)))
        domain_loss = F.binary_cross_entropy_with_logits(logits, domain)
        optimiser.param_groups[0]["lr"] = annealed(progress)
        optimiser.zero_grad()
        (label_loss + domain_loss).backward()
        optimiser.step()
    return nn.Sequential(features, labels)


if __name__ == "__main__":
    turned, classes = moons(turn=35)
    print(f"target accuracy {accuracy(train(*moons(), turned)(turned), classes):.3f}")
