"""Gradient reversal in a LightningModule: python examples/loops/with_lightning.py"""

import lightning
import torch
from lightning.pytorch.utilities import CombinedLoader
from moons import accuracy, moons
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from revgrad import Annealed, RampUp, reverse_gradient
from revgrad.networks import DomainClassifier


class Adversarial(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.labels, self.domains = nn.Linear(64, 2), DomainClassifier(64, hidden=(64,))
        self.ramp_up, self.annealed = RampUp(), Annealed(0.05)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.labels(self.features(inputs))

    def training_step(self, batch: list, number: int) -> Tensor:
        (x, y), (target,) = batch
        progress = self.global_step / self.trainer.max_steps
        self.optimizers().param_groups[0]["lr"] = self.annealed(progress)
        found = self.features(torch.cat([x, target]))
        logits = self.domains(reverse_gradient(found, self.ramp_up(progress)))
        domain = torch.arange(len(found), device=self.device) >= len(x)  # 0: source, 1: target
        domain_loss = F.binary_cross_entropy_with_logits(logits, domain.float())
        return F.cross_entropy(self.labels(found[: len(x)]), y) + domain_loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.annealed(0.0), momentum=0.9)


def train(x: Tensor, y: Tensor, target: Tensor, steps: int = 1000, batch: int = 100) -> nn.Module:
    loaders = [DataLoader(TensorDataset(*one), batch, shuffle=True) for one in ((x, y), (target,))]
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(
        max_steps=steps, accelerator="cpu", enable_model_summary=False, **quiet
    )
    model = Adversarial()
    trainer.fit(model, CombinedLoader(loaders, "max_size_cycle"))
    return model.eval()


if __name__ == "__main__":
    turned, classes = moons(turn=35)
    print(f"target accuracy {accuracy(train(*moons(), turned)(turned), classes):.3f}")
