"""The loop, once. It reads like §4 of the paper; everything around it has a name of its own."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from revgrad._distributed import (
    any_process,
    choose_device,
    distribute,
    from_first_process,
    is_sharded,
    is_sharing,
    local,
    rank,
    share_buffers,
    sharing_out,
    without_exchange,
    world_size,
)
from revgrad._random import derive, preserved_rng, seed_python, seed_torch
from revgrad.adapter import DomainAdapter, keeping_modes
from revgrad.batch import Batch, tensors_of
from revgrad.domains.domain import Domain
from revgrad.domains.encoded import encoder_of
from revgrad.errors import InputError, NonFiniteLossError, RevgradError
from revgrad.evaluation import check_labels, evaluate
from revgrad.objectives import Adversarial, Losses, Objective
from revgrad.tasks import Evaluation, Task, choose_task
from revgrad.training.activations import CheckpointedActivations
from revgrad.training.attributes import described_adversaries
from revgrad.training.callbacks import (
    Callback,
    EvaluationRecord,
    TrainingEnded,
    TrainingRecord,
    TrainingResult,
    further_metrics,
)
from revgrad.training.checkpoint import (
    Checkpoint,
    optimiser_state,
    restore_optimiser,
    tensors_under,
)
from revgrad.training.metrics import RunningMeans
from revgrad.training.micro_batches import check_sums, micro_batches, summed
from revgrad.training.paired_batches import PairedBatches
from revgrad.training.parameter_groups import FrozenLayers, parameter_groups
from revgrad.training.reader import BatchReader
from revgrad.training.record import record_of
from revgrad.training.run import Provenance, Run, RunConfig, state_digest, this_command
from revgrad.training.session import (
    Interrupted,
    Step,
    StopRequest,
    bare_step,
    keep_large_buffers,
    stop_request,
)
from revgrad.training.settings import Settings, without_addresses
from revgrad.training.sharding import ShardedStep, check_alike, hand_back, sharded, whole
from revgrad.training.weights import (
    BestWeights,
    MovingAverage,
    copied_state,
    fill_module,
    limit_norms,
    parts_of_state,
    weight_matrices,
)
from revgrad.version import __version__

log = logging.getLogger("revgrad")

#: (trainer, step) → how good the weights are that would be handed back now; without target labels.
Scorer = Callable[["Trainer", int], float]


class Trainer:
    """Trains an adapter on a labelled source and, where there is one, an unlabelled target; either
    may be several domains.

    To change what is minimised, write an objective; to watch, write a callback. What is meant to be
    overridden, if anything, is `train_step`.

    Parameters
    ----------
    adapter
        the network, cut, with its domain classifier
    source, target
        a domain, or several
    objective
        what is minimised; DANN by default
    settings
        every number of the training
    held_out, test
        labelled data to evaluate on; reported, never used for any choice
    run
        a directory that keeps metrics and checkpoints; the same call resumes it
    scorer
        a label-free judgement of the weights at each evaluation, the higher the
        better: those it likes best are handed back instead of the last
    callbacks
        what is told of every record (see callbacks.py)
    method
        the objective's name, for the run's configuration
    provenance
        where network and data came from, for the run's configuration
    task
        what outputs and labels mean; by default what they leave no doubt about
    """

    def __init__(
        self,
        adapter: DomainAdapter,
        source: Domain | Sequence[Domain],
        target: Domain | Sequence[Domain] | None = None,
        *,
        objective: Objective | None = None,
        settings: Settings | None = None,
        held_out: Domain | None = None,
        test: Domain | None = None,
        run: Run | None = None,
        scorer: Scorer | None = None,
        callbacks: Sequence[Callback] = (),
        method: str | None = None,
        provenance: Provenance | None = None,
        task: Task | None = None,
    ) -> None:
        self.settings = Settings() if settings is None else settings
        self.objective: Objective = Adversarial() if objective is None else objective
        self.adapter = adapter
        self.adapter.batch_norm = self.settings.batch_norm
        self.held_out, self.test = held_out, test
        self.run = run
        self.scorer = scorer
        self.best: BestWeights | None = None
        self.callbacks: list[Callback] = []
        for callback in callbacks:
            self.watch(callback)
        sources, targets = as_domains(source), as_domains(target)
        check_domains(sources, targets)
        domains, first = [*sources, *targets], sources[0]
        sizes = self.settings.sizes(*([len(one) for one in each] for each in (sources, targets)))
        self.batches = PairedBatches(
            domains,
            sizes,
            self.settings.seed,
            rank=rank(),
            world=world_size(),
            sources=len(sources),
            attributes=getattr(self.objective, "attributes", ()),
        )
        self.adversaries = described_adversaries(self.objective, adapter, self.batches)
        self.device = choose_device(self.settings.device)
        self.reader = BatchReader(
            self.batches,
            self.settings.steps,
            self.device,
            prefetch=self.settings.prefetch,
            workers=self.settings.workers,
        )
        self.sharded = self.settings.shard and world_size() > 1
        if not self.sharded:  # a sharded network need not fit on the device
            self.adapter.to(self.device)
        self.channels_last = (
            self.settings.channels_last
            and self.device.type != "mps"
            and first.is_images
            and not self.sharded  # parts of a weight lie in plain order
        )
        if self.channels_last:
            self.adapter.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if self.settings.micro_batch is not None:
            check_sums(self.objective)
        self.task, outputs = self._check_outputs(domains, task)
        encoder = encoder_of(first)
        self._encoder_state = None if encoder is None else encoder.state()
        self.config = self._describe(outputs, method, provenance or Provenance())
        self._given = adapter
        if self.sharded:
            check_alike(self.batches, adapter, self.settings.micro_batch)
            self.adapter = adapter = sharded(adapter, self.device)
        self.activations: Callable[[], AbstractContextManager[None]] = nullcontext
        if self.settings.checkpoint_activations:
            self.activations = CheckpointedActivations(adapter).within
        self.frozen = FrozenLayers(adapter.network, self.settings.freeze)
        with self.frozen.held():
            groups = parameter_groups(adapter.network, adapter.heads, self.settings)
            self.optimiser = self.settings.make_optimiser(groups)
            self.update = bare_step(self.optimiser)
            reduced = self.settings.precision == "bf16"
            step = Step(adapter, self.objective, reduced=reduced)
            self.step = ShardedStep(step, adapter) if self.sharded else distribute(step)
            if self.settings.compile:
                backend = self.settings.compile
                name = backend if isinstance(backend, str) else "inductor"
                self.step = cast(nn.Module, torch.compile(self.step, backend=name))
            self._limited = [w for w in weight_matrices(adapter) if w.requires_grad]
        # λ for a compiled step, which a number would be compiled into
        kind = torch.float32 if self.device.type == "mps" else torch.float64
        self._factor = torch.zeros((), dtype=kind, device=self.device)
        # of rank 0's weights, which `distribute` has given to all processes
        self.average: MovingAverage | None = None
        if self.settings.ema_decay is not None:
            self.average = MovingAverage(adapter.network, self.settings.ema_decay)
        self.window = RunningMeans(self.device)
        self._seconds_before = 0.0
        self._began = time.monotonic()
        self._evaluations: list[EvaluationRecord] = []

    def watch(self, callback: Callback) -> None:
        """Tell this callback of every record too."""
        if _is_for_all(callback):  # before the others, which may end a training
            self.callbacks.insert(sum(map(_is_for_all, self.callbacks)), callback)
        elif rank() == 0:
            self.callbacks.append(callback)

    # -- §4: the training procedure -----------------------------------------------------------

    def fit(self) -> TrainingResult:
        """Train to the end, from the run's last checkpoint where it has one."""
        with self._prepared() as stop:
            start = self._resume()
            self._tell("on_start", start)
            for step in range(start, self.settings.steps):
                self._stop_if_asked(stop, step)
                factor, rate = self.train_step(step)
                self._after(step + 1, factor, rate)
            return self._finish()

    def train_step(self, step: int) -> tuple[float, float]:
        """One step of stochastic gradient descent; returns its λ and μ."""
        settings = self.settings
        progress = step / settings.steps
        factor, rate = settings.at(progress)

        batch = self._batch(step)
        for group in self.optimiser.param_groups:  # zero_grad, without what it costs to profile it
            for value in group["params"]:
                value.grad = None
        losses = self._gradients(batch, factor)
        self._stop_if_not_finite(losses, step)
        if settings.max_gradient_norm is not None:
            nn.utils.clip_grad_norm_(self.adapter.parameters(), settings.max_gradient_norm)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["rate_factor"]
        self.update()
        if settings.max_weight_norm:
            limit_norms(self._limited, settings.max_weight_norm)
        if self.average is not None:
            self.average.update(step)
        self.window.add(losses, batch.domains, batch.total_labelled > 0)
        return factor, rate

    def _gradients(self, batch: Batch, factor: float) -> Losses:
        """Backward passes of the batch's parts, which add up; the batch's losses."""
        passed = self._factor.fill_(factor) if self.settings.compile else factor
        loss = getattr(self.objective, "label_loss", None)
        found: list[Losses] = []
        parts = list(micro_batches(batch, self.settings.micro_batch, loss))
        for part in parts:
            last = part is parts[-1]  # processes exchange the sum of all parts
            with self.activations(), nullcontext() if last else without_exchange(self.step):
                losses: Losses = self.step(part, passed)
                losses.total.backward()  # type: ignore[no-untyped-call]
            found.append(losses)
        return summed(found)

    def evaluate(self, domain: Domain) -> Evaluation:
        """Loss and metrics of what would be handed back now; changes nothing."""
        if self.sharded and not is_sharing():
            raise InputError(
                "a sharded network is evaluated by all processes together: in a callback with "
                "every_process = True"
            )
        loss = getattr(self.objective, "label_loss", None)
        with self.as_returned():
            return evaluate(self.adapter.predict, self.adapter, domain, self.task, loss)

    def as_returned(self) -> AbstractContextManager[None]:
        """Inside, the network holds the weights that would be handed back now."""
        return nullcontext() if self.average is None else self.average.in_place()

    # -- around a step ------------------------------------------------------------------------

    def _batch(self, step: int) -> Batch:
        """The step's batch on the device; from here on random numbers are the step's own."""
        try:
            batch = self.reader.batch(step)
        except RevgradError:
            if world_size() == 1:  # of several processes the others are in the step already
                self._save(step)
            raise
        seed = derive(self.settings.seed, step, self.batches.rank)
        if self.batches.random:  # reading may have drawn, or another process may have read
            seed_python(seed)
        seed_torch(seed, self.device)
        return batch if self.device.type == "cpu" else batch.to(self.device)

    def _after(self, step: int, factor: float, rate: float) -> None:
        settings = self.settings
        self._tell("on_step", step)
        end = step == settings.steps
        if end or (settings.log_every and step % settings.log_every == 0):
            self._log(step, factor, rate)
        if end or (settings.evaluate_every and step % settings.evaluate_every == 0):
            self._evaluate(step)
        if end or (settings.checkpoint_every and step % settings.checkpoint_every == 0):
            self._save(step)

    def _log(self, step: int, factor: float, rate: float) -> None:
        sums = self.window.sums()
        self.window.clear()
        record = TrainingRecord(
            step=step,
            label_loss=sums.label_loss,
            domain_loss=sums.domain_loss,
            domain_accuracy=sums.domain_accuracy,
            adaptation_factor=factor,
            learning_rate=rate,
            seconds=self._seconds(),
            adversary_losses=self._by_adversary(sums.adversary_losses),
            adversary_scores=self._by_adversary(sums.adversary_scores),
        )
        self._record(record)
        self._tell("on_log", record)

    def _by_adversary(self, values: Sequence[float | None]) -> dict[str, float]:
        names = getattr(self.objective, "names", ())[: len(values)]
        pairs = zip(names, values, strict=True)
        return {name: value for name, value in pairs if value is not None}

    def _evaluate(self, step: int) -> None:
        if self.held_out is None and self.test is None and self.scorer is None:
            return
        with self._all_together():
            score = None if self.scorer is None else self._choose(step, self.scorer(self, step))
            source = None if self.held_out is None else self.evaluate(self.held_out)
            target = None if self.test is None else self.evaluate(self.test)
        record = EvaluationRecord(
            step=step,
            source_accuracy=None if source is None else source.accuracy,
            source_loss=None if source is None else source.loss,
            target_accuracy=None if target is None else target.accuracy,
            target_loss=None if target is None else target.loss,
            seconds=self._seconds(),
            score=score,
            source_metrics={} if source is None else further_metrics(source),
            target_metrics={} if target is None else further_metrics(target),
        )
        self._evaluations.append(record)
        self._record(record)
        ended = None
        try:
            self._tell("on_evaluation", record)
        except TrainingEnded as error:
            ended = error
        if ended := from_first_process(ended):  # of the first process's own callbacks too
            raise ended

    @contextmanager
    def _all_together(self) -> Iterator[None]:
        """Inside, passes are divided among the processes, which hold the same network."""
        share_buffers(self.adapter)  # of BatchNorm each process has its own between two steps
        with sharing_out():
            yield

    def _choose(self, step: int, score: float) -> float:
        """Keep the weights where none before were better; a score that is no number never wins."""
        score = from_first_process(score)
        if not math.isnan(score) and (self.best is None or score > self.best.score):
            with self.as_returned():
                kept = parts_of_state if self.sharded else copied_state
                self.best = BestWeights(step, score, kept(self.adapter.network))
        return score

    def _record(self, record: TrainingRecord | EvaluationRecord) -> None:
        if self.run is not None and rank() == 0:
            self.run.append(record)

    def _tell(self, event: str, *arguments: Any) -> None:
        for listener in self.callbacks:
            shared = event in _WITH_PASSES and _is_for_all(listener)
            with self._all_together() if shared else nullcontext():
                getattr(listener, event)(self, *arguments)

    def _seconds(self) -> float:
        return round(self._seconds_before + time.monotonic() - self._began, 2)

    # -- start, stop, resume ------------------------------------------------------------------

    @contextmanager
    def _prepared(self) -> Iterator[StopRequest]:
        """Training mode, raised memory thresholds, the run's lock; all put back at the end."""
        with ExitStack() as stack:
            stack.enter_context(keeping_modes(self.adapter))
            stack.callback(self._plain_memory)
            stack.enter_context(self.frozen.held())
            self.adapter.train()
            self.frozen.keep_statistics()
            if self.device.type == "cpu":
                keep_large_buffers()
            stack.enter_context(preserved_rng(self.device))
            stack.callback(self._close_callbacks)
            stack.callback(self.reader.close)
            if self.run is None:
                yield StopRequest()  # nothing to save: signals do what they always do
                return
            if rank() == 0:
                stack.enter_context(self.run.opened(self.config, self._encoder_state))
            stop = stack.enter_context(stop_request())
            yield stop
            # a signal that came in the last evaluation, when all was trained and saved
            if any_process(bool(stop.number), self.device):
                raise Interrupted(
                    stop.number or 15,
                    f"stopped, all {self.settings.steps} steps are saved in {self.run.folder}; "
                    "the same command goes on with what is left",
                )

    def _close_callbacks(self) -> None:
        for listener in self.callbacks:
            close = getattr(listener, "close", None)
            if close is not None:
                close()

    def _stop_if_asked(self, stop: StopRequest, step: int) -> None:
        """Between two steps; all processes stop at the same one."""
        if self.run is None or not any_process(bool(stop.number), self.device):
            return
        self._save(step)
        number = stop.number or 15
        raise Interrupted(
            number,
            f"stopped at step {step} of {self.settings.steps}, saved in {self.run.folder}; "
            "the same command goes on from there",
        )

    def _stop_if_not_finite(self, losses: Losses, step: int) -> None:
        # on an accelerator reading a number waits for it: there, only when it is logged anyway
        every = 1 if self.device.type == "cpu" else max(self.settings.log_every, 1)
        if step % every and step + 1 != self.settings.steps:
            return
        broken = not math.isfinite(float(losses.total.detach()))
        if not (broken if self.batches.world == 1 else any_process(broken, self.device)):
            return
        shown = ", ".join(
            f"{name} {float(value):g}"
            for name, value in (("L_y", losses.label), ("L_d", losses.domain))
            if value is not None
        )
        raise self._not_finite(f"the loss is not finite at step {step} ({shown})")

    def _not_finite(self, what: str) -> NonFiniteLossError:
        kept = ""
        if self.run is not None:
            saved = self.run.checkpoint()
            kept = f"; the checkpoint of step {saved.step} is kept" if saved else ""
            if rank() == 0:
                self.run.note_failure(what)
        return NonFiniteLossError(
            f"{what}{kept}. A smaller learning_rate, a limit on gradients (max_gradient_norm) or "
            "on weights (max_weight_norm) would do"
        )

    def _save(self, step: int) -> None:
        if self.run is None:
            return
        # a finite loss can have a gradient that is not: such weights must not replace good ones
        weights = map(local, self.adapter.parameters())
        finite = all(bool(value.isfinite().all()) for value in weights)
        if any_process(not finite, self.device):
            raise self._not_finite(f"the weights are not finite after {step} steps")
        window = self.window.tensors()
        if self.sharded:
            share_buffers(self.adapter)
        if rank() == 0 or self.sharded:
            tensors = {f"window.{k}": v for k, v in window.items()}
            tensors |= {f"adapter.{k}": v for k, v in self.adapter.state_dict().items()}
            state, rest = optimiser_state(self.optimiser)
            tensors |= {f"optimiser.{key}": value for key, value in state.items()}
            if self.average is not None:
                tensors |= {f"average.{k}": v for k, v in self.average.tensors().items()}
            if self.best is not None:
                tensors |= {f"best.{k}": v for k, v in self.best.tensors().items()}
            self.run.save(Checkpoint(step, self._seconds(), tensors, rest), sharded=self.sharded)
        self._tell("on_checkpoint", step)

    def _resume(self) -> int:
        """Load the run's last checkpoint, on every process; the step to go on from."""
        self._began = time.monotonic()
        if self.run is None:
            return 0
        if self.sharded:
            checkpoint = self.run.checkpoint(self._place)
        else:
            checkpoint = from_first_process(self.run.checkpoint() if rank() == 0 else None)
        if rank() == 0:
            self.run.cut_back(checkpoint.step if checkpoint else 0)
        if checkpoint is None:
            return 0
        fill_module(self.adapter, tensors_under(checkpoint.tensors, "adapter"))
        restore_optimiser(
            self.optimiser, tensors_under(checkpoint.tensors, "optimiser"), checkpoint.optimiser
        )
        if self.average is not None:
            saved = tensors_under(checkpoint.tensors, "average")
            for name, value in self.average.tensors().items():
                value.copy_(saved[name])
        self.best = BestWeights.of(tensors_under(checkpoint.tensors, "best"))
        self.window.restore(tensors_under(checkpoint.tensors, "window"))
        self._seconds_before = checkpoint.seconds
        records = self.run.records()
        self._evaluations = [r for r in records if isinstance(r, EvaluationRecord)]
        if rank() == 0:
            self._say_what_is_left(checkpoint.step)
        return checkpoint.step

    def _place(self, name: str, shape: torch.Size, dtype: torch.dtype) -> Tensor:
        """What a checkpoint's tensor is read into: divided like the weight that it belongs to."""
        kind, _, rest = name.partition(".")
        like: Tensor | None = None
        if kind == "optimiser":
            parameters = [p for group in self.optimiser.param_groups for p in group["params"]]
            number = int(rest.partition(".")[0])
            like = parameters[number] if number < len(parameters) else None
        elif kind == "adapter":
            like = self.adapter.state_dict().get(rest)
        elif kind in ("average", "best"):
            like = self.adapter.network.state_dict().get(rest.removeprefix("network."))
        if like is None or not is_sharded(like) or like.shape != shape:
            return whole(name, shape, dtype)
        return torch.empty_like(like, dtype=dtype, requires_grad=False)

    def _say_what_is_left(self, step: int) -> None:
        assert self.run is not None
        if step >= self.settings.steps:
            log.info("%s is finished: nothing is left to train", self.run.folder)
            return
        log.info("%s goes on at step %d of %d", self.run.folder, step, self.settings.steps)
        self._warn_of_another_machine(self.run.config)

    def _finish(self) -> TrainingResult:
        if self.average is not None:
            self.average.hand_over()
        best = None if self.scorer is None else self.best
        if not self.sharded:
            best = from_first_process(best)
        if best is not None:
            fill_module(self.adapter.network, best.weights)
        returned = [r for r in self._evaluations if best is None or r.step == best.step]
        last = returned[-1] if returned else None
        share_buffers(self.adapter)
        if self.sharded:
            hand_back(self.adapter, self._given)
        evaluations = tuple(self._evaluations)
        result = TrainingResult(self.settings.steps, last, self._seconds(), evaluations)
        self._plain_memory()
        self._tell("on_end", result)
        self.adapter = self._given
        if self.run is not None and rank() == 0:
            record_of(self.config, result).write(self.run.folder)
        return result

    def _plain_memory(self) -> None:
        """The network goes back as it came, also when training was interrupted."""
        if self.channels_last:
            self.adapter.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]

    # -- what is trained, and what is written about it ----------------------------------------

    def _check_outputs(self, domains: list[Domain], given: Task | None) -> tuple[Task, int | None]:
        """Labels must fit the network's outputs: found out now, not by a crash in a kernel.

        Returns the task, and the number of outputs that a network for it has, where it is known.
        """
        source = domains[0]
        shown = self.adapter.example_output(source.batch([0], augment=False).inputs)
        labels = source.known_labels()  # there are some: `check_domains` has seen them
        loss = getattr(self.objective, "label_loss", None)
        task = choose_task(
            labels, shown, task=given, label_loss=loss, classes=source.classes, name=source.name
        )
        evaluated = [domain for domain in (self.held_out, self.test) if domain is not None]
        for domain in [*domains[1:], *evaluated]:
            _check_types(source, domain)
            check_labels(task, domain, shown)
        is_vector = isinstance(shown, torch.Tensor) and shown.ndim == 2
        return task, int(shown.shape[1]) if is_vector else task.outputs(labels)

    def _describe(self, outputs: int | None, method: str | None, given: Provenance) -> RunConfig:
        source = self.batches.domains[0]
        roles = dict(zip(self.batches.roles, self.batches.domains, strict=True))
        for role, domain in (("held_out", self.held_out), ("test", self.test)):
            if domain is not None:
                roles[role] = domain
        kept = self.run is not None
        objective = without_addresses(repr(self.objective))
        return RunConfig(
            method=method or objective,
            objective=objective,
            chosen_by="" if self.scorer is None else without_addresses(repr(self.scorer)),
            layer=self.adapter.layer,
            settings=self.settings.describe(),
            input_shape=source.shape,
            outputs=outputs,
            class_count=source.class_count,
            classes=None if source.classes is None else list(source.classes),
            domain_classifier=list(getattr(self.adapter.domain_classifier, "hidden", ())),
            normalise=getattr(self.adapter.domain_classifier, "normalise", "none"),
            domains={
                role: {
                    "name": domain.name,
                    "samples": len(domain),
                    "labels": domain.labelled_count,
                    # hashing the data is for runs that are kept
                    "fingerprint": domain.fingerprint() if kept else "",
                    **_augmentation(domain),
                }
                for role, domain in roles.items()
            },
            machine={
                "torch": torch.__version__,
                "device": self.device.type,
                "threads": torch.get_num_threads(),
                "channels_last": self.channels_last,
                "processes": world_size(),
            },
            provenance=replace(
                given,
                network=given.network or type(self.adapter.network).__qualname__,
                source=given.source or source.name,
                command=given.command or this_command(),
            ),
            encoder="" if self._encoder_state is None else state_digest(self._encoder_state),
            version=__version__,
            label_loss=_name_of(getattr(self.objective, "label_loss", None)),
            task=self.task.describe(),
            output=self.adapter.output,
            preprocessing=without_addresses(repr(self.adapter.preprocessing)),
            adversaries=[asdict(one) for one in self.adversaries],
        )

    def _warn_of_another_machine(self, before: RunConfig) -> None:
        for name, now in self.config.machine.items():
            then = before.machine.get(name)
            if then != now:
                log.warning(
                    "this run began with %s %s and goes on with %s: the result will be close to, "
                    "but not identical with, an uninterrupted run",
                    *(name, then, now),
                )


