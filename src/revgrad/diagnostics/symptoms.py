"""Symptoms of trouble in a training, each with its likely cause and remedy in plain words.

    for symptom in find_symptoms(run.records(), evidence):
        print(symptom.seen, symptom.cause, symptom.remedy)

A symptom is a hint, not a proof; none reads a target label.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from revgrad.diagnostics.certainty import effective_classes, predicted_shares
from revgrad.diagnostics.divergence import DomainSeparation
from revgrad.diagnostics.evidence import Evidence
from revgrad.diagnostics.inputs import shares_of
from revgrad.diagnostics.label_shift import estimate_label_shift
from revgrad.diagnostics.vetoes import COLLAPSED_SPREAD, relative_spread
from revgrad.domains.attributes import DOMAIN
from revgrad.training.callbacks import EvaluationRecord, TrainingRecord
from revgrad.training.run import RunConfig

Severity = Literal["serious", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("serious", "warning", "note")

#: L_d of a domain classifier that guesses.
GUESSING_LOSS = math.log(2)
#: Share of the last training records that "at the end" means, and how many at least.
END, AT_LEAST = 0.1, 3
#: Domain accuracy and L_d of a domain classifier that has won, and L_d of one that has lost.
WON_ACCURACY, WON_LOSS, LOST_LOSS = 0.95, 0.15, 1.0
#: Of what lies between guessing and always right, the share that an adversary has won at.
WON_SHARE = 0.9
#: Classes that are effectively predicted beside the first, over those that the source has beside
#: its first, below which they collapsed.
FEW_CLASSES = 0.5
#: Fall of the source accuracy from its best; growth of a loss from its lowest, and by how much.
FALL, GROWTH, GROWTH_BY = 0.03, 1.5, 0.1
#: λ, or what of it is reversed, that has no effect to speak of.
SMALL_FACTOR = 0.05
#: A class that, by the source's predictions, is expected at least so many times in the target and
#: is predicted less often than this share of it is taken to be missing.
FEWEST_EXPECTED, MISSING = 20, 0.1
#: Total variation of the classes' shares beyond what chance explains.
SHIFT = 0.1
#: Proxy A-distance of features that are still told apart.
APART = 1.0


@dataclass(frozen=True)
class Symptom:
    """`seen`: the numbers; `cause`: what most likely made them; `remedy`: what to try."""

    name: str
    seen: str
    cause: str
    remedy: str
    severity: Severity


@dataclass(frozen=True, eq=False)
class Observed:
    """A run as the checks see it: the arguments of `find_symptoms`."""

    training: tuple[TrainingRecord, ...]
    evaluations: tuple[EvaluationRecord, ...]
    evidence: Evidence | None
    separation: DomainSeparation | None
    steps: int | None
    failure: str | None
    batch_norm: str | None
    classes: int | None
    reversal: float
    adversaries: tuple[dict[str, Any], ...] = ()

    @property
    def adversarial(self) -> bool:
        """Whether one domain classifier of two domains was trained: other objectives' L_d means
        something else, and adversaries beside it have checks of their own."""
        trained = any(record.domain_accuracy is not None for record in self.training)
        return trained and not self.adversaries

    def of_adversary(self, field: str, name: str) -> list[float]:
        """What is on record of one adversary: `field` is adversary_losses or adversary_scores."""
        found = [getattr(record, field).get(name) for record in self.training]
        if name == DOMAIN and all(value is None for value in found):  # the only one
            own = {"adversary_losses": "domain_loss", "adversary_scores": "domain_accuracy"}
            return self._known(own[field])
        return [float(value) for value in found if value is not None and math.isfinite(value)]

    def at_end(self, field: str) -> float | None:
        """Mean of a field over the last records that have it."""
        values = self._known(field)
        if not values:
            return None
        return float(np.mean(values[-_window(values) :]))

    def lowest_mean(self, field: str) -> float | None:
        """The least mean of a field over as many records in a row as the end has."""
        values = self._known(field)
        if not values:
            return None
        window = _window(values)
        return float(np.convolve(values, np.full(window, 1 / window), "valid").min())

    def lowest(self, field: str) -> float | None:
        """The least value of a field on record: the lowest point of its chart."""
        return min(self._known(field), default=None)

    def _known(self, field: str) -> list[float]:
        found = (getattr(record, field) for record in self.training)
        return [float(value) for value in found if value is not None and math.isfinite(value)]


def find_symptoms(
    records: Iterable[TrainingRecord | EvaluationRecord],
    evidence: Evidence | None = None,
    *,
    separation: DomainSeparation | None = None,
    steps: int | None = None,
    failure: str | None = None,
    batch_norm: str | None = None,
    classes: int | None = None,
    reversal: float = 1.0,
    adversaries: Sequence[dict[str, Any]] = (),
) -> tuple[Symptom, ...]:
    """Every symptom that a run shows, the most serious first. Target accuracies are not looked at.

    Parameters
    ----------
    records
        of `Run.records()`, of a finished or an unfinished run
    evidence
        outputs at the end of the run
    separation
        `domain_separation` of the features at the end of the run
    steps
        that the run was to have
    failure
        the text of the error that ended it
    batch_norm
        the policy, for a network that has BatchNorm layers; None: it has none
    classes
        how many; taken from the evidence where there is some
    reversal
        the share of λ that the objective reverses the gradient by
    adversaries
        as a run's configuration describes them
    """
    every = list(records)
    if classes is None and evidence is not None:
        classes = evidence.target_logits.shape[1]
    observed = Observed(
        tuple(record for record in every if isinstance(record, TrainingRecord)),
        tuple(record for record in every if isinstance(record, EvaluationRecord)),
        evidence,
        separation,
        steps,
        failure,
        batch_norm,
        classes,
        reversal,
        tuple(adversaries),
    )
    found = (check(observed) for check in CHECKS.values())
    shown = [symptom for symptom in found if symptom is not None]
    return tuple(sorted(shown, key=lambda symptom: SEVERITIES.index(symptom.severity)))


def symptoms_of_run(
    config: RunConfig,
    records: Iterable[TrainingRecord | EvaluationRecord],
    evidence: Evidence | None = None,
    *,
    failure: str | None = None,
) -> tuple[Symptom, ...]:
    """`find_symptoms` with what a run's configuration says of it."""
    return find_symptoms(
        records,
        evidence,
        steps=config.settings.get("steps"),
        failure=failure,
        classes=config.class_count,
        reversal=_reversal(config.objective),
        adversaries=config.adversaries,
    )


