"""A network and a training script that were there before: python examples/loops/own_script.py

Lines with "new" are what gradient reversal adds; network, optimiser and scheduler stay as they are.
"""

import torch
from moons import accuracy, moons
from torch import Tensor, nn
from torch.nn import functional as F

import revgrad  # new
from revgrad.networks import DomainClassifier  # new


def train(x: Tensor, y: Tensor, target: Tensor, steps: int = 1000, batch: int = 100) -> nn.Module:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
    )
    pieces = revgrad.cut(network, "3")  # new: behind the layer called "3"
    domains = DomainClassifier(64, hidden=(64,))  # new
    parameters = [*network.parameters(), *domains.parameters()]  # new: domains
    optimiser = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda i: (1 + 10 * i / steps) ** -0.75)
    domain = torch.arange(2.0).repeat_interleave(batch)  # new
    for step in range(steps):
        some, others = torch.randperm(len(x))[:batch], torch.randperm(len(target))[:batch]
        found = pieces.features(
            torch.cat([x[some], target[others]])
        )  # new; it was network(x[some])
        loss = F.cross_entropy(pieces.predictor(found[:batch]), y[some])
        reversed_ = revgrad.reverse_gradient(found, revgrad.RampUp()(step / steps))  # new
        loss += F.binary_cross_entropy_with_logits(domains(reversed_), domain)  # new
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return network


if __name__ == "__main__":
    turned, classes = moons(turn=35)
    print(f"target accuracy {accuracy(train(*moons(), turned)(turned), classes):.3f}")
