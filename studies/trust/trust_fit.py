"""Fits and judges the model of trust by `signs.jsonl`.

python studies/trust/trust_fit.py            # judged.json: left-out pairs, left-out kinds
python studies/trust/trust_fit.py --frozen   # and the frozen pairs, with the model of the open ones
python studies/trust/trust_fit.py --write    # src/revgrad/diagnostics/trust_model.json

Fitted on the open pairs alone, each pair of the same weight.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

from revgrad.diagnostics.trust import (
    ENOUGH_PAIRS,
    FREEDOM,
    MEANINGFUL_GAIN,
    MODEL_FILE,
    TrustModel,
    accuracy_of,
    gain_of,
    judge_signs,
    quality_of,
    quality_signs,
)
from revgrad.diagnostics.vetoes import (
    COLLAPSED_VARIETY,
    FORGOTTEN,
    POOR_VARIETY,
    SHRUNK,
    STANDARD_DEVIATIONS,
)

HERE = Path(__file__).parent
Record = dict[str, Any]
#: The quality's and the accuracy's fit are drawn towards 0 by this much a weight.
RIDGE = 0.02


def records() -> list[Record]:
    lines = (HERE / "signs.jsonl").read_text(encoding="utf-8").splitlines()
    consensus = json.loads((HERE / "consensus.json").read_text(encoding="utf-8"))
    found = [
        one for one in map(json.loads, lines) if not one["failed"] and one["pair"] in consensus
    ]
    for one in found:
        one["recorded"] = one["signs"]
        one["signs"] = completed(one["signs"], consensus[one["pair"]])
        one["inputs"] = inputs_of(one)
    return found


def completed(signs: dict[str, float], of_pair: dict[str, float]) -> dict[str, float]:
    """With the numbers of the pair's consensus. Of the 770 trainings whose folders are gone, the
    votes were recorded of an earlier committee (weighed by competence alone): it stands for the
    consensus there."""
    votes = [signs[f"opinion-{name}"] for name in ("committee-hard", "own-scale", "source-scale")]
    return {
        "differing": signs["differing"],
        "classes": signs["classes"],
        "source-samples": signs["source-samples"],
        "target-samples": min(of_pair["target_samples"], 1000),
        "pooled-after": signs["opinion-agreement-after"],
        "pooled-before": signs["opinion-agreement-before"],
        "votes-own-scale": votes[1],
        "votes-source-scale": votes[2],
        "votes-spread": float(np.std(votes)),
        "cot-after": signs["cot-after"],
        "cot-before": signs["cot-before"],
        **{name: of_pair[name] for name in ("sureness", "steadiness", "competence")},
        "most-reliable": of_pair["most_reliable"],
        **{
            f"{name}-{when}": signs[f"{name}-{when}"]
            for name in ("source", "variety")
            for when in ("after", "before")
        },
        "pool": of_pair["accuracy"],  # the truth of the consensus, to fit its quality to
    }


def inputs_of(record: Record) -> str:
    if record["kind"] in ("digits", "signs", "colour", "texture") or "pixels" in record["pair"]:
        return "images"
    if record["kind"] == "series" and "spectra" not in record["pair"]:
        return "series"
    return "counts" if record["kind"] == "text" else "values"


def fit(known: Sequence[Record]) -> TrustModel:
    """On some records; intervals are those of pairs left out one by one."""
    point = _fitted(known)
    scores = defaultdict(list)
    for pair in sorted({one["pair"] for one in known}):
        other = _fitted([one for one in known if one["pair"] != pair], gain=False)
        for one in known:
            if one["pair"] == pair:
                value, error = _accuracy(one, other)
                scores[pair].append(abs(value - one["accuracy"]) / error)
    kinds = {one["pair"]: one["inputs"] for one in known}
    intervals, pairs = {"all": conformal(list(scores.values()))}, {"all": len(scores)}
    for kind in sorted(set(kinds.values())):
        own = [values for pair, values in scores.items() if kinds[pair] == kind]
        pairs[kind] = len(own)
        if len(own) >= ENOUGH_PAIRS:
            intervals[kind] = conformal(own)
    return TrustModel(**{**asdict(point), "intervals": intervals, "pairs": pairs})


def conformal(scores: Sequence[Sequence[float]], level: float = 0.95) -> float:
    """The least multiple that holds a new pair's runs with this probability: each pair counts as
    one, and the new one as one that nothing is known of."""
    weights = np.concatenate([np.full(len(one), 1 / len(one)) for one in scores])
    values = np.concatenate([np.asarray(one) for one in scores])
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / (len(scores) + 1)
    place = min(int(np.searchsorted(reached, level)), len(values) - 1)
    return float(values[order][place])


def _fitted(known: Sequence[Record], gain: bool = True) -> TrustModel:
    count = defaultdict(int)
    for one in known:
        count[one["pair"]] += 1
    weights = np.array([1 / count[one["pair"]] for one in known])
    rows = [quality_signs(one["signs"]) for one in known]
    names = list(rows[0])
    found = _ridge(
        np.array([list(row.values()) for row in rows]),
        np.array([one["signs"]["pool"] for one in known]),
        weights,
    )
    quality = dict(zip(names, found, strict=True))
    model = TrustModel(quality, (0, 0, 0, 0), (0, 0), 1.0, (1, 1, 1, 1), {}, {})
    q = np.array([quality_of(one["signs"], model) for one in known])
    agree = np.array([one["signs"]["pooled-after"] for one in known])
    truth = np.array([one["accuracy"] for one in known])
    terms = np.stack([np.ones(len(q)), agree, agree * q, q], axis=1)
    accuracy = _ridge(terms, truth, weights)
    off = np.abs(np.clip(terms @ accuracy, 0, 1) - truth)
    width = _ridge(np.stack([np.ones(len(q)), q], axis=1), np.log(off + 0.005), weights)
    share, spread = _gain(known, q, weights) if gain else (1.0, (1.0,) * 4)
    numbers = [[round(float(x), 4) for x in part] for part in (accuracy, width, spread)]
    return TrustModel(
        {name: round(float(value), 4) for name, value in quality.items()},
        tuple(numbers[0]),
        (numbers[1][0], numbers[1][1]),
        round(share, 4),
        (numbers[2][0], numbers[2][1], numbers[2][2], numbers[2][3]),
        {},
        {},
    )


def _ridge(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    share = weights / weights.sum()
    return np.linalg.solve((x * share[:, None]).T @ x + 1e-3 * RIDGE * np.eye(x.shape[1]),
                           (x * share[:, None]).T @ y)  # fmt: skip


def _gain(
    known: Sequence[Record], q: np.ndarray, weights: np.ndarray
) -> tuple[float, tuple[float, ...]]:
    """Student's likelihood, of runs whose consensus knows something."""
    signs = [one["signs"] for one in known]
    column = {name: np.array([one[name] for one in signs]) for name in signs[0]}
    said = column["pooled-after"] - column["pooled-before"]
    true = np.array([one["accuracy"] - one["baseline"] for one in known])
    differing = column["differing"]
    parts = (
        np.ones(len(q)),
        differing / column["target-samples"],
        (differing * (1 - q)) ** 2,
        column["votes-spread"] ** 2,
    )
    least = np.log([0.005, 0.5, 0.2, 0.1])

    def loss(values: np.ndarray) -> float:
        widths = np.exp(values[1:])
        spread = np.sqrt(sum(w**2 * part for w, part in zip(widths, parts, strict=True)))
        z = (true - values[0] * said) / spread
        each = (FREEDOM + 1) / 2 * np.log1p(z**2 / FREEDOM) + np.log(spread)
        prior = 0.5 * (values[0] - 1) ** 2 / 0.04 + 0.05 * ((values[1:] - least) ** 2).sum()
        return float((weights * each)[q > 0.2].sum() + prior)

    found = minimize(loss, np.r_[1.0, least], method="L-BFGS-B", options={"maxiter": 60}).x
    return float(found[0]), tuple(float(one) for one in np.exp(found[1:]))