def non_finite_loss(run: Observed) -> Symptom | None:
    """The loss became NaN or infinite."""
    bad = next(
        (
            record.step
            for record in run.training
            if any(
                value is not None and not math.isfinite(value)
                for value in (record.label_loss, record.domain_loss)
            )
        ),
        None,
    )
    said = run.failure is not None and "not finite" in run.failure
    if bad is None and not said:
        return None
    return Symptom(
        "non-finite loss",
        f"the loss is not finite by step {bad}" if bad is not None else str(run.failure),
        "The steps were too large for the gradients: a large μ or λ, or inputs of large scale, let "
        "the weights grow without limit.",
        "A smaller μ (--learning-rate), a limit on gradients (--max-gradient-norm 1) or on weights "
        "(--max-weight-norm 4), a smaller λ.",
        "serious",
    )


def stopped_early(run: Observed) -> Symptom | None:
    """The run did not come to its end."""
    last = max((record.step for record in run.training), default=0)
    if run.steps is None or last >= run.steps or non_finite_loss(run) is not None:
        return None
    return Symptom(
        "stopped early",
        f"the last record is of step {last} of {run.steps}",
        "The training was interrupted, or is still running; λ and μ have not reached their last "
        "values.",
        "The same command goes on from the last checkpoint.",
        "warning",
    )