#: Events at which a callback may pass data through the network.
_WITH_PASSES = ("on_start", "on_evaluation", "on_end")


def _is_for_all(callback: Callback) -> bool:
    return getattr(callback, "every_process", False)


def _augmentation(domain: Domain) -> dict[str, str]:
    """What changes the domain's batches in training, for a run's configuration."""
    if domain.augmentation is None:
        return {}
    shown = repr(domain.augmentation)
    if "<" in shown:  # a function, or an object that does not say what it is
        shown = _name_of(domain.augmentation)
    return {"augmentation": without_addresses(shown)}


def _name_of(function: object) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _check_types(source: Domain, other: Domain) -> None:
    """Inputs of the types that the source's have: found out now, not in the first evaluation."""

    def types(domain: Domain) -> list[str]:
        example = tensors_of(domain.batch([0], augment=False).inputs)
        return [str(tensor.dtype).removeprefix("torch.") for tensor in example]

    if len(other) and (own := types(source)) != (its := types(other)):
        raise InputError(
            f"inputs of {source.name} are {', '.join(own)}, those of {other.name} "
            f"{', '.join(its)}: they must be of one type"
        )


def as_domains(given: Domain | Sequence[Domain] | None) -> list[Domain]:
    """One domain, several, or none, as a list."""
    if given is None:
        return []
    return [given] if isinstance(given, Domain) else list(given)


def check_domains(sources: Sequence[Domain], targets: Sequence[Domain] = ()) -> None:
    """Labelled sources and, where there are such, targets like them."""
    if not sources:
        raise InputError("there is no source: one domain with labels at least would do")
    first = sources[0]
    for domain in (*sources, *targets):
        if not len(domain):
            raise InputError(f"{domain.name} is empty")
    for source in sources:
        if not source.labelled_count:
            raise InputError(
                f"the source, {source.name}, has no labels: there is nothing to learn from; "
                "(X, y), a folder with a subfolder per class, label= of a frame, or a Dataset "
                "whose items are (x, y) would do"
            )
    for other in (*sources[1:], *targets):
        if first.shape != other.shape:
            raise InputError(
                f"{first.name} has inputs of shape {first.shape}, {other.name} of "
                f"{other.shape}: they must be alike (for images, ask for one size)"
            )
        kinds = [None if one is None else one.dtype for one in _first_labels(first, other)]
        if kinds[1] is not None and kinds[1] != kinds[0]:
            raise InputError(f"{other.name}'s labels are of another kind than {first.name}'s")


def _first_labels(*domains: Domain) -> list[np.ndarray | None]:
    return [domain.labels_at(np.arange(1)) for domain in domains]
