"""The verdict on a run: did it work? One answer, an estimated accuracy, the three most important
reasons; no target labels.

    print(verdict("runs/mine").sentence)

"Adapted" is two points or more above the source-only network of the same budget, "harmed" two or
more below: told where a consensus of classifiers of the inputs makes it likely (`trust.py`), and
not where evidences contradict one another. A network that has collapsed, or unlearned the source,
is harmed (`vetoes.py`): collapsed, whatever an estimate says. Where nothing can be told, a bound on
the accuracy is given (`disagreement.py`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from revgrad.diagnostics.accuracy_estimate import (
    AccuracyEstimate,
    accuracy_by_logits,
)
from revgrad.diagnostics.attribute_verdict import (
    AttributeVerdict,
    Cost,
    all_removed,
    attribute_verdicts,
    removal_sentence,
)
from revgrad.diagnostics.choice import Choice, read_choice
from revgrad.diagnostics.disagreement import NEEDS as NEEDED_TO_BOUND
from revgrad.diagnostics.disagreement import AccuracyBound, accuracy_bound
from revgrad.diagnostics.evidence import Evidence, of_target_samples
from revgrad.diagnostics.recorder import RecordedEvidence, read_evidence
from revgrad.diagnostics.scores import SCORES, available_scores, score
from revgrad.diagnostics.symptoms import Symptom, symptoms_of_run
from revgrad.diagnostics.trust import (
    MEANINGFUL_GAIN,
    Trusted,
    can_compare,
    compare,
    trusted_accuracy,
)
from revgrad.diagnostics.vetoes import (
    COLLAPSED_VARIETY,
    FORGOTTEN,
    find_vetoes,
    source_fall,
    variety,
)
from revgrad.errors import RunError
from revgrad.tasks import restored_task
from revgrad.training.run import BASELINE, Run, RunConfig

Outcome = Literal["adapted", "no gain", "harmed", "can't tell", "removed", "not removed"]
#: An estimated loss of more than this counts without a second opinion: confidence alone is off by
#: half of it on average, and never enough to say that a network adapted.
CONFIDENT_LOSS = 0.2
#: A bound on the accuracy below this says nothing.
SAYS_SOMETHING = 0.05
#: Scores that a reason is made of, and what they say.
SHOWN = {
    "second-opinion": "target samples for which an independent second opinion agrees",
    "effective-invariance": "changed target images keep their class, by confidence",
    "source-error": "held-out source accuracy",
}


@dataclass(frozen=True)
class Verdict:
    """The outcome of a run, and why.

    Attributes
    ----------
    sentence
        the outcome in plain words
    estimate
        of the adapted network's accuracy on the target; None where nothing is known
    baseline
        the same of what it is compared with
    compared_with
        in words
    reasons
        the most important first, three at most
    scores
        every label-free score of `SCORES` that could be had
    gain
        estimated, in shares of the target's samples: the difference of both estimates
    decided_by
        the evidence that decided, in a few words
    attributes
        what adversaries were to remove: is it gone?
    cost
        of it, in held-out source accuracy
    targets
        of several targets, the verdict on each by its name
    bound
        that the accuracy is above with near certainty, where nothing else can be told
    distance
        of the two domains, as a pair, to the nearest pair that the verdict was made on; beyond 1
        nothing is told
    seconds
        that the judgement took
    """

    outcome: Outcome
    sentence: str
    estimate: AccuracyEstimate | None
    baseline: AccuracyEstimate | None
    compared_with: str
    reasons: tuple[str, ...]
    symptoms: tuple[Symptom, ...] = ()
    scores: dict[str, float] = field(default_factory=dict)
    gain: float | None = None
    decided_by: str = ""
    attributes: tuple[AttributeVerdict, ...] = ()
    cost: Cost | None = None
    targets: dict[str, Verdict] = field(default_factory=dict)
    bound: AccuracyBound | None = None
    distance: float | None = None
    seconds: float = field(default=0.0, compare=False)


def verdict(
    run: Run | Path | str, *, baseline: Path | str | None = None, full: bool = True
) -> Verdict:
    """Judge a run by what its folder has on record.

    Parameters
    ----------
    baseline
        a source-only run on the same domains to compare with; by default RUN/baseline, else
        the run's own first evaluation, from when λ had hardly grown
    full
        with symptoms and every score, which decide nothing and take the longer
    """
    began = time.perf_counter()
    directory = run if isinstance(run, Run) else Run(run)
    config, records, failure = directory.config, directory.records(), directory.failure
    attributes, cost = attribute_verdicts(directory.folder, config, baseline)
    if attributes and "target" not in config.domains and failure is None:
        return _removal(attributes, cost, symptoms_of_run(config, records))
    recorded = read_evidence(directory.folder, baseline=baseline)
    task = restored_task(config.task) if config.task else None
    if task is not None and not task.one_class:
        raise RunError(
            f"the verdict judges predicted classes, and {directory.folder} is {task.noun}: "
            "evaluate it on labelled target data instead"
        )
    if recorded is None and failure is None:
        raise RunError(
            f"{directory.folder} has no evidence to judge by: it needs evidence of one sample or "
            "more, a target, and classes as labels"
        )
    reference = _reference(directory, recorded, baseline)
    after = None if recorded is None else recorded.last
    symptoms = symptoms_of_run(config, records, after, failure=failure) if full else ()
    found = judge(
        after,
        reference.evidence,
        compared_with=reference.words,
        symptoms=symptoms,
        failure=failure,
        own_start=reference.own_start,
        with_scores=full,
    )
    if attributes:
        found = replace(found, attributes=attributes, cost=cost)
    if recorded is not None and recorded.target_parts is not None and failure is None:
        found = replace(found, targets=_by_target(config, recorded, after, reference))
    choice = read_choice(directory.folder)  # of recipe "auto": what it handed back, and why
    if choice is not None:
        found = replace(found, sentence=_chosen_sentence(found, choice))
    return replace(found, seconds=time.perf_counter() - began)


def _removal(
    found: tuple[AttributeVerdict, ...], cost: Cost | None, symptoms: Sequence[Symptom]
) -> Verdict:
    """The verdict on a training without a target, whose adversaries were to remove attributes."""
    unknown_ = any(one.outcome == "can't tell" for one in found)
    gone = all_removed(found)
    return Verdict(
        "removed" if gone else "can't tell" if unknown_ else "not removed",
        removal_sentence(found, cost),
        None,
        None,
        "the network without adversaries" if cost is not None and cost.before is not None else "",
        (),  # the sentence says all
        tuple(symptoms),
        decided_by="fresh classifiers",
        attributes=found,
        cost=cost,
    )


def _by_target(
    config: RunConfig,
    recorded: RecordedEvidence,
    after: Evidence | None,
    reference: _Reference,
) -> dict[str, Verdict]:
    """The verdict on each of several targets, by its name."""
    parts = recorded.target_parts
    if parts is None or after is None:
        return {}
    roles = [role for role in config.domains if role.partition(" ")[0] == "target"]
    names = [str(config.domains[role]["name"]) for role in roles]
    found = {}
    for number, (role, name) in enumerate(zip(roles, names, strict=True)):
        where = np.flatnonzero(parts == number)
        before = reference.evidence
        found[name if names.count(name) == 1 else role] = judge(
            of_target_samples(after, where),
            None if before is None else of_target_samples(before, where),
            compared_with=reference.words,
            own_start=reference.own_start,
        )
    return found


def _chosen_sentence(found: Verdict, choice: Choice) -> str:
    """With what was handed back; of the source-only network there is nothing else to say."""
    return f"{found.sentence} {choice.sentence}" if choice.is_adapted else choice.sentence


def judge(
    after: Evidence | None,
    before: Evidence | None,
    *,
    compared_with: str,
    symptoms: Sequence[Symptom] = (),
    failure: str | None = None,
    own_start: bool = False,
    with_scores: bool = True,
) -> Verdict:
    """The verdict on a model's evidence beside that of what it is compared with.

    Parameters
    ----------
    own_start
        whether that is the same training, early on: a network that has hardly learned the
        source yet is nothing to have adapted beyond
    """
    found = comparison(after, before)
    decision = _decided(found, after, before, failure, own_start)
    bound = _bound(after) if decision.outcome == "can't tell" else None
    return Verdict(
        decision.outcome,
        _verdict_sentence(decision, found, compared_with, failure) + _bound_in_words(bound),
        found.after,
        found.before,
        compared_with,
        _verdict_reasons(decision, found, after, before, symptoms, failure),
        tuple(symptoms),
        available_scores(after) if with_scores and after is not None else {},
        found.gain,
        decision.by,
        bound=bound,
        distance=None if found.trusted is None else found.trusted.distance,
    )


def _bound_in_words(bound: AccuracyBound | None) -> str:
    """Of one that says something."""
    if bound is None or bound.value < SAYS_SOMETHING:
        return ""
    return f" At least {bound.value:.0%} of the target is predicted right, almost certainly."


def _bound(evidence: Evidence | None) -> AccuracyBound | None:
    known = evidence is not None and evidence.has(*NEEDED_TO_BOUND)
    return accuracy_bound(evidence) if known and evidence is not None else None


@dataclass(frozen=True)
class Decision:
    """An outcome, the evidence that decided, and what it showed."""

    outcome: Outcome
    by: str
    seen: str = ""


def _decided(
    found: Comparison,
    after: Evidence | None,
    before: Evidence | None,
    failure: str | None,
    own_start: bool,
) -> Decision:
    """What rules an outcome out comes first, estimates second."""
    if failure is not None:
        return Decision("harmed", "the training failed", failure)
    if after is None:
        return Decision("can't tell", "no evidence")
    estimated = _by_estimates(found)
    vetoes = find_vetoes(after, before)
    for veto in vetoes:
        collapsed = veto.name != "source forgotten"
        if collapsed and not veto.shared:
            return Decision("harmed", veto.name, veto.seen)
        if collapsed and estimated.outcome == "adapted":
            why = f"{veto.name}, but {estimated.by} says that it adapted"
            return Decision("can't tell", "evidences contradict each other", f"{why}: {veto.seen}")
        if not collapsed and not veto.shared and estimated.outcome == "can't tell":
            if found.trusted is not None and found.trusted.gain > 0:
                why = f"{veto.name}, but the consensus says {100 * found.trusted.gain:+.1f} points"
                return Decision("can't tell", "evidences contradict each other", why)
            return Decision("harmed", veto.name, veto.seen)
    if own_start and before is not None and estimated.outcome == "adapted":
        if variety(before) < COLLAPSED_VARIETY:
            seen = "what it is compared with had collapsed predictions: train with a baseline"
            return Decision("can't tell", "no baseline", seen)
        if source_fall(before, after)[0] >= FORGOTTEN:
            seen = "what it is compared with had not learned the source yet: train with a baseline"
            return Decision("can't tell", "no baseline", seen)
    return estimated


def _by_estimates(found: Comparison) -> Decision:
    """The outcome of the estimates alone: what the consensus of classifiers of the inputs says,
    where it says something; a large loss of confidence, where there are no inputs to ask about."""
    if found.gain is None or found.after is None:
        return Decision("can't tell", "nothing to compare with")
    if found.differing < MEANINGFUL_GAIN:
        seen = f"{found.differing:.1%} of the target samples are predicted otherwise"
        return Decision("no gain", "the predictions themselves", seen)
    if found.trusted is not None:
        by = "a consensus of classifiers of the inputs"
        if found.trusted.outcome is None:
            return Decision("can't tell", by, found.trusted.why)
        return Decision(found.trusted.outcome, by)
    if found.gain < -CONFIDENT_LOSS:
        return Decision("harmed", "confidence")
    return Decision(
        "can't tell", "confidence alone", "there are no inputs on record to ask others about"
    )


@dataclass(frozen=True)
class Comparison:
    """Estimates of two models by the same method; None where there is too little to go by.

    Attributes
    ----------
    gain
        how much more of the target is predicted right
    differing
        the share of samples that the two predict otherwise
    trusted
        what the consensus of classifiers of the inputs says, where they are on record
    """

    after: AccuracyEstimate | None
    before: AccuracyEstimate | None
    gain: float | None
    differing: float = 0.0
    trusted: Trusted | None = None


def comparison(after: Evidence | None, before: Evidence | None) -> Comparison:
    """Both estimates by the best method that both evidences allow."""
    if after is None or before is None:
        return Comparison(_accuracy(after), _accuracy(before), None)
    differ = float(
        (after.target_logits.argmax(axis=1) != before.target_logits.argmax(axis=1)).mean()
    )
    if can_compare(after, before):
        said = compare(after, before)
        return Comparison(said.after, said.before, said.gain, differ, said)
    values = accuracy_by_logits(after), accuracy_by_logits(before)
    if values[0] is None or values[1] is None:
        return Comparison(*values, None)
    return Comparison(*values, values[0].value - values[1].value, differ)


def _accuracy(evidence: Evidence | None) -> AccuracyEstimate | None:
    if evidence is None:
        return None
    return trusted_accuracy(evidence) or accuracy_by_logits(evidence)


def _verdict_sentence(
    decision: Decision, found: Comparison, compared_with: str, failure: str | None
) -> str:
    if failure is not None:
        return f"The training failed: {failure}. There is no network to ship."
    if found.after is None:
        return (
            "There is too little to judge by: no held-out source samples, or no finished "
            "evaluation."
        )
    shown = _points(found.after)
    if found.gain is None or found.before is None:
        return (
            f"{shown} is predicted right, but there is nothing to compare it with. Train the "
            "source-only network too: baseline=True, on the command line --baseline."
        )
    if decision.outcome == "harmed" and decision.seen:
        return f"It is worse than {compared_with}, by what rules an adaptation out: {decision.by}."
    if decision.outcome == "can't tell" and decision.seen:
        return f"It can't be told whether it is better than {compared_with}: {decision.seen}."
    below = f", which has an estimated {found.before.value:.0%}"
    if (found.after.value > found.before.value) != (decision.outcome == "adapted"):
        below = ""  # the gain rests on other evidence than the two estimates
    words = {
        "adapted": f"more than by {compared_with}{below}",
        "harmed": f"fewer than by {compared_with}{below}",
        "no gain": f"about as much as by {compared_with}",
        "can't tell": f"{100 * found.gain:+.1f} points from {compared_with}: too near to tell",
    }
    return f"{shown} is predicted right, {words[decision.outcome]}."


def _points(estimate: AccuracyEstimate) -> str:
    interval = f"{estimate.low:.0%} to {estimate.high:.0%}"
    return f"An estimated {estimate.value:.0%} of the target ({interval})"


def _verdict_reasons(
    decision: Decision,
    found: Comparison,
    after: Evidence | None,
    before: Evidence | None,
    symptoms: Sequence[Symptom],
    failure: str | None,
) -> tuple[str, ...]:
    """The loudest first: failure, what decided, a serious symptom, the estimates, what they rest
    on. Of a network that did adapt, a symptom comes last: it did no harm."""
    trouble = [f"{s.name}: {s.seen}" for s in symptoms if s.severity == "serious"][:1]
    reasons = []
    if found.after is not None and found.before is not None:
        reasons.append(
            f"estimated target accuracy {found.after.value:.1%}, before {found.before.value:.1%} "
            f"({found.after.method})"
        )
    for name, words in SHOWN.items():
        pair = [_value(name, evidence) for evidence in (after, before)]
        if pair[0] is not None and pair[1] is not None:
            reasons.append(f"{words} {pair[0]:.1%}, before {pair[1]:.1%}")
    if decision.outcome == "adapted":
        reasons = [*reasons[: 3 - len(trouble)], *trouble]
    else:
        decided = f"{decision.by}: {decision.seen}" if decision.seen else None
        first = failure or decided
        # the symptom of the same name says the same
        trouble = [one for one in trouble if not decided or not one.startswith(decision.by)]
        reasons = [*([] if first is None else [first]), *trouble, *reasons]
    return tuple(dict.fromkeys(reasons))[:3]


def _value(name: str, evidence: Evidence | None) -> float | None:
    if evidence is None or not evidence.has(*SCORES[name].needs):
        return None
    value = score(name, evidence)
    return 1 + value if name == "source-error" else value


class _Reference(NamedTuple):
    """The evidence to compare with, whose it is in words, and whether it is the run's own."""

    evidence: Evidence | None
    words: str
    own_start: bool = False


def _reference(
    run: Run, recorded: RecordedEvidence | None, baseline: Path | str | None
) -> _Reference:
    where = run.folder / BASELINE if baseline is None else Path(baseline)
    below = read_evidence(where) if where.exists() else None
    if below is not None and below.end is not None:
        return _Reference(below.end, "the source-only network of the same budget")
    if baseline is not None:
        raise RunError(f"{where} is no finished run with evidence to compare with")
    if run.config.method == "source-only":
        return _Reference(None, "nothing: the run is source-only itself, and has not adapted")
    if recorded is None or len(recorded.by_step) < 2:
        return _Reference(
            None, "nothing: the run has no baseline (train it with baseline=True, --baseline)"
        )
    step = next(iter(recorded.by_step))
    words = f"this run at step {step}, as it has no baseline"
    return _Reference(recorded.by_step[step], words, own_start=True)