def domain_classifier_too_strong(run: Observed) -> Symptom | None:
    """The domain classifier is right almost always: the features did not follow."""
    accuracy, loss = run.at_end("domain_accuracy"), run.at_end("domain_loss")
    if not run.adversarial or accuracy is None or loss is None:
        return None
    if accuracy < WON_ACCURACY and loss > WON_LOSS:
        return None
    seen = (
        f"at the end it is right for {accuracy:.1%} of the samples, L_d = {loss:.3f} "
        f"(guessing: {GUESSING_LOSS:.3f})"
    )
    reversed_by = run.reversal * (run.at_end("adaptation_factor") or 0.0)
    if reversed_by < SMALL_FACTOR:
        return Symptom(
            "domain classifier too strong",
            seen,
            f"The gradient is reversed by {reversed_by:.2g} only, which does not try to make the "
            "domains alike; another loss of the objective may adapt all the same.",
            "None is needed where the target is predicted well: look at the verdict. Else a larger "
            "λ (--adaptation-factor).",
            "note",
        )
    return Symptom(
        "domain classifier too strong",
        seen,
        "The features still tell the domains apart, and a domain classifier that is certain passes "
        "hardly a gradient back.",
        "A larger λ or one that grows earlier (--adaptation-factor), a smaller domain classifier "
        "(--domain-classifier) or learning rate of it (--domain-lr-factor), an earlier layer. "
        "Domains that share little stay apart.",
        "serious",
    )


def domain_classifier_overpowered(run: Observed) -> Symptom | None:
    """L_d is well above guessing: the features run away from the domain classifier."""
    loss = run.at_end("domain_loss")
    if not run.adversarial or loss is None or loss < LOST_LOSS:
        return None
    return Symptom(
        "domain classifier overpowered",
        f"at the end L_d = {loss:.3f}, above the {GUESSING_LOSS:.3f} of guessing",
        "The reversed gradient moves the features faster than the domain classifier can follow: it "
        "is wrong with certainty, which says nothing of whether the domains are alike.",
        "A smaller λ, a smaller rate, a larger rate of the domain classifier (--domain-lr-factor).",
        "serious",
    )


def adversary_too_strong(run: Observed) -> Symptom | None:
    """An adversary tells its attribute almost always: the features did not follow."""
    for about in run.adversaries:
        scores = run.of_adversary("adversary_scores", about["name"])
        reversed_by = about["factor"] * (run.at_end("adaptation_factor") or 0.0)
        if not scores or reversed_by < SMALL_FACTOR:
            continue
        score, guessing = float(np.mean(scores[-_window(scores) :])), about["guessing_score"]
        if score - guessing < WON_SHARE * (1 - guessing):
            continue
        return Symptom(
            "adversary too strong",
            f"at the end the adversary of '{about['attribute']}' at {about['layer']} tells "
            f"{score:.1%} (guessing: {guessing:.1%})",
            "The features still tell the attribute, and an adversary that is certain passes hardly "
            "a gradient back; or what tells the attribute also tells the classes.",
            "A larger factor (Adversary(factor=…)), a larger λ or one that grows earlier, an "
            "earlier layer; where the attribute goes with the classes, conditional='class'.",
            "serious",
        )
    return None


def adversary_overpowered(run: Observed) -> Symptom | None:
    """The loss of an adversary is well above guessing: the features run away from it."""
    for about in run.adversaries:
        losses = run.of_adversary("adversary_losses", about["name"])
        if not losses:
            continue
        loss, guessing = float(np.mean(losses[-_window(losses) :])), about["guessing_loss"]
        if loss < LOST_LOSS / GUESSING_LOSS * guessing:
            continue
        return Symptom(
            "adversary overpowered",
            f"at the end the loss of the adversary of '{about['attribute']}' at {about['layer']} "
            f"is {loss:.3f}, above the {guessing:.3f} of guessing",
            "The reversed gradient moves the features faster than the adversary can follow: it is "
            "wrong with certainty, which says nothing of whether the attribute is gone.",
            "A smaller factor (Adversary(factor=…)) or λ, a larger rate of adversaries "
            "(--domain-lr-factor); features that can't grow (--normalise rms).",
            "serious",
        )
    return None


