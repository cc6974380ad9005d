"""Imported once by the server that forks the tests' processes: torch, and all it loads later."""

import torch

from tiny import image_trainer

torch.set_num_threads(1)
image_trainer(steps=1).fit()
