"""Fits and judges the model of trust by `signs.jsonl`.

python studies/trust/trust_fit.py            # judged.json
python studies/trust/trust_fit.py --write    # src/revgrad/diagnostics/trust_model.json

Fitted on the open pairs alone, each pair of the same weight. Judged on pairs left out, kinds left
out, and the frozen pairs.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier

from revgrad.diagnostics.forest import Forest, Tree, forest_from, json_of
from revgrad.diagnostics.trust import (
    ENOUGH_PAIRS,
    MEANINGFUL_GAIN,
    MODEL_FILE,
    OF_PAIR,
    OUTCOMES,
    Support,
    Told,
    TrustModel,
    accuracy_of,
    accuracy_signs,
    judge_signs,
    outcome_signs,
    pair_signs,
    quality_signs,
)

HERE = Path(__file__).parent
Record = dict[str, Any]
#: The quality's fit is drawn towards 0 by this much a weight.
RIDGE = 0.02
TREES, LEAVES = 60, 40


def records() -> list[Record]:
    lines = (HERE / "signs.jsonl").read_text(encoding="utf-8").splitlines()
    return [one for one in map(json.loads, lines) if not one["failed"]]


def fit(known: Sequence[Record]) -> TrustModel:
    """On some records; without intervals."""
    return TrustModel(
        quality_weights(known),
        outcome_forest(known),
        accuracy_forest(known),
        {},
        {},
        support_of(known),
    )


def models_without(known: Sequence[Record], by: str) -> dict[str, TrustModel]:
    """Of each pair, or kind, the model that is fitted on all others."""
    return {
        name: fit([one for one in known if one[by] != name])
        for name in sorted({one[by] for one in known})
    }


def errors_of(known: Sequence[Record], models: Mapping[str, TrustModel]) -> dict[str, list[float]]:
    """By pair, how far its runs' accuracies are off in a model without it, in spreads."""
    found = defaultdict(list)
    for one in known:
        value, spread = accuracy_of(one["signs"], "after", models[one["pair"]])
        found[one["pair"]].append(abs(value - one["accuracy"]) / spread)
    return found


def with_intervals(
    model: TrustModel, errors: Mapping[str, Sequence[float]], inputs: Mapping[str, str]
) -> TrustModel:
    """Conformal over pairs that the errors are of (CV+, Barber et al. 2021)."""
    intervals, pairs = {"all": conformal(list(errors.values()))}, {"all": len(errors)}
    for kind in sorted({inputs[pair] for pair in errors}):
        own = [values for pair, values in errors.items() if inputs[pair] == kind]
        pairs[kind] = len(own)
        if len(own) >= ENOUGH_PAIRS:
            intervals[kind] = conformal(own)
    return replace(model, intervals=intervals, pairs=pairs)


def conformal(scores: Sequence[Sequence[float]], level: float = 0.95) -> float:
    """The least multiple that holds a new pair's runs with this probability: each pair counts as
    one, and the new one as one that nothing is known of."""
    weights = np.concatenate([np.full(len(one), 1 / len(one)) for one in scores])
    values = np.concatenate([np.asarray(one) for one in scores])
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / (len(scores) + 1)
    place = min(int(np.searchsorted(reached, level)), len(values) - 1)
    return float(values[order][place])


def names_of(known: Iterable[Record]) -> list[str]:
    return sorted({one["pair"] for one in known})


def weights_of(known: Sequence[Record]) -> np.ndarray:
    """Each pair of the same weight."""
    count: dict[str, int] = defaultdict(int)
    for one in known:
        count[one["pair"]] += 1
    return np.array([1 / count[one["pair"]] for one in known])


def outcome_forest(known: Sequence[Record]) -> Forest:
    """Each comparison of two networks is an example of its mirror image too: few of the study's
    networks gain much, many lose much."""
    every = [*known, *map(mirrored, known)]
    rows = [outcome_signs(one["signs"]) for one in every]
    grown = RandomForestClassifier(
        TREES, min_samples_leaf=5, max_leaf_nodes=LEAVES, max_features=0.3, random_state=0
    )
    outcomes = np.array([OUTCOMES.index(true_outcome(one)) for one in every])
    return forest_of(grown, rows, outcomes, np.eye(3)[outcomes], np.tile(weights_of(known), 2))