def adversary_never_learned(run: Observed) -> Symptom | None:
    """The loss of an adversary never left that of guessing."""
    if len(run.training) < AT_LEAST:
        return None
    for about in run.adversaries:
        losses = run.of_adversary("adversary_losses", about["name"])
        guessing = about["guessing_loss"]
        if not losses or not 0.99 * guessing <= min(losses) < LOST_LOSS / GUESSING_LOSS * guessing:
            continue
        return Symptom(
            "adversary never learned",
            f"the loss of the adversary of '{about['attribute']}' at {about['layer']} was never "
            f"below {min(losses):.3f} (guessing: {guessing:.3f})",
            "The features never told the attribute, or the adversary can't see it (too small, rate "
            "too small, features that are constant).",
            "Look at the verdict: a fresh classifier says whether the attribute is there. If it "
            "is, take a wider adversary (Adversary(classifier=…)) or a larger rate of it "
            "(--domain-lr-factor).",
            "note",
        )
    return None


def domain_classifier_never_learned(run: Observed) -> Symptom | None:
    """L_d never left ln 2, from the first record on."""
    lowest = run.lowest("domain_loss")
    if not run.adversarial or lowest is None or len(run.training) < AT_LEAST:
        return None
    if lowest < 0.99 * GUESSING_LOSS or lowest >= LOST_LOSS:
        return None
    return Symptom(
        "domain classifier never learned",
        f"L_d was never below {lowest:.3f} (guessing: {GUESSING_LOSS:.3f})",
        "The domains were alike from the start at this layer, or the domain classifier can't see "
        "the difference (too small, rate too small, features that are constant). Then L_d = .69 is "
        "no sign of adaptation.",
        "Look at the proxy A-distance of the features; if they are apart, take a wider domain "
        "classifier (--domain-classifier) or a larger rate of it.",
        "warning",
    )


def fooled_not_aligned(run: Observed) -> Symptom | None:
    """The run's own domain classifier guesses, a fresh one does not."""
    accuracy = run.at_end("domain_accuracy")
    if run.separation is None or accuracy is None or accuracy > 0.65:
        return None
    if run.separation.distance_interval.low < APART:
        return None
    return Symptom(
        "domain classifier fooled, features apart",
        f"the run's own domain classifier is right for {accuracy:.1%} of the samples, a fresh one "
        f"on the same features for {1 - run.separation.error:.1%} "
        f"(A-distance {run.separation.distance:.2f})",
        "The features evade this one domain classifier, in training, without being alike.",
        "A larger learning rate of the domain classifier (--domain-lr-factor), a wider one "
        "(--domain-classifier), a smaller λ; with BatchNorm, its own statistics for each domain "
        "(--batch-norm target).",
        "warning",
    )


def features_collapsed(run: Observed) -> Symptom | None:
    """Features hardly differ from sample to sample."""
    if run.evidence is None or run.evidence.target_features is None:
        return None
    assert run.evidence.source_features is not None
    spreads = {
        "source": relative_spread(run.evidence.source_features),
        "target": relative_spread(run.evidence.target_features),
    }
    name, spread = min(spreads.items(), key=lambda pair: pair[1])
    if spread >= COLLAPSED_SPREAD:
        return None
    return Symptom(
        "features collapsed",
        f"{name} features vary by {spread:.2%} of their size from sample to sample",
        "The reversed gradient made the domains alike by making all samples alike: λ outweighs "
        "L_y.",
        "A smaller λ, or one that grows later; a smaller rate; a norm limit (--max-weight-norm).",
        "serious",
    )


