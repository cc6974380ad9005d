"""Gradient reversal in a skorch classifier: python examples/loops/with_skorch.py

The label −1 marks the target's samples.
"""

import torch
from moons import accuracy, moons
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback
from torch import Tensor, nn
from torch.nn import functional as F

from revgrad import Annealed, RampUp, reverse_gradient
from revgrad.networks import DomainClassifier


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.labels, self.domains = nn.Linear(64, 2), DomainClassifier(64, hidden=(64,))
        self.factor = 0.0

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        found = self.features(inputs)
        return self.labels(found), self.domains(reverse_gradient(found, self.factor))


class Adversarial(NeuralNetClassifier):
    def get_loss(
        self, found: tuple, y: Tensor, *, X: Tensor = None, training: bool = False
    ) -> Tensor:
        (classes, domains), known = found, y >= 0  # samples without a label are the target's
        domain_loss = F.binary_cross_entropy_with_logits(domains, (~known).float())
        return F.cross_entropy(classes[known], y[known]) + domain_loss


class Schedules(Callback):
    """λ and μ by progress: one epoch here is one pass over both domains."""

    def on_epoch_begin(self, net: Adversarial, **_: object) -> None:
        progress = (len(net.history) - 1) / net.max_epochs
        net.module_.factor = RampUp()(progress)
        net.optimizer_.param_groups[0]["lr"] = Annealed(0.05)(progress)


def train(x: Tensor, y: Tensor, target: Tensor, steps: int = 170, batch: int = 200) -> Adversarial:
    torch.manual_seed(0)
    net = Adversarial(
        Network, max_epochs=steps, batch_size=batch, train_split=None, iterator_train__shuffle=True,
        optimizer=torch.optim.SGD, optimizer__momentum=0.9, callbacks=[Schedules()], verbose=0,
        classes=[0, 1],
    )  # fmt: skip
    return net.fit(torch.cat([x, target]), torch.cat([y, torch.full((len(target),), -1)]))


if __name__ == "__main__":
    turned, classes = moons(turn=35)
    logits = torch.from_numpy(train(*moons(), turned).predict_proba(turned))
    print(f"target accuracy {accuracy(logits, classes):.3f}")
