"""`DANNClassifier` and `DANNRegressor`: `adapt` with scikit-learn's habits."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data
from torch import Tensor, nn

from revgrad.adapted import Adapted
from revgrad.api import adapt
from revgrad.diagnostics.verdict import Verdict
from revgrad.domains.arrays import ArrayStore
from revgrad.domains.domain import HELD_OUT, Domain, Store
from revgrad.domains.sparse import SparseStore, is_sparse
from revgrad.errors import InputError
from revgrad.estimators.samples import by_domain, known_labels
from revgrad.networks.default import default_network
from revgrad.networks.registry import build_network, build_with
from revgrad.objectives import Objective
from revgrad.recipes import (
    AUTO,
    RECOMMENDED,
    REGRESSION,
    SERIES,
    VECTORS,
    Recipe,
    RecipeChanges,
    recipe_named,
)
from revgrad.schedules import Schedule

log = logging.getLogger("revgrad")

#: Parameters of an estimator that are fields of a recipe or of its settings; None: the recipe's.
_OF_RECIPE = (
    *("method", "steps", "batch_size", "learning_rate", "adaptation_factor"),
    *("domain_classifier", "device"),
)


class _DANN(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What classifier and regressor share; see `DANNClassifier`."""

    #: A Pipeline and a search hand this over without being asked, with metadata routing enabled.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sample_domain": True}

    adapted_: Adapted

    def __init__(
        self,
        network: nn.Module | str | Callable[..., nn.Module] | None = None,
        *,
        layer: str | None = None,
        recipe: Recipe | str | None = None,
        method: str | Objective | None = None,
        steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: Schedule | float | None = None,
        adaptation_factor: Schedule | float | None = None,
        domain_classifier: Sequence[int] | nn.Module | None = None,
        baseline: bool = False,
        held_out: float | None = None,
        run: Path | str | None = None,
        warm_start: bool = False,
        random_state: Any = 0,
        device: str | None = None,
        verbose: bool = False,
    ) -> None:
        self.network = network
        self.layer = layer
        self.recipe = recipe
        self.method = method
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.adaptation_factor = adaptation_factor
        self.domain_classifier = domain_classifier
        self.baseline = baseline
        self.held_out = held_out
        self.run = run
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    # -- training -----------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_target: Any = None,
        y_target: Any = None,
        sample_domain: Any = None,
    ) -> Any:
        """Train on the labelled source so that it works on the unlabelled target.

        Without a target, the network is trained on the source alone.

        Parameters
        ----------
        X, y
            source samples (n, features), (n, channels, time) or images, and labels
        X_target
            target samples
        y_target
            labels of target samples that are known, for training (semi-supervised):
            None, NaN, and −1 where it is no label of y, say "unknown". To report
            accuracy, take `score`; labels given here are trained on
        sample_domain
            instead of X_target: X and y hold both domains, and this says whose each
            sample is, positive the source's, negative the target's (skada's
            convention). The target's labels, masked or not, are dropped unread
        """
        given = by_domain(X, y, X_target, y_target, sample_domain)
        inputs = self._inputs(given.X, reset=True)
        if given.y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: give "
                "the source's labels"
            )
        labels = self._learn_labels(given.y, inputs.shape[0])
        source = Domain(_store(inputs, "X"), labels, classes=self._names(), name="source")
        target = None
        if given.X_target is not None:
            target = self._target(given.X_target, given.y_target)
        self._train(source, target)
        return self

    def _train(self, source: Domain, target: Domain | None) -> None:
        kept = self._started() if self.warm_start else None
        seed = self._seed()
        judged = self.baseline and target is not None
        automatic = target is not None and self._is_automatic()
        held_out = self.held_out
        if held_out is None:
            held_out = HELD_OUT if judged or self.run or automatic else 0

        changes: RecipeChanges = {**self._changes()} if automatic else {}
        changes["seed"] = seed
        recipe = self._recipe(source, target)
        alone = recipe.method == "source-only"
        with ExitStack() as stack:
            run = self.run
            if judged and not alone and run is None:  # the verdict reads what a run's folder holds
                run = stack.enter_context(TemporaryDirectory(prefix="revgrad-"))
            adapted = adapt(
                self._build(source.shape, seed) if kept is None else copy.deepcopy(kept),
                source,
                target,
                layer=self.layer,
                task="classes" if self._names() else "regression",
                recipe=AUTO if automatic else recipe,
                held_out=held_out,
                run=run,
                baseline=judged and not alone,
                progress=self.verbose,
                **changes,
            )
            self._verdict = adapted.verdict() if judged and not alone and self._names() else None
        self.adapted_ = adapted if self.run is not None else replace(adapted, run=None)
        self.choice_ = adapted.choice
        assert adapted.result is not None  # it was trained just now
        self.n_steps_ = adapted.result.steps
        self._n_features_out = int(self._features(source.subset([0])).shape[1])

    def _is_automatic(self) -> bool:
        """Whether the recipe is "auto"."""
        return False

    def _recipe(self, source: Domain, target: Domain | None) -> Recipe:
        """The recipe for this kind of data, or the one that was given, with what was changed."""
        kind = self._default_recipe(source)
        recipe = kind if self.recipe in (None, AUTO) else recipe_named(self.recipe)
        changed = recipe.changed(self._changes())
        if target is not None or changed.method == "source-only":
            return changed
        log.info(
            "no target was given (X_target=…): %s learns the source alone", type(self).__name__
        )
        alone = replace(changed.settings, batch_norm="joint")  # there is no target to normalise by
        return replace(changed, method="source-only", settings=alone)

    def _changes(self) -> RecipeChanges:
        """What was given of a recipe's fields and of its settings."""
        given = {name: getattr(self, name) for name in _OF_RECIPE}
        found: Any = {name: value for name, value in given.items() if value is not None}
        return found  # type: ignore[no-any-return]

    def _build(self, shape: Any, seed: int) -> nn.Module:
        """A network for inputs of that shape; one that was given is copied, and stays as it is."""
        network, outputs = self.network, self._outputs()
        if isinstance(network, nn.Module):
            return copy.deepcopy(network)
        channels = shape[0] if len(shape) > 1 else 1
        size = tuple(shape[1:]) if len(shape) == 3 else 1
        if network is None or isinstance(network, str):
            return build_network(
                network or default_network(shape),
                classes=outputs,
                channels=channels,
                size=size,
                shape=shape,
                seed=seed,
            )
        if not callable(network):
            raise InputError(
                "network is a torch.nn.Module, a function that builds one, or a name such as "
                f"'perceptron', not {type(network).__name__}"
            )
        name = getattr(network, "__name__", type(network).__name__)
        settings = {"classes": outputs, "channels": channels, "size": size, "shape": shape}
        return build_with(network, {**settings, "seed": seed}, name)

    def _started(self) -> nn.Module | None:
        """The network to go on with: the one that was fitted before, where there is one."""
        found = getattr(self, "adapted_", None)
        return None if found is None else found.network

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _target(self, X_target: Any, y_target: Any) -> Domain:
        try:
            inputs = self._inputs(X_target, reset=False)
        except ValueError as error:
            lines = str(error).splitlines()
            kept = lines[:1] if "contains" in lines[0] else lines  # NaN: scikit-learn's advice
            text = " ".join(" ".join(kept).split())
            raise InputError(f"X_target: {text}{_way_through_a_pipeline(text)}") from None
        store = _store(inputs, "X_target")
        if y_target is None:
            return Domain(store, name="target")
        known, labels = self._labels_of_target(y_target, inputs.shape[0])
        return Domain(
            store,
            labels,
            labelled=known,
            classes=self._names(),
            labels_kept=True,  # they were given to be trained on
            name="target",
        )

    # -- what a fitted estimator says -----------------------------------------------------------

    @property
    def verdict_(self) -> Verdict:
        """Did it work? Judged without target labels, beside a source-only network of the same
        budget; there with `baseline=True`."""
        check_is_fitted(self)
        found: Verdict | None = getattr(self, "_verdict", None)
        if found is None:
            raise AttributeError(self._no_verdict())
        return found

    def _no_verdict(self) -> str:
        return (
            "the verdict compares with a source-only network of the same budget: fit with "
            "baseline=True, and with a target"
        )

    @property
    def network_(self) -> nn.Module:
        """The plain network, trained; `adapted_` has the preprocessing in front of it too."""
        check_is_fitted(self)
        return self.adapted_.network

    def transform(self, X: Any) -> np.ndarray:
        """(n, features): the output of the layer that the domain classifier was attached to."""
        check_is_fitted(self)
        return self._features(self._domain(X))

    def _features(self, domain: Domain) -> np.ndarray:
        return self.adapted_.features(domain)

    def _scores(self, X: Any) -> np.ndarray:
        """(n, outputs): the network's outputs, in double precision."""
        check_is_fitted(self)
        found: np.ndarray = self.adapted_.outputs(self._domain(X)).double().numpy()
        return found

    def _domain(self, X: Any) -> Domain:
        return Domain(_store(self._inputs(X, reset=False), "X"), name="X")

    def _inputs(self, X: Any, reset: bool) -> Any:
        """X as scikit-learn checks it: float32, also sparse, or images of uint8 as they are."""
        values = X.detach().cpu().numpy() if isinstance(X, Tensor) else X
        images = getattr(values, "dtype", None) == np.uint8 and np.ndim(values) > 2
        try:
            return validate_data(
                self,
                values,
                reset=reset,
                accept_sparse="csr",
                dtype=np.uint8 if images else np.float32,
                allow_nd=True,
            )
        except ValueError as error:
            if "inhomogeneous" in str(error):
                raise InputError(
                    f"X is a list whose members differ in shape, and {type(self).__name__} takes "
                    "one array: for series of unequal lengths, revgrad.adapt('series', "
                    "revgrad.from_series(X, y), revgrad.from_series(X_target)) would do"
                ) from None
            if "could not convert string" not in str(error):
                raise
            raise InputError(
                f"X holds text ({str(error).partition(': ')[2]}), and {type(self).__name__} takes "
                "numbers: OneHotEncoder or TfidfVectorizer in front of it in a Pipeline would do, "
                "or revgrad.adapt with from_frame or from_texts"
            ) from None

    # -- what labels mean: of each estimator its own ----------------------------------------------

    def _learn_labels(self, y: Any, samples: int) -> np.ndarray:
        raise NotImplementedError

    def _labels_of_target(self, y: Any, samples: int) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def _names(self) -> list[str] | None:
        return None

    def _outputs(self) -> int:
        raise NotImplementedError

    def _default_recipe(self, source: Domain) -> Recipe:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        tags.input_tags.three_d_array = True
        tags.input_tags.sparse = True
        return tags