def predictions_collapsed(run: Observed) -> Symptom | None:
    """Few classes are predicted on the target."""
    if run.evidence is None:
        return None
    shares = predicted_shares(run.evidence.target_logits)
    labels = run.evidence.source_labels
    expected = (
        float(len(shares)) if labels is None else effective_classes(shares_of(labels, len(shares)))
    )
    found = effective_classes(shares)
    if found - 1 >= FEW_CLASSES * (expected - 1):
        return None
    first = int(shares.argmax())
    return Symptom(
        "predictions collapsed",
        f"{found:.1f} classes are effectively predicted on the target, of {expected:.1f} in the "
        f"source; class {first} for {shares[first]:.1%} of the samples",
        "Target samples are drawn to a few classes: entropy or reversal too strong too early, or a "
        "source-only start that is no better. Or the target really holds few classes.",
        "A smaller λ or entropy weight, or one that grows later; class-balanced source batches "
        "(--balanced); look at target images of the class that is predicted most.",
        "serious",
    )


def source_error_rising(run: Observed) -> Symptom | None:
    """The label predictor gets worse on the source as training goes on."""
    known = [r.source_accuracy for r in run.evaluations if r.source_accuracy is not None]
    seen = None
    if len(known) > 1 and max(known) - known[-1] >= FALL:
        seen = f"held-out source accuracy fell from {max(known):.1%} to {known[-1]:.1%}"
    else:
        end, lowest = run.at_end("label_loss"), run.lowest_mean("label_loss")
        if (
            end is not None
            and lowest is not None
            and end > max(GROWTH * lowest, lowest + GROWTH_BY)
        ):
            seen = f"L_y rose from {lowest:.3f} to {end:.3f} in training"
    if seen is None:
        return None
    return Symptom(
        "source error rising",
        seen,
        "The reversal takes away what the label predictor needs: λ is too large, the domains "
        "differ in something that also tells the classes apart, or training becomes unstable.",
        "A smaller λ, a smaller μ at the end, a limit on gradients (--max-gradient-norm); an "
        "earlier checkpoint.",
        "serious",
    )


def source_not_learned(run: Observed) -> Symptom | None:
    """L_y at the end is about that of guessing the class."""
    loss = run.at_end("label_loss")
    if run.classes is None or run.classes < 2 or loss is None or loss < 0.9 * math.log(run.classes):
        return None
    return Symptom(
        "source not learned",
        f"at the end L_y = {loss:.3f}; guessing one of {run.classes} classes gives "
        f"{math.log(run.classes):.3f}",
        "The label predictor does not learn: a rate too small or too large, λ that outweighs L_y, "
        "labels that do not belong to the inputs, or too few steps.",
        "Train on the source alone first (--method source-only); if that learns, a smaller λ.",
        "serious",
    )


def factor_never_grew(run: Observed) -> Symptom | None:
    """λ stayed so small that there was no adaptation."""
    if not any(record.domain_loss is not None for record in run.training):
        return None
    largest = max(record.adaptation_factor for record in run.training)
    if largest >= SMALL_FACTOR:
        return None
    return Symptom(
        "λ never grew",
        f"the largest λ was {largest:g}",
        "With λ = 0 the features never hear of the domains: this is source-only training."
        if largest == 0
        else "So small a λ hardly moves the features, unless another loss adapts them; or training "
        "ended before λ grew.",
        "A larger λ (--adaptation-factor), a larger γ, more steps.",
        "serious" if largest == 0 else "note",
    )


def batch_norm_of_two_domains(run: Observed) -> Symptom | None:
    """BatchNorm's statistics are of both domains, in training or at inference."""
    if run.batch_norm == "joint":
        return Symptom(
            "BatchNorm sees two domains",
            "BatchNorm normalises source and target samples together (batch_norm joint)",
            "A domain's features then depend on the other's samples, and the domain classifier can "
            "be fooled by the statistics of the batch.",
            "Compare with --batch-norm target, which keeps the target's own statistics.",
            "note",
        )
    trained = run.at_end("label_loss")
    losses = [r.source_loss for r in run.evaluations if r.source_loss is not None]
    if run.batch_norm != "separate" or trained is None or not losses:
        return None
    if losses[-1] < 2 * trained + 0.5:
        return None
    return Symptom(
        "BatchNorm sees two domains",
        f"L_y is {trained:.3f} in training and {losses[-1]:.3f} on held-out source samples, with "
        "batch_norm separate",
        "Each domain is normalised by its own statistics in training, and by an average of both at "
        "inference, which fits neither.",
        "--batch-norm target, which keeps the statistics of the domain that the network is for.",
        "warning",
    )


