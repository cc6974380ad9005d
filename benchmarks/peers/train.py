"""One training by one library, in a process of its own: a json line.

python benchmarks/peers/train.py LIBRARY WORK SEED [--steps N] [--until ACCURACY]

LIBRARY is a key of LIBRARIES; loop is written by hand. CPU time is that of training alone: no
import, no data, no evaluation.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from functools import cache
from importlib.metadata import version
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from work import (
    BATCH,
    LEARNING_RATE,
    MEAN,
    PAPERS,
    SCALE,
    WORKS,
    Reached,
    Watch,
    Work,
    accuracy,
    domain_head,
    hidden,
)


def by_hand(
    work: Work, network: nn.Sequential, watch: Watch, source_only: bool = False
) -> nn.Module:
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
        watch(step + 1, network)
    return network


def source_only(work: Work, network: nn.Sequential, watch: Watch) -> nn.Module:
    return by_hand(work, network, watch, source_only=True)


def by_revgrad(
    work: Work, network: nn.Sequential, watch: Watch, recipe: str = "paper"
) -> nn.Module:
    import revgrad
    from revgrad.adapter import DeployableModel

    before: list[nn.Module] = [Pixels()] if work.width == PAPERS else []

    class Look(revgrad.Callback):
        def on_step(self, trainer: revgrad.Trainer, step: int) -> None:
            model = DeployableModel(trainer.adapter.preprocessing, network)
            with trainer.as_returned():
                watch(step, nn.Sequential(*before, model))

    same = {
        "learning_rate": LEARNING_RATE,
        "optimiser": "adam",
        "batch_size": 2 * BATCH,
        "domain_classifier": (hidden(work.width),),
    }
    source, target = (_raw(work, inputs) for inputs in (work.source, work.target))
    adapted = revgrad.adapt(
        network,
        (source, work.labels),
        target,
        layer="0",
        recipe=recipe,
        held_out=0,
        evidence_samples=0,
        progress=False,
        steps=work.steps,
        callbacks=[Look()],
        **(same if recipe != "recommended" else {}),
    )
    return nn.Sequential(*before, adapted.preprocessing, adapted.network)


class Pixels(nn.Module):
    """Images as the other libraries take them → as they were."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return (images * SCALE + MEAN).round().to(torch.uint8)


def _raw(work: Work, inputs: np.ndarray) -> np.ndarray:
    return Pixels()(torch.from_numpy(inputs)).numpy() if work.width == PAPERS else inputs


def by_revgrad_stabilised(work: Work, network: nn.Sequential, watch: Watch) -> nn.Module:
    return by_revgrad(work, network, watch, "stabilised")


def by_revgrad_recommended(work: Work, network: nn.Sequential, watch: Watch) -> nn.Module:
    return by_revgrad(work, network, watch, "recommended")


@cache
def declare_operators() -> None:
    """torchvision from PyPI beside PyTorch's CPU build: its import asks for these two."""
    boxes = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", boxes)


def by_pykale(work: Work, network: nn.Sequential, watch: Watch) -> nn.Module:
    """PyKale's DANN: its loss of a batch, in the loop that Lightning would make of it."""
    declare_operators()
    from kale.pipeline.domain_adapter import DANNTrainer

    data = SimpleNamespace(prepare_data_loaders=lambda **_: None)  # batches are ours
    trainer = DANNTrainer(data, network[0], network[1], domain_head(work.width, 2))
    trainer.target_label = 1  # of `domains`
    optimiser = torch.optim.Adam(trainer.parameters(), lr=LEARNING_RATE)
    source, labels = torch.from_numpy(work.source), torch.from_numpy(work.labels)
    target = torch.from_numpy(work.target)
    domains = torch.cat([torch.zeros(BATCH), torch.ones(BATCH)]).long()
    unknown = torch.zeros(BATCH, dtype=torch.int64)
    for step in range(work.steps):
        one, two = (torch.randint(len(x), (BATCH,)) for x in (source, target))
        trainer.alpha = 2 / (1 + np.exp(-10 * step / work.steps)) - 1
        inputs = torch.cat([source[one], target[two]])
        batch = inputs, torch.cat([labels[one], unknown]), domains
        optimiser.zero_grad()
        label, domain, _ = trainer.compute_loss(batch, "train")
        (label + domain).backward()
        optimiser.step()
        watch(step + 1, network)
    return network


def by_revgrad_auto(work: Work, network: nn.Sequential, watch: Watch) -> nn.Module:
    """The default: several trainings, as long as it thinks fit, and the choice among them."""
    import revgrad

    source = (work.source, work.labels)
    adapted = revgrad.adapt(network, source, work.target, layer="0", progress=False)
    return nn.Sequential(adapted.preprocessing, adapted.network)


def by_skada(work: Work, network: nn.Sequential, watch: Watch) -> nn.Module:
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
    watch.step = len(net.history) * (max(len(work.source), len(work.target)) // BATCH)
    network.load_state_dict(
        {
            name.removeprefix("base_module_."): value
            for name, value in net.module_.state_dict().items()
            if name.startswith("base_module_.")
        }
    )
    return network


def by_pytorch_adapt(work: Work, network: nn.Sequential, watch: Watch) -> nn.Module:
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
    for step in range(work.steps):
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
        watch(step + 1, network)
    return network


def by_adapt(work: Work, network: nn.Sequential, watch: Watch) -> nn.Module:
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
    "revgrad, stabilised": (by_revgrad_stabilised, "revgrad"),
    "revgrad, recommended": (by_revgrad_recommended, "revgrad"),
    "pykale": (by_pykale, "pykale"),
    "skada": (by_skada, "skada"),
    "pytorch-adapt": (by_pytorch_adapt, "pytorch-adapt"),
    "ADAPT": (by_adapt, "adapt"),
    "revgrad, auto": (by_revgrad_auto, "revgrad"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("seed", type=int)
    parser.add_argument("--steps", type=int, help="instead of the work's own")
    parser.add_argument("--until", type=float, help="end at this accuracy of the target")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    work = WORKS[chosen.work](chosen.seed)
    if chosen.steps:
        work = work._replace(steps=chosen.steps)
    network = work.network(chosen.seed)
    train, package = LIBRARIES[chosen.library]
    few = work._replace(  # imports and first calls are not training
        steps=4,
        **{name: getattr(work, name)[: 4 * BATCH] for name in ("source", "labels", "target")},
    )
    train(few, few.network(chosen.seed), Watch(few, None))
    watch = Watch(work, chosen.until)
    begun = time.process_time()
    trained: nn.Module = network
    with contextlib.suppress(Reached):
        trained = train(work, network, watch)
    seconds = time.process_time() - begun - watch.seconds_looked
    ended = watch.step or work.steps
    line = {
        "library": chosen.library,
        "version": version(package),
        "work": chosen.work,
        "seed": chosen.seed,
        "steps": ended,
        "cpu_seconds": round(seconds, 3),
        "step_seconds": round(watch.seconds_a_step() or seconds / ended, 6),
        "accuracy": round(watch.accuracy if chosen.until else accuracy(trained, work), 4),
        **({"until": chosen.until} if chosen.until else {}),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