class DANNClassifier(ClassifierMixin, _DANN):  # type: ignore[misc]
    """A classifier that is trained on labelled source samples and adapted to unlabelled target
    samples, by domain-adversarial training (DANN: gradient reversal).

    Inputs are standardised inside. Fitted: `classes_`, `adapted_` (an `Adapted`), `network_`,
    `n_features_in_`, `feature_names_in_` (of a data frame), `n_steps_`, `choice_` (what "auto"
    tried, what it handed back and why; None of another recipe); with baseline, `verdict_`.

    Parameters
    ----------
    network
        None: by the shape of X (perceptron for vectors, 1-d convolutions for (n, channels, time),
        `compact` for images); a name of `NETWORKS`; a module, which is copied; or a function, which
        gets those of classes, shape, channels, size and seed that it takes
    layer
        where the domain classifier is attached; None: the network's own choice
    recipe
        a whole way of training: a `Recipe` or its name; None: "auto", as of `adapt`: source only
        first, a few ways to adapt from there, and the one that is judged best without target
        labels, or source only (`choice_` says why). With a `method` and no recipe, that method
        with the settings for this kind of data: "vectors", "series", "recommended"
    method, steps, batch_size, learning_rate, adaptation_factor, domain_classifier, device
        fields of the recipe and of its settings; None: as the recipe has them
    baseline
        train the source-only network of the same budget too, for `verdict_`
    held_out
        share of the source that is not trained on; None: 0.1 for a verdict or a run
    run
        a folder that keeps metrics, checkpoints and evidence
    warm_start
        go on with the network of the last `fit`
    random_state
        decides initial weights, batches, noise
    verbose
        show a progress bar

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 4)).astype("float32")
    >>> y = np.where(X[:, 0] > 0, "spam", "mail")
    >>> model = revgrad.DANNClassifier(recipe="stabilised", steps=20, random_state=0)
    >>> model.fit(X, y, X_target=X + 0.5).predict(X + 0.5).shape
    (200,)
    """

    classes_: np.ndarray

    def predict(self, X: Any) -> np.ndarray:
        """The most likely class of every sample, (n,), as y named it."""
        numbers = self._scores(X).argmax(1)
        found: np.ndarray = self.classes_[numbers]
        return found

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, classes): the probability of every class, in the order of `classes_`."""
        shares: np.ndarray = torch.from_numpy(self._scores(X)).softmax(1).numpy()
        return shares

    def decision_function(self, X: Any) -> np.ndarray:
        """(n, classes) logits; of two classes (n,), their difference."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def _learn_labels(self, y: Any, samples: int) -> np.ndarray:
        values = _one_column(y, samples)
        check_classification_targets(values)
        found, numbers = np.unique(values, return_inverse=True)
        if len(found) < 2:
            raise InputError(f"y has one class only, {found[0]}: there is nothing to tell apart")
        if (
            self.warm_start
            and hasattr(self, "adapted_")
            and not np.array_equal(found, self.classes_)
        ):
            raise InputError(
                f"warm_start goes on with the classes {self.classes_.tolist()}; y has "
                f"{found.tolist()}"
            )
        self.classes_ = found
        return numbers.astype(np.int64)

    def _labels_of_target(self, y: Any, samples: int) -> tuple[np.ndarray, np.ndarray]:
        known = known_labels(y, samples, -1 in self.classes_)
        numbers = {one: number for number, one in enumerate(self.classes_.tolist())}
        labels = np.zeros(samples, dtype=np.int64)
        for place in np.flatnonzero(known):
            one = np.asarray(y)[place]
            if one not in numbers:
                raise InputError(f"y_target holds {one}, which is no class of y")
            labels[place] = numbers[one]
        return known, labels

    def _names(self) -> list[str]:
        return [str(one) for one in self.classes_]

    def _outputs(self) -> int:
        return len(self.classes_)

    def _default_recipe(self, source: Domain) -> Recipe:
        return RECOMMENDED if source.is_images else SERIES if len(source.shape) == 2 else VECTORS

    def _is_automatic(self) -> bool:
        return self.method is None and self.recipe in (None, AUTO)