def _accuracy(one: Record, model: TrustModel) -> tuple[float, float]:
    agree = one["signs"]["pooled-after"]
    return accuracy_of(agree, quality_of(one["signs"], model), model)


def true_outcome(one: Record) -> str:
    gain = one["accuracy"] - one["baseline"]
    if abs(gain) < MEANINGFUL_GAIN:
        return "no gain"
    return "adapted" if gain > 0 else "harmed"


def vetoed(told: str | None, signs: dict[str, float], gain: float) -> str | None:
    """With what the verdict's vetoes would say, as far as the signs go (of collapsed features
    nothing is on record)."""
    own, other = signs["variety-after"], signs["variety-before"]
    if own < COLLAPSED_VARIETY:
        if own < SHRUNK * other and other >= POOR_VARIETY:
            return "harmed"
        return None if told == "adapted" else told
    if signs["differing"] < MEANINGFUL_GAIN:
        return "no gain"
    fall = signs["source-before"] - signs["source-after"]
    deviation = np.sqrt(max(fall, 0) / signs["source-samples"])
    if other < POOR_VARIETY or fall < max(FORGOTTEN, STANDARD_DEVIATIONS * deviation):
        return told
    return "harmed" if gain <= 0 else None


def judged(one: Record, model: TrustModel) -> Record:
    told, probability, why = judge_signs(one["signs"], model)
    value, error = _accuracy(one, model)
    room = model.intervals.get(one["inputs"], model.intervals["all"]) * error
    gain, _ = gain_of(one["signs"], quality_of(one["signs"], model), model)
    told = vetoed(told, one["signs"], gain)
    return {
        "pair": one["pair"],
        "kind": one["kind"],
        "told": told,
        "true": true_outcome(one),
        "probability": probability,
        "why": why,
        "off": abs(value - one["accuracy"]),
        "inside": abs(value - one["accuracy"]) <= room,
        "width": min(value + room, 1) - max(value - room, 0),
        "gain_off": abs(gain - (one["accuracy"] - one["baseline"])),
    }


def left_out(known: Sequence[Record], by: Callable[[Record], str]) -> list[Record]:
    found = []
    for name in sorted({by(one) for one in known}):
        model = fit([one for one in known if by(one) != name])
        found += [judged(one, model) for one in known if by(one) == name]
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
    parser.add_argument("--frozen", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    every = records()
    open_ones = [one for one in every if one["set"] == "open"]
    model = fit(open_ones)
    if arguments.write:
        MODEL_FILE.write_text(json.dumps(asdict(model), indent=1) + "\n", encoding="utf-8")
    path = HERE / "judged.json"
    result = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    result["left-out pairs"] = summary(left_out(open_ones, lambda one: one["pair"]))
    result["left-out kinds"] = summary(left_out(open_ones, lambda one: one["kind"]))
    if arguments.frozen:
        frozen = [one for one in every if one["set"] == "frozen"]
        result["frozen pairs"] = summary(judged(one, model) for one in frozen)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for name, one in result.items():
        show(name, one)


if __name__ == "__main__":
    main()
