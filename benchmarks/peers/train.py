"""One training by one library, in a process of its own: a json line.

python benchmarks/peers/train.py LIBRARY WORK SEED

LIBRARY is a key of LIBRARIES; loop is written by hand. CPU time is that of training alone: no
import, no data, no evaluation.
"""

from __future__ import annotations

import json
import sys
import time
from functools import cache
from importlib.metadata import version

import numpy as np
import torch
from torch import nn

from work import BATCH, LEARNING_RATE, WORKS, Work, accuracy, domain_head


def by_hand(work: Work, network: nn.Sequential, source_only: bool = False) -> nn.Module:
    """The loop that a person would write; λ ramps up as in the paper."""

    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx, inputs, factor):  # type: ignore[no-untyped-def]
            ctx.factor = factor
            return inputs.view_as(inputs)

        @staticmethod
        def backward(ctx, gradient):  # type: ignore[no-untyped-def]
            return -ctx.factor * gradient, None

    head = domain_head(work.width)
    weights = [*network.parameters(), *head.parameters()]
    optimiser = torch.optim.Adam(weights, lr=LEARNING_RATE)
    source, labels = torch.from_numpy(work.source), torch.from_numpy(work.labels)
    target = torch.from_numpy(work.target)
    domains = torch.cat([torch.ones(BATCH), torch.zeros(BATCH)])
    for step in range(work.steps):
        one, two = (torch.randint(len(x), (BATCH,)) for x in (source, target))
        optimiser.zero_grad()
        if source_only:
            loss = nn.functional.cross_entropy(network(source[one]), labels[one])
        else:
            factor = 2 / (1 + np.exp(-10 * step / work.steps)) - 1
            hidden = network[0](torch.cat([source[one], target[two]]))
            loss = nn.functional.cross_entropy(network[1](hidden[:BATCH]), labels[one])
            logits = head(Reverse.apply(hidden, factor)).squeeze(1)
            loss = loss + nn.functional.binary_cross_entropy_with_logits(logits, domains)
        loss.backward()
        optimiser.step()
    return network


def source_only(work: Work, network: nn.Sequential) -> nn.Module:
    return by_hand(work, network, source_only=True)


def by_revgrad(work: Work, network: nn.Sequential, recipe: str = "paper") -> nn.Module:
    import revgrad

    same = {
        "learning_rate": LEARNING_RATE,
        "optimiser": "adam",
        "batch_size": 2 * BATCH,
        "domain_classifier": (64,),
    }
    adapted = revgrad.adapt(
        network,
        (work.source, work.labels),
        work.target,
        layer="0",
        recipe=recipe,
        held_out=0,
        evidence_samples=0,
        progress=False,
        steps=work.steps,
        **same,
    )
    return nn.Sequential(adapted.preprocessing, adapted.network)


def by_revgrad_stabilised(work: Work, network: nn.Sequential) -> nn.Module:
    return by_revgrad(work, network, "stabilised")


def by_revgrad_auto(work: Work, network: nn.Sequential) -> nn.Module:
    """The default: several trainings, as long as it thinks fit, and the choice among them."""
    import revgrad

    source = (work.source, work.labels)
    adapted = revgrad.adapt(network, source, work.target, layer="0", progress=False)
    return nn.Sequential(adapted.preprocessing, adapted.network)


