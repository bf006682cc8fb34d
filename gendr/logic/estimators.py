"""Logic gate networks as estimators of scikit-learn: trained by gradients, run as circuits.

    >>> from gendr.logic.estimators import LogicClassifier
    >>> model = make_pipeline(SimpleImputer(), LogicClassifier(width=2000)).fit(X, y)
    >>> model[-1].circuit_.to_verilog(word=16, result="class")

Needs scikit-learn (the extra `baselines`), which nothing else in the package imports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gendr._common.checks import check_count, check_number
from gendr.kernels.threads import torch_on_one_thread
from gendr.logic.groups import GroupSum
from gendr.logic.hardening import harden
from gendr.logic.layers import LogicLayer
from gendr.logic.neurons import Parametrization
from gendr.logic.thresholds import Thermometer

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import (
        _check_sample_weight,  # which estimators outside of scikit-learn take too
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ImportError as error:
    raise ImportError(
        "the estimators need scikit-learn >= 1.6: pip install 'scikit-learn>=1.6'"
    ) from error

__all__ = ["LogicClassifier", "LogicRegressor"]


class _LogicEstimator(BaseEstimator):
    """What both estimators share: thresholds, layers of gates, training, the circuit."""

    def __init__(
        self,
        *,
        layers: int = 3,
        width: int = 600,
        bits: int = 8,
        fan_in: int = 2,
        parametrization: Parametrization | None = None,
        scale: float | None = None,
        steps: int = 400,
        batch: int = 128,
        lr: float = 0.05,
        random_state: Any = None,
    ) -> None:
        self.layers = layers
        self.width = width
        self.bits = bits
        self.fan_in = fan_in
        self.parametrization = parametrization
        self.scale = scale
        self.steps = steps
        self.batch = batch
        self.lr = lr
        self.random_state = random_state

    def _check_settings(self) -> None:
        for name in ("layers", "width", "bits", "steps", "batch"):
            check_count(name, getattr(self, name))
        check_number("lr", self.lr, above=0)
        if self.scale is not None:
            check_number("scale", self.scale, above=0)

    def _train(
        self, x: Any, target: Tensor, weights: Tensor | None, head: Callable[[int], GroupSum],
        groups: int, loss: Any, *, goes_on: bool = False,
    ) -> None:  # fmt: skip
        """Train a network on rows x, a new one or that of before, and keep its circuit."""
        rows = torch.from_numpy(np.array(x))  # which may be read-only
        if weights is not None:
            rows, target, weights = rows[weights > 0], target[weights > 0], weights[weights > 0]
        if not goes_on:
            self._begin(rows, weights, head, groups)
        thermometer, *layers = self._network
        gates, steps = nn.Sequential(*layers), self.steps
        if goes_on:
            steps = -(-len(rows) // self.batch)  # about one pass
        if self._adam is None:
            self._adam = torch.optim.Adam(gates.parameters(), self.lr, fused=True)
        generator = torch.Generator().manual_seed(self._seed + self._calls)
        self._calls += 1
        bits = thermometer(rows) > 0
        with torch.enable_grad(), torch_on_one_thread():
            for step in range(steps):
                for group in self._adam.param_groups:
                    group["lr"] = self.lr * (1.0 if goes_on else min(1.0, 2 * (1 - step / steps)))
                index = _drawn(weights, len(bits), min(self.batch, len(bits)), generator)
                self._adam.zero_grad()
                loss(gates(bits[index].float()), target[index]).backward()
                self._adam.step()
        if not goes_on:
            self._adam = None  # its last steps were small ones
        self.circuit_ = harden(self._network)

    def _begin(
        self, rows: Tensor, weights: Tensor | None, head: Callable[[int], GroupSum], groups: int
    ) -> None:
        """A network that has learnt nothing but its thresholds."""
        self._seed = seed = int(check_random_state(self.random_state).randint(2**30))
        self._calls, self._adam = 0, None
        width = groups * -(-self.width // groups)  # a group of equal size for each
        sizes = [rows.shape[1] * self.bits, *[width] * self.layers]
        self._network = nn.Sequential(
            Thermometer.quantiles(rows, self.bits, weights),
            *(self._layer(sizes[k], sizes[k + 1], seed + 7 * k) for k in range(self.layers)),
            head(width),
        )

    def _goes_on(self) -> bool:
        """Whether there is a network for `partial_fit` to go on with."""
        return hasattr(self, "circuit_")

    def _layer(self, inputs: int, outputs: int, seed: int) -> LogicLayer:
        kind = cast("Parametrization | None", self.parametrization)
        return LogicLayer(inputs, outputs, self.fan_in, parametrization=kind, seed=seed)

    def _rows(self, x: Any) -> Any:
        """Rows to predict."""
        check_is_fitted(self, "circuit_")
        return validate_data(self, x, reset=False, dtype=(np.float64, np.float32))


def _weights(sample_weight: Any, x: Any) -> Tensor | None:
    """Weights [N] float64 of rows x, or None."""
    if sample_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, x, dtype=np.float64)
    if (weights < 0).any() or not weights.any():
        raise ValueError(
            "sample_weight must be >= 0 and somewhere > 0, got values from "
            f"{weights.min():g} to {weights.max():g}"
        )
    return torch.from_numpy(np.array(weights))


def _drawn(weights: Tensor | None, rows: int, count: int, generator: torch.Generator) -> Tensor:
    """Places of rows, drawn with their weights."""
    if weights is None:
        return torch.randint(rows, (count,), generator=generator)
    return torch.multinomial(weights, count, replacement=True, generator=generator)


@final
class LogicClassifier(ClassifierMixin, _LogicEstimator):
    """A classifier whose predictions are those of a circuit of gates, bit for bit.

    Numbers become bits by thresholds at quantiles of the training rows; layers of gates of equal
    width follow, and the group of gates with most ones is the class. For several labels at once,
    y is [N, L] of 0 and 1; a label holds where more than half of its group is 1.

    Args:
        layers: of gates.
        width: gates of a layer; rounded up to a multiple of the number of classes or labels.
        bits: thresholds of each feature.
        fan_in: inputs of a gate, 1 .. 6.
        parametrization: see `LogicLayer`.
        scale: the counts of a group are divided by it before the softmax; by default half the root
            of the gates of a group, at least 1.
        steps: of Adam.
        batch: rows in a step.
        lr: the learning rate, which falls to 0 in the second half.
        random_state: of wires and batches.

    Attributes:
        classes_: the classes, or the numbers of the labels.
        circuit_: the `Circuit`, to be saved or exported.
        n_features_in_: how many features a row has.

    Raises:
        ValueError: from `fit`, for a setting out of range, fewer than two classes, or several
            outputs that are no labels.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogicClassifier:
        """Train on rows X [N, F] with classes y [N] or labels y [N, L], and make the circuit.

        Rows are drawn with their weights [N], >= 0; those of weight 0 are as if they were not.
        """
        return self._fit(X, y, None, sample_weight, goes_on=False)

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> LogicClassifier:
        """Go on with about one pass over more rows.

        The thresholds are those of the first call, or of `fit`; it names all `classes` that will
        come, by default those in y. The learning rate does not fall.
        """
        return self._fit(X, y, classes, sample_weight, goes_on=self._goes_on())

    def _fit(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, *, goes_on: bool
    ) -> LogicClassifier:
        self._check_settings()
        x, y = validate_data(
            self, X, y, dtype=(np.float64, np.float32), multi_output=True, reset=not goes_on
        )
        weights = _weights(sample_weight, x)
        check_classification_targets(y)
        kind = type_of_target(y)
        if kind == "multiclass-multioutput":
            raise ValueError(f"several outputs must be labels, 0 or 1, got {kind}")
        has_labels = kind == "multilabel-indicator"
        if has_labels:
            y = y.toarray() if hasattr(y, "toarray") else y
            known = np.arange(y.shape[1])
        else:
            y = column_or_1d(y, warn=True)
            known = np.unique(y if classes is None else classes)
        if not goes_on:
            self._has_labels, self.classes_ = has_labels, known
        elif has_labels != self._has_labels or (has_labels and len(known) != len(self.classes_)):
            raise ValueError(
                f"y must be like that of the first call, with {len(self.classes_)} classes or "
                f"labels, got {kind} {list(y.shape)}"
            )
        elif classes is not None and not np.array_equal(known, self.classes_):
            raise ValueError(f"the classes are {self.classes_.tolist()}, got {known.tolist()}")
        count = len(self.classes_)
        if count < 2 and not has_labels:
            raise ValueError(f"y must have at least 2 classes, got {count} class")
        if not has_labels:
            places = np.searchsorted(self.classes_, y).clip(max=count - 1)
            if (wrong := self.classes_[places] != y).any():
                raise ValueError(
                    f"y holds {y[wrong][0]!r}, which is none of the classes "
                    f"{self.classes_.tolist()}; name all of them in the first call"
                )
            y = places
        gates = -(-self.width // count)
        scale = max(1.0, gates**0.5 / 2) if self.scale is None else self.scale
        target = torch.from_numpy(y).long()
        if has_labels:
            self._train(
                x, target.float(), weights,
                lambda width: GroupSum.of_labels(count, width, scale), count,
                functional.binary_cross_entropy_with_logits, goes_on=goes_on,
            )  # fmt: skip
        else:
            self._train(
                x, target, weights, lambda _: GroupSum(count, scale), count,
                functional.cross_entropy, goes_on=goes_on,
            )  # fmt: skip
        return self

    def predict_proba(self, X: Any) -> Any:
        """Probabilities [N, classes], the softmax of the scores of the circuit; of labels [N, L].

        A label's is that it holds, the logistic function of its score.
        """
        scores = self._scores(X)
        if self._has_labels:
            return 1 / (1 + np.exp(-scores))
        shares = np.exp(scores - scores.max(1, keepdims=True))
        return shares / shares.sum(1, keepdims=True)

    def _scores(self, X: Any) -> Any:
        """Counts over the scale [N, classes]."""
        x = self._rows(X)
        return self.circuit_(x).astype(np.float64)

    def predict(self, X: Any) -> Any:
        """Classes [N], or labels [N, L] of 0 and 1."""
        x = self._rows(X)
        if self._has_labels:
            return self.circuit_.labels(x).astype(int)
        return self.classes_[self.circuit_.predict(x)]


@final
class LogicRegressor(RegressorMixin, _LogicEstimator):
    """A regressor whose predictions are counts of a circuit of gates, between the ends of y.

    The arguments are those of `LogicClassifier`, but for the scale, which is not used: no gate that
    is 1 stands for the least y of the training rows, all of them for the largest. y may be [N, K];
    the gates are shared among the K numbers then.

    Attributes:
        circuit_: the `Circuit`, whose scores are in [0, 1].
        low_: the least y, a number or [K].
        span_: the largest less the least.
        n_features_in_: how many features a row has.

    Raises:
        ValueError: from `fit`, for a setting out of range.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogicRegressor:
        """Train on rows X [N, F] with numbers y [N] or [N, K], and make the circuit.

        Rows are drawn with their weights [N], >= 0; those of weight 0 are as if they were not.
        """
        return self._fit(X, y, sample_weight, goes_on=False)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogicRegressor:
        """Go on with about one pass over more rows.

        The thresholds and the range of y are those of the first call, or of `fit`; numbers outside
        count as its ends. The learning rate does not fall.
        """
        return self._fit(X, y, sample_weight, goes_on=self._goes_on())

    def _fit(self, X: Any, y: Any, sample_weight: Any, *, goes_on: bool) -> LogicRegressor:
        self._check_settings()
        x, y = validate_data(
            self, X, y, dtype=(np.float64, np.float32), multi_output=True, y_numeric=True,
            reset=not goes_on,
        )  # fmt: skip
        weights = _weights(sample_weight, x)
        y = y.astype(np.float64)
        if not goes_on:
            present = y if weights is None else y[weights.numpy() > 0]
            self.low_, span = present.min(0), np.ptp(present, 0)
            self.span_ = np.where(span > 0, span, 1.0)
        elif y.shape[1:] != self.low_.shape:
            raise ValueError(
                f"y must be like that of the first call, [N, *{list(self.low_.shape)}], got "
                f"{list(y.shape)}"
            )
        target = torch.from_numpy(((y - self.low_) / self.span_).clip(0, 1)).float()
        target = target.reshape(len(y), -1)
        count = target.shape[1]
        self._train(
            x, target, weights, lambda width: GroupSum.of_values(count, width), count,
            functional.mse_loss, goes_on=goes_on,
        )  # fmt: skip
        return self

    def predict(self, X: Any) -> Any:
        """Numbers [N], or [N, K]."""
        x = self._rows(X)
        return self.circuit_(x).reshape(len(x), *self.low_.shape) * self.span_ + self.low_