class DANNRegressor(RegressorMixin, _DANN):  # type: ignore[misc]
    """As `DANNClassifier`, for numbers: y is (n,), or (n, outputs) for several at once.

    Labels are standardised inside, `predict` gives them back in their own units. `adapted_`, the
    network itself, predicts standardised labels: `y_mean_` and `y_scale_` lead back. Without
    classes there is no `verdict_`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 4)).astype("float32")
    >>> model = revgrad.DANNRegressor(steps=20, random_state=0)
    >>> model.fit(X, 100 * X[:, 0], X_target=X + 0.5).predict(X + 0.5).shape
    (200,)
    """

    y_mean_: np.ndarray
    y_scale_: np.ndarray

    def predict(self, X: Any) -> np.ndarray:
        """The predicted numbers, (n,) or (n, outputs), as y was."""
        found: np.ndarray = self._scores(X) * self.y_scale_ + self.y_mean_
        return found[:, 0] if self._one_output else found

    def _learn_labels(self, y: Any, samples: int) -> np.ndarray:
        values = self._numbers(y, samples)
        self._one_output = values.shape[1] == 1
        self.y_mean_ = values.mean(0)
        spread = values.std(0)
        self.y_scale_ = np.where(spread > 0, spread, 1.0)
        return self._standardised(values)

    def _labels_of_target(self, y: Any, samples: int) -> tuple[np.ndarray, np.ndarray]:
        known = known_labels(y, samples, minus_one_is_a_label=True)
        labels = np.zeros((samples, len(self.y_mean_)), dtype=np.float32)
        labels[known] = self._standardised(self._numbers(np.asarray(y)[known], int(known.sum())))
        return known, labels

    def _standardised(self, values: np.ndarray) -> np.ndarray:
        found: np.ndarray = ((values - self.y_mean_) / self.y_scale_).astype(np.float32)
        return found

    def _numbers(self, y: Any, samples: int) -> np.ndarray:
        """(n, outputs) finite numbers."""
        values: np.ndarray = check_array(
            y, dtype=np.float64, ensure_2d=False, allow_nd=True, input_name="y"
        )
        if values.ndim > 2:
            raise InputError(f"y is (n,) or (n, outputs), not of shape {values.shape}")
        _check_length(values, samples)
        return values.reshape(samples, -1)

    def _outputs(self) -> int:
        return len(self.y_mean_)

    def _default_recipe(self, source: Domain) -> Recipe:
        return REGRESSION

    def _no_verdict(self) -> str:
        return "the verdict judges predicted classes: of a regression there is none"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags


def _way_through_a_pipeline(problem: str) -> str:
    """What would do where the target came as it was in front of a Pipeline, for a sentence."""
    if not any(sign in problem for sign in ("NaN", "holds text", "is expecting")):
        return ""
    return (
        " (a Pipeline does not transform X_target: with sample_domain=… in its place, X holds both "
        "domains and both go through)"
    )


def _store(values: Any, name: str) -> Store:
    return SparseStore(values, name) if is_sparse(values) else ArrayStore(values, name=name)


def _one_column(y: Any, samples: int) -> np.ndarray:
    try:
        values: np.ndarray = column_or_1d(y, warn=True)
    except ValueError:
        shape = np.asarray(y).shape
        if len(shape) != 2:
            raise
        raise InputError(
            f"y should be a 1d array, one class a sample, and is of shape {shape}: for several "
            "labels a sample, revgrad.adapt(…, task='multi-label') would do"
        ) from None
    _check_length(values, samples)
    return values


def _check_length(values: np.ndarray, samples: int) -> None:
    if len(values) != samples:
        raise InputError(
            f"X and y have inconsistent numbers of samples: {samples} and {len(values)}"
        )