def mirrored(one: Record) -> Record:
    """The baseline beside the network that was adapted."""
    signs = dict(one["signs"])
    for name in one["signs"]:
        if name.endswith("-after"):
            other = name.replace("-after", "-before")
            signs[name], signs[other] = one["signs"][other], one["signs"][name]
    for name in ("votes-own-scale", "votes-source-scale", "votes-side"):
        signs[name] = -signs[name]
    signs["votes-least"], signs["votes-most"] = -signs["votes-most"], -signs["votes-least"]
    return {**one, "signs": signs, "accuracy": one["baseline"], "baseline": one["accuracy"]}


def accuracy_forest(known: Sequence[Record]) -> Forest:
    """Of the networks that were adapted, and of their baselines."""
    rows = [accuracy_signs(one["signs"], which) for which in ("after", "before") for one in known]
    truth = np.array([one[key] for key in ("accuracy", "baseline") for one in known])
    grown = ExtraTreesRegressor(
        TREES, min_samples_leaf=5, max_leaf_nodes=LEAVES, max_features=0.6, random_state=0
    )
    values = np.stack([truth, truth**2], axis=1)
    return forest_of(grown, rows, truth, values, np.tile(weights_of(known), 2))


def forest_of(
    grown: Any,
    rows: Sequence[Mapping[str, float]],
    target: np.ndarray,
    values: np.ndarray,
    weights: np.ndarray,
) -> Forest:
    """scikit-learn's trees, grown to tell the target; each leaf says the mean of the (n, outputs)
    values of all rows that come to it."""
    names = tuple(rows[0])
    x = np.array([[row[name] for name in names] for row in rows], dtype=np.float32)
    grown.fit(x, target, weights)
    trees = []
    for one in grown.estimators_:
        nodes = one.tree_
        leaves = one.apply(x)
        said = np.zeros((nodes.node_count, values.shape[1]))
        for leaf in range(nodes.node_count):
            here = leaves == leaf
            if here.any():
                said[leaf] = np.average(values[here], axis=0, weights=weights[here])
        inner = nodes.children_left >= 0
        trees.append(
            Tree(
                np.where(inner, nodes.feature, -1),
                np.where(inner, nodes.threshold, 0.0),
                np.where(inner, nodes.children_left, 0),
                np.where(inner, nodes.children_right, 0),
                said,
            )
        )
    return forest_from(json_of(Forest(names, tuple(trees))))  # rounded as it is shipped


def quality_weights(known: Sequence[Record]) -> dict[str, float]:
    """Least squares to how often the consensus is right on the target."""
    rows = [quality_signs(one["signs"]) for one in known]
    x = np.array([list(row.values()) for row in rows])
    y = np.array([one["pooled"] for one in known])
    share = weights_of(known) / weights_of(known).sum()
    found = np.linalg.solve(
        (x * share[:, None]).T @ x + 1e-3 * RIDGE * np.eye(x.shape[1]), (x * share[:, None]).T @ y
    )
    return {name: round(float(value), 4) for name, value in zip(rows[0], found, strict=True)}


def support_of(known: Sequence[Record]) -> Support:
    """Where the pairs lie: of each the mean signs of its runs."""
    places = []
    for pair in names_of(known):
        rows = [pair_signs(one["signs"]) for one in known if one["pair"] == pair]
        places.append([np.mean([row[name] for row in rows]) for name in OF_PAIR])
    every = np.round(np.array(places), 4)
    scale = np.round(every.std(axis=0), 4)
    apart = np.sqrt((((every[:, None] - every) / scale) ** 2).mean(axis=2))
    np.fill_diagonal(apart, np.inf)
    limit = round(float(apart.min(axis=1).max()), 4)
    return Support(tuple(scale.tolist()), tuple(map(tuple, every.tolist())), limit)


def true_outcome(one: Record) -> Told:
    gain = one["accuracy"] - one["baseline"]
    if abs(gain) < MEANINGFUL_GAIN:
        return "no gain"
    return "adapted" if gain > 0 else "harmed"