def classes_missing(run: Observed) -> Symptom | None:
    """The target seems to hold only some of the source's classes."""
    evidence = run.evidence
    if evidence is None or evidence.source_logits is None:
        return None
    if predictions_collapsed(run) is not None:
        return None
    classes = evidence.target_logits.shape[1]
    source, target = (
        shares_of(logits.argmax(axis=1), classes)
        for logits in (evidence.source_logits, evidence.target_logits)
    )
    expected = source * len(evidence.target_logits) >= FEWEST_EXPECTED
    missing = np.flatnonzero(expected & (target < MISSING * source))
    if not len(missing) or len(missing) > classes - 2:
        return None
    named = ", ".join(map(str, missing[:5])) + (", …" if len(missing) > 5 else "")
    return Symptom(
        "classes missing in the target",
        f"hardly a target sample is predicted to be of class {named}, which "
        f"{'make' if len(missing) > 1 else 'makes'} up {source[missing].sum():.1%} of the "
        "source's predictions",
        "The target may hold only some of the source's classes. Features that are alike over whole "
        "domains then draw target samples to classes that are not there.",
        "method='partial' (--method partial), by which a class counts as much as the target's "
        "predictions say that it occurs; or a source without these classes, where you know.",
        "warning",
    )


def classes_shifted(run: Observed) -> Symptom | None:
    """The classes seem to occur in other proportions in the target."""
    evidence = run.evidence
    if evidence is None or evidence.source_logits is None or evidence.source_labels is None:
        return None
    if predictions_collapsed(run) is not None or classes_missing(run) is not None:
        return None
    shift = estimate_label_shift(
        evidence.source_logits, evidence.source_labels, evidence.target_logits
    )
    if shift.distance < SHIFT + 2 * shift.noise:
        return None
    most = int(np.abs(shift.target_shares - shift.source_shares).argmax())
    return Symptom(
        "label shift",
        f"class {most} makes up {shift.source_shares[most]:.1%} of the source and, by the "
        f"predictions, {shift.target_shares[most]:.1%} of the target (total variation of all "
        f"classes {shift.distance:.2f})",
        "The classes occur in other proportions in the target, or the model takes some for others "
        "there. Features that are alike over whole domains then must mix classes.",
        "Source batches in the target's proportions if these are known (--balanced if it is "
        "balanced); a smaller λ; be wary of scores that reward balanced predictions.",
        "warning",
    )


#: Every check by the name of its symptom.
CHECKS: dict[str, Callable[[Observed], Symptom | None]] = {
    "non-finite loss": non_finite_loss,
    "features collapsed": features_collapsed,
    "predictions collapsed": predictions_collapsed,
    "source not learned": source_not_learned,
    "source error rising": source_error_rising,
    "domain classifier overpowered": domain_classifier_overpowered,
    "domain classifier too strong": domain_classifier_too_strong,
    "adversary overpowered": adversary_overpowered,
    "adversary too strong": adversary_too_strong,
    "adversary never learned": adversary_never_learned,
    "λ never grew": factor_never_grew,
    "classes missing in the target": classes_missing,
    "label shift": classes_shifted,
    "domain classifier fooled, features apart": fooled_not_aligned,
    "domain classifier never learned": domain_classifier_never_learned,
    "stopped early": stopped_early,
    "BatchNorm sees two domains": batch_norm_of_two_domains,
}


def _reversal(objective: str) -> float:
    """The share of λ that is reversed, of an objective as `RunConfig` has it: with its numbers."""
    found = re.search(r"\breversal=([\d.e+-]+)", objective)
    return float(found.group(1)) if found else 1.0


def _window(values: Sequence[float]) -> int:
    return min(max(round(END * len(values)), AT_LEAST), len(values))
