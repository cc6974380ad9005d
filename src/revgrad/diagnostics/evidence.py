"""What is known of a model without target labels, as one type."""

from __future__ import annotations

from dataclasses import dataclass

from revgrad.diagnostics.inputs import features_of, labelled_logits, logits_of, pair_of
from revgrad.errors import InputError
from revgrad.shallow.inputs import Array


@dataclass(frozen=True, eq=False)
class Evidence:
    """Outputs of a model on target rows and on held-out source rows; checked, float64.

    target_logits            (n, classes)
    source_logits, _labels   (m, classes), (m,): source rows that were not trained on
    target_, source_features (n, d), (m, d): of the same rows, where the domain classifier is
                             attached
    …_domain_logits          (n,), (m,) or (·, 2): of the run's own domain classifier
    target_changed_logits    (n, classes): of the target rows, each changed a little, in a way that
                             leaves its class alone (`Jitter`)
    …_inputs                 the rows themselves: (·, height, width, 3) uint8 pictures, small ones
                             do, or (·, d) numbers
    source_only_logits       (n, classes): of the source-only network, on the target rows
    checkpoint_logits        of the checkpoints before this model, oldest first, on the target rows
    seed_logits              of the same training with other seeds, on the target rows

    Everything but the target's logits may be missing; a score says what it needs.
    """

    target_logits: Array
    source_logits: Array | None = None
    source_labels: Array | None = None
    target_features: Array | None = None
    source_features: Array | None = None
    target_domain_logits: Array | None = None
    source_domain_logits: Array | None = None
    target_changed_logits: Array | None = None
    source_inputs: Array | None = None
    target_inputs: Array | None = None
    source_only_logits: Array | None = None
    checkpoint_logits: tuple[Array, ...] = ()
    seed_logits: tuple[Array, ...] = ()

    def __post_init__(self) -> None:
        def keep(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        target = logits_of(self.target_logits, "target logits")
        keep("target_logits", target)
        for one, other in (
            ("source_logits", "source_labels"),
            ("target_features", "source_features"),
            ("target_domain_logits", "source_domain_logits"),
            ("target_inputs", "source_inputs"),
        ):
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                raise InputError(f"{one} and {other} come together or not at all")
        if self.source_logits is not None and self.source_labels is not None:
            logits, labels = labelled_logits(self.source_logits, self.source_labels)
            if logits.shape[1] != target.shape[1]:
                raise InputError(
                    f"source and target logits must be of the same classes; {logits.shape[1]} and "
                    f"{target.shape[1]} came"
                )
            keep("source_logits", logits)
            keep("source_labels", labels)
        if self.source_features is not None and self.target_features is not None:
            source, features = pair_of(self.source_features, self.target_features)
            keep("source_features", source)
            keep("target_features", features)
            self._same_rows("target_features", len(target))
            if self.source_logits is not None:
                self._same_rows("source_features", len(self.source_logits))
        for name, like in (("target_inputs", target), ("source_inputs", self.source_logits)):
            rows = getattr(self, name)
            if rows is not None and like is not None and len(rows) != len(like):
                raise InputError(
                    f"{name} must be of the same {len(like)} rows as the logits; {len(rows)} came"
                )
        for name, like in (
            ("source_only_logits", target),
            ("target_changed_logits", target),
        ):
            if getattr(self, name) is not None:
                keep(name, logits_of(getattr(self, name), name.replace("_", " "), like))
        for name in ("checkpoint_logits", "seed_logits"):
            shown = name.replace("_", " ")
            keep(name, tuple(logits_of(more, shown, target) for more in getattr(self, name)))

    def has(self, *fields: str) -> bool:
        """Whether all of these fields are there."""
        return not self.missing(*fields)

    def missing(self, *fields: str) -> tuple[str, ...]:
        """Which of these fields are not there."""
        found = {name: getattr(self, name) for name in fields}
        return tuple(name for name, value in found.items() if value is None or len(value) == 0)

    def _same_rows(self, name: str, rows: int) -> None:
        count = len(features_of(getattr(self, name), name))
        if count != rows:
            raise InputError(f"{name} must be of the same {rows} rows as the logits; {count} came")