def by_skada(work: Work, network: nn.Sequential) -> nn.Module:
    """skada's DANN on its skorch net; a number of epochs that makes the same steps."""
    from skada.deep import DANN

    x = np.concatenate([work.source, work.target])
    y = np.concatenate([work.labels, np.full(len(work.target), -1)])
    domains = np.concatenate([np.ones(len(work.source)), -2 * np.ones(len(work.target))])
    epochs = max(1, round(work.steps / (max(len(work.source), len(work.target)) // BATCH)))
    head = nn.Sequential(*domain_head(work.width), nn.Sigmoid(), nn.Flatten(0))
    net = DANN(
        network,
        layer_name="0",
        domain_classifier=head,
        batch_size=2 * BATCH,
        max_epochs=epochs,
        optimizer=torch.optim.Adam,
        lr=LEARNING_RATE,
        train_split=None,
        verbose=0,
    )
    net.fit(x, y.astype(int), sample_domain=domains.astype(int))
    network.load_state_dict(
        {
            name.removeprefix("base_module_."): value
            for name, value in net.module_.state_dict().items()
            if name.startswith("base_module_.")
        }
    )
    return network


@cache
def declare_operators() -> None:
    """torchvision from PyPI beside PyTorch's CPU build: its import asks for these two."""
    boxes = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", boxes)


def by_pytorch_adapt(work: Work, network: nn.Sequential) -> nn.Module:
    """pytorch-adapt's DANN hook in a loop, as its examples have it; λ is constant there."""
    declare_operators()
    from pytorch_adapt.containers import Models, Optimizers
    from pytorch_adapt.hooks import DANNHook

    head = nn.Sequential(*domain_head(work.width), nn.Flatten(0))
    models = Models({"G": network[0], "C": network[1], "D": head})
    optimizers = Optimizers((torch.optim.Adam, {"lr": LEARNING_RATE}))
    optimizers.create_with(models)
    hook = DANNHook(opts=list(optimizers.values()))
    source, labels = torch.from_numpy(work.source), torch.from_numpy(work.labels)
    target = torch.from_numpy(work.target)
    for _ in range(work.steps):
        one, two = (torch.randint(len(x), (BATCH,)) for x in (source, target))
        hook(
            {
                **models,
                "src_imgs": source[one],
                "src_labels": labels[one],
                "target_imgs": target[two],
                "src_domain": torch.zeros(BATCH),
                "target_domain": torch.ones(BATCH),
            }
        )
    return network


def by_adapt(work: Work, network: nn.Sequential) -> nn.Module:
    """ADAPT's DANN in TensorFlow, on layers of the same sizes; λ is constant, as is its default."""
    import tensorflow as tf
    from adapt.feature_based import DANN

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.keras.utils.set_random_seed(torch.initial_seed() % 2**32)
    dense, chain = tf.keras.layers.Dense, tf.keras.Sequential
    model = DANN(
        chain([dense(work.width, activation="relu"), dense(work.width, activation="relu")]),
        chain([dense(work.classes)]),
        chain([dense(64, activation="relu"), dense(1, activation="sigmoid")]),
        Xt=work.target,
        lambda_=1.0,
        loss=tf.keras.losses.CategoricalCrossentropy(from_logits=True),
        optimizer=tf.keras.optimizers.Adam(LEARNING_RATE),
    )
    labels = np.eye(work.classes, dtype="float32")[work.labels]
    epochs = max(1, round(work.steps / np.ceil(len(work.source) / BATCH)))
    model.fit(work.source, labels, epochs=epochs, batch_size=BATCH, verbose=0)
    return Predictions(model)


class Predictions(nn.Module):
    """A model of TensorFlow, as if it were one of PyTorch."""

    def __init__(self, model: object) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.asarray(self.model.predict(inputs.numpy())))


LIBRARIES = {
    "source only": (source_only, "torch"),
    "loop": (by_hand, "torch"),
    "revgrad": (by_revgrad, "revgrad"),
    "skada": (by_skada, "skada"),
    "pytorch-adapt": (by_pytorch_adapt, "pytorch-adapt"),
    "ADAPT": (by_adapt, "adapt"),
    "revgrad, stabilised": (by_revgrad_stabilised, "revgrad"),
    "revgrad, auto": (by_revgrad_auto, "revgrad"),
}


def main(library: str, name: str, seed: int) -> None:
    torch.set_num_threads(1)
    work = WORKS[name](seed)
    network = work.network(seed)
    train, package = LIBRARIES[library]
    short = work._replace(steps=4)
    train(short, work.network(seed))  # imports and first calls are not training
    begun = time.process_time()
    trained = train(work, network)
    seconds = time.process_time() - begun
    line = {
        "library": library,
        "version": version(package),
        "work": name,
        "seed": seed,
        "steps": work.steps,
        "cpu_seconds": round(seconds, 3),
        "accuracy": round(accuracy(trained, work), 4),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
