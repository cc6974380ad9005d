"""`revgrad train`: from data and a network to a run."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from revgrad.cli.common import (
    JSON,
    echo_json,
    parse_widths,
    speak,
    told_when_interrupted,
)
from revgrad.cli.config_file import read_config
from revgrad.cli.opening import open_data
from revgrad.cli.recipe import take_recipe
from revgrad.errors import InputError

DATA = "Data"
NETWORK = "Network"
TRAINING = "Training"
OUTPUT = "Run and output"
JUDGEMENT = "Is it working?"


def train(
    config: Path | None = typer.Option(
        None,
        callback=read_config,
        is_eager=True,
        help="A TOML file with any of these options; the command line comes first.",
    ),
    recipe: str | None = typer.Option(
        None,
        callback=take_recipe,
        is_eager=True,
        help="A whole way of training by its name: plain (the paper's) or recommended (ours, for "
        "images); other options come first.",
    ),
    source: str = typer.Option(
        ...,
        help="Labelled data: a name (mnist, digits, …), an .npz file, or a folder with a "
        "subfolder per class.",
        rich_help_panel=DATA,
    ),
    target: str | None = typer.Option(
        None,
        help="Unlabelled data; labels it may have are dropped. Not needed for source-only.",
        rich_help_panel=DATA,
    ),
    test: str | None = typer.Option(
        None,
        help="Labelled target data to report accuracy on; it decides nothing.",
        rich_help_panel=DATA,
    ),
    held_out: float = typer.Option(
        0.1, help="Share of the source kept for evaluation.", rich_help_panel=DATA
    ),
    keep_target_labels: int = typer.Option(
        0, help="Semi-supervised: use this many of the target's labels.", rich_help_panel=DATA
    ),
    size: str | None = typer.Option(
        None,
        help="Image size, one number or HEIGHTxWIDTH. Default: the network's.",
        rich_help_panel=DATA,
    ),
    fit: str = typer.Option(
        "crop", help="Images of other proportions: crop, pad or stretch.", rich_help_panel=DATA
    ),
    corrupt: str = typer.Option(
        "fail", help="Images that can't be read: fail or skip.", rich_help_panel=DATA
    ),
    per_image: bool = typer.Option(
        False,
        help="Standardise each image by its own mean and deviation.",
        rich_help_panel=DATA,
    ),
    balance: bool = typer.Option(
        False,
        help="Draw all classes of the source alike often, however many samples each has.",
        rich_help_panel=DATA,
    ),
    network: str = typer.Option(
        "mnist",
        help="mnist, svhn, gtsrb, compact, alexnet, efficientnet-lite0, one-hidden, or "
        "module:function of your own.",
        rich_help_panel=NETWORK,
    ),
    layer: str | None = typer.Option(
        None,
        help="Where the domain classifier is attached; `revgrad layers` lists them. "
        "Default: the network's.",
        rich_help_panel=NETWORK,
    ),
    hidden: str | None = typer.Option(
        None,
        help="Hidden widths of the domain classifier. Default: the network's, or 1024,1024.",
        rich_help_panel=NETWORK,
    ),
    init: Path | None = typer.Option(
        None,
        help="Start from the weights of this run (a folder) or file (.safetensors).",
        rich_help_panel=NETWORK,
    ),
    method: str = typer.Option(
        "adversarial",
        help="adversarial (the paper's), adversarial-entropy, adversarial-consistency, "
        "two-losses, mean-matching, kernel-matching; source-only and train-on-target (with the "
        "target's labels) are the bounds to compare with.",
        rich_help_panel=TRAINING,
    ),
    steps: int = typer.Option(10_000, help="Length of training.", rich_help_panel=TRAINING),
    batch: int = typer.Option(
        128, help="Rows of a step, over all processes.", rich_help_panel=TRAINING
    ),
    source_share: float = typer.Option(
        0.5, help="Share of a batch that comes from the source.", rich_help_panel=TRAINING
    ),
    rate: str = typer.Option(
        "annealed:0.01,10,0.75",
        help="Learning rate μ: annealed:μ0,α,β, or a number.",
        rich_help_panel=TRAINING,
    ),
    factor: str = typer.Option(
        "ramp-up:10,1",
        help="Adaptation factor λ: ramp-up:γ,height, or a number.",
        rich_help_panel=TRAINING,
    ),
    optimiser: str = typer.Option("sgd", help="sgd, adam or adamw.", rich_help_panel=TRAINING),
    momentum: float = typer.Option(0.9, help="Momentum of sgd.", rich_help_panel=TRAINING),
    weight_decay: float = typer.Option(0.0, help="l2 penalty.", rich_help_panel=TRAINING),
    domain_rate: float = typer.Option(
        1.0, help="The domain classifier's rate, as a multiple of μ.", rich_help_panel=TRAINING
    ),
    max_norm: float | None = typer.Option(
        None,
        help="Limit of the norm of the weights into a unit; 0: none. Default: the network's.",
        rich_help_panel=TRAINING,
    ),
    clip: float | None = typer.Option(
        None, help="Limit of the gradients' norm. Default: none.", rich_help_panel=TRAINING
    ),
    batch_norm: str = typer.Option(
        "joint",
        help="BatchNorm sees: joint (all rows), separate (a pass per domain), target (separate, "
        "and the target's statistics are kept).",
        rich_help_panel=TRAINING,
    ),
    average: float | None = typer.Option(
        None,
        help="Decay of a moving average of the weights, e.g. 0.999. Default: none.",
        rich_help_panel=TRAINING,
    ),
    seed: int = typer.Option(
        0, help="Decides initial weights, batches, dropout.", rich_help_panel=TRAINING
    ),
    device: str = typer.Option("auto", help="auto, cpu, cuda, mps.", rich_help_panel=TRAINING),
    threads: int = typer.Option(
        0, help="CPU threads of each process; 0: PyTorch's choice.", rich_help_panel=TRAINING
    ),
    run: Path = typer.Option(
        ...,
        "--output",
        "-o",
        "--run",
        help="Folder of the run. The same command resumes it. (torchrun wants --output: it has "
        "an option of its own that begins with --run.)",
        rich_help_panel=OUTPUT,
    ),
    evaluate_every: int = typer.Option(
        1000, help="Steps between evaluations; 0: at the end.", rich_help_panel=OUTPUT
    ),
    log_every: int = typer.Option(
        50, help="Steps between lines of metrics; 0: at the end.", rich_help_panel=OUTPUT
    ),
    checkpoint_every: int = typer.Option(
        1000, help="Steps between checkpoints; 0: at the end.", rich_help_panel=OUTPUT
    ),
    keep: str = typer.Option(
        "last",
        help="Weights to hand back: last, or best: of those at each evaluation the ones that "
        "--score likes best. No target label takes part.",
        rich_help_panel=JUDGEMENT,
    ),
    score: str | None = typer.Option(
        None,
        help="Label-free score for --keep best. Default: the one that our study recommends.",
        rich_help_panel=JUDGEMENT,
    ),
    baseline: bool = typer.Option(
        False,
        help="Train the source-only network of the same budget too, for the verdict to compare "
        "with.",
        rich_help_panel=JUDGEMENT,
    ),
    evidence: int = typer.Option(
        2000,
        help="Rows of each domain that the run keeps outputs of, for verdict and report; 0: none.",
        rich_help_panel=JUDGEMENT,
    ),
    tensorboard: bool = typer.Option(
        False, help="Write the scalars for TensorBoard too.", rich_help_panel=OUTPUT
    ),
    quiet: bool = typer.Option(False, help="No progress bar, no notes.", rich_help_panel=OUTPUT),
    as_json: bool = JSON,
) -> None:
    """Adapt a network: train it on a labelled source and an unlabelled target."""
    speak(quiet)
    _check_early(method, target, network, keep_target_labels)
    import torch

    from revgrad.adapting import adapt
    from revgrad.cli.results import result_record
    from revgrad.diagnostics.scores import RECOMMENDED
    from revgrad.networks import NETWORKS
    from revgrad.schedules import parse_schedule
    from revgrad.training import Settings

    listeners = []
    if tensorboard:
        from revgrad.training.tensorboard import TensorBoardScalars

        listeners.append(TensorBoardScalars(run / "tensorboard"))
    if threads:
        torch.set_num_threads(threads)
    known = NETWORKS.get(network)
    chosen_norm = getattr(known, "max_norm", None) if max_norm is None else max_norm or None
    settings = Settings(
        steps=steps,
        batch=batch,
        source_share=source_share,
        rate=parse_schedule(rate),
        factor=parse_schedule(factor),
        optimiser=optimiser,
        momentum=momentum,
        weight_decay=weight_decay,
        domain_rate=domain_rate,
        max_norm=chosen_norm,
        clip=clip,
        batch_norm=batch_norm,  # type: ignore[arg-type]
        average=average,
        seed=seed,
        device=device,
        evaluate_every=evaluate_every,
        log_every=log_every,
        checkpoint_every=checkpoint_every,
    )
    with_labels = keep_target_labels > 0 or method == "train-on-target"
    opened = open_data(
        *(network, source, target, test),
        size=size,
        fit=fit,
        corrupt=corrupt,
        target_labels=with_labels,
        init=init,
    )
    unlabelled = opened.target
    if unlabelled is not None and keep_target_labels:
        unlabelled = unlabelled.keeping_labels(keep_target_labels, seed)
    built = opened.build(seed)
    with told_when_interrupted():
        adapted = adapt(
            built,
            opened.source,
            unlabelled,
            layer=layer,
            method=method,
            settings=settings,
            hidden=parse_widths(hidden),
            per_image=per_image,
            balance=balance,
            held_out=held_out,
            target_test=opened.test,
            semi_supervised=bool(keep_target_labels),
            run=run,
            keep=keep,
            score=score or RECOMMENDED,
            baseline=baseline,
            evidence=evidence,
            events=listeners,
            progress=not quiet,
            network_name=network,
            options={
                "source": source,
                "target": target,
                "test": test,
                "size": opened.images.size,
                "fit": fit,
                "corrupt": corrupt,
                "per_image": per_image,
                "balance": balance,
                "outputs": opened.outputs,
                "init": None if init is None else str(init),
            },
        )
    if int(os.environ.get("RANK", 0)):
        return
    record = result_record(run, adapted)
    if as_json:
        echo_json(record)
        return
    for name in ("source", "target"):
        accuracy = record[f"{name}_accuracy"]
        shown = "held-out source" if name == "source" else "target test"
        if accuracy is not None:
            typer.echo(f"{shown} accuracy {accuracy:.4f}")
    typer.echo(f"run in {run}  ({record['seconds']:.0f} s); next: revgrad export {run} model.onnx")


def _check_early(method: str, target: str | None, network: str, kept: int) -> None:
    """Mistakes that need no data to be seen."""
    if not target and method != "source-only":
        raise InputError(f"--target is missing: method '{method}' needs unlabelled target data")
    if kept < 0:
        raise InputError(f"--keep-target-labels must be ≥ 0, not {kept}")
    if not network:
        raise InputError("--network is empty: a name or module:function would do")