def judged(one: Record, model: TrustModel) -> Record:
    """What `verdict` says by these signs and vetoes, beside the truth."""
    told, probability, why = judge_signs(one["signs"], model)
    value, spread = accuracy_of(one["signs"], "after", model)
    room = model.intervals.get(one["inputs"], model.intervals["all"]) * spread
    gain = value - accuracy_of(one["signs"], "before", model)[0]
    return {
        "pair": one["pair"],
        "kind": one["kind"],
        "told": ruled(told, one["vetoes"], one["signs"]["differing"], gain),
        "true": true_outcome(one),
        "probability": probability,
        "why": why,
        "off": abs(value - one["accuracy"]),
        "inside": abs(value - one["accuracy"]) <= room,
        "width": min(value + room, 1) - max(value - room, 0),
        "gain_off": abs(gain - (one["accuracy"] - one["baseline"])),
    }


def ruled(
    told: Told | None, vetoes: Mapping[str, bool], differing: float, gain: float
) -> Told | None:
    """With what rules an outcome out; as `verdict.py` has it."""
    collapses = [shared for name, shared in vetoes.items() if name != "source forgotten"]
    if not all(collapses):
        return "harmed"
    if differing < MEANINGFUL_GAIN:
        return "no gain"
    if collapses and told == "adapted":
        return None
    if vetoes.get("source forgotten") is False:
        return told or ("harmed" if gain <= 0 else None)
    return told


def left_out(
    known: Sequence[Record],
    by: str,
    models: Mapping[str, TrustModel],
    errors: Mapping[str, Sequence[float]],
) -> list[Record]:
    """Each record judged by a model, and intervals, of other pairs or kinds."""
    inputs = {one["pair"]: one["inputs"] for one in known}
    found = []
    for name, model in models.items():
        own = [one for one in known if one[by] == name]
        others = {pair: errors[pair] for pair in errors if pair not in set(names_of(own))}
        whole = with_intervals(model, others, inputs)
        found += [judged(one, whole) for one in own]
    return found


def summary(found: Iterable[Record]) -> Record:
    """By kind, and of all."""
    groups = defaultdict(list)
    for one in found:
        groups[one["kind"]].append(one)
        groups["all"].append(one)
    return {
        kind: {
            "runs": len(values),
            "told": _mean(one["told"] is not None for one in values),
            "right": _mean(one["told"] == one["true"] for one in values if one["told"]),
            "harmed": sum(one["true"] == "harmed" for one in values),
            "harmed_called_adapted": sum(
                one["true"] == "harmed" and one["told"] == "adapted" for one in values
            ),
            "off": _mean(one["off"] for one in values),
            "off_where_told": _mean(one["off"] for one in values if one["told"]),
            "inside": _mean(one["inside"] for one in values),
            "width": _mean(one["width"] for one in values),
        }
        for kind, values in groups.items()
    }


def _mean(values: Iterable[float]) -> float | None:
    every = list(values)
    return round(float(np.mean(every)), 4) if every else None


def show(name: str, found: Record) -> None:
    print(name)
    for kind, one in found.items():
        print("  ", kind, {key: value for key, value in one.items() if value is not None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    every = records()
    open_ones = [one for one in every if one["set"] == "open"]
    frozen = [one for one in every if one["set"] == "frozen"]
    by_pair = models_without(open_ones, "pair")
    errors = errors_of(open_ones, by_pair)
    inputs = {one["pair"]: one["inputs"] for one in open_ones}
    model = with_intervals(fit(open_ones), errors, inputs)
    if arguments.write:
        shipped = {
            "quality": model.quality,
            "outcomes": json_of(model.outcomes),
            "accuracy": json_of(model.accuracy),
            "intervals": model.intervals,
            "pairs": model.pairs,
            "support": vars(model.support),
        }
        MODEL_FILE.write_text(json.dumps(shipped) + "\n", encoding="utf-8")
    path = HERE / "judged.json"
    result = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    result["left-out pairs"] = summary(left_out(open_ones, "pair", by_pair, errors))
    result["left-out kinds"] = summary(
        left_out(open_ones, "kind", models_without(open_ones, "kind"), errors)
    )
    result["frozen pairs"] = summary(judged(one, model) for one in frozen)
    from trust_verdicts import as_judged, verdicts  # which imports this module

    reserve = as_judged(one for one in verdicts() if one["set"] == "reserve")
    if reserve:
        result["reserve"] = summary(reserve)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for name, one in result.items():
        show(name, one)


if __name__ == "__main__":
    main()
