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
    from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
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
        self, x: Any, target: Tensor, head: Callable[[int], GroupSum], groups: int, loss: Any
    ) -> None:
        """Train a network on rows x, and keep its circuit."""
        seed = int(check_random_state(self.random_state).randint(2**30))
        generator = torch.Generator().manual_seed(seed)
        rows = torch.from_numpy(np.array(x))  # which may be read-only
        thermometer = Thermometer.quantiles(rows, self.bits)
        features = x.shape[1] * self.bits
        width = groups * -(-self.width // groups)  # a group of equal size for each
        sizes = [features, *[width] * self.layers]
        gates = nn.Sequential(
            *(self._layer(sizes[k], sizes[k + 1], seed + 7 * k) for k in range(self.layers)),
            head(width),
        )
        bits = thermometer(rows) > 0
        adam = torch.optim.Adam(gates.parameters(), self.lr, fused=True)
        decay = torch.optim.lr_scheduler.LambdaLR(
            adam, lambda step: min(1.0, 2 * (1 - step / self.steps))
        )
        with torch.enable_grad(), torch_on_one_thread():
            for _ in range(self.steps):
                index = torch.randint(len(bits), (min(self.batch, len(bits)),), generator=generator)
                adam.zero_grad()
                loss(gates(bits[index].float()), target[index]).backward()
                adam.step()
                decay.step()
        self.circuit_ = harden(nn.Sequential(thermometer, *gates))

    def _layer(self, inputs: int, outputs: int, seed: int) -> LogicLayer:
        kind = cast("Parametrization | None", self.parametrization)
        return LogicLayer(inputs, outputs, self.fan_in, parametrization=kind, seed=seed)

    def _rows(self, x: Any) -> Any:
        """Rows to predict."""
        check_is_fitted(self, "circuit_")
        return validate_data(self, x, reset=False, dtype=(np.float64, np.float32))


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

    def fit(self, X: Any, y: Any) -> LogicClassifier:  # scikit-learn's word
        """Train on rows X [N, F] with classes y [N] or labels y [N, L], and make the circuit."""
        self._check_settings()
        x, y = validate_data(self, X, y, dtype=(np.float64, np.float32), multi_output=True)
        check_classification_targets(y)
        kind = type_of_target(y)
        if kind == "multiclass-multioutput":
            raise ValueError(f"several outputs must be labels, 0 or 1, got {kind}")
        self._has_labels = kind == "multilabel-indicator"
        if self._has_labels:
            y = y.toarray() if hasattr(y, "toarray") else y
            self.classes_, labels = np.arange(y.shape[1]), y
        else:
            self.classes_, labels = np.unique(column_or_1d(y, warn=True), return_inverse=True)
        count = len(self.classes_)
        if count < 2 and not self._has_labels:
            raise ValueError(f"y must have at least 2 classes, got {count} class")
        gates = -(-self.width // count)
        scale = max(1.0, gates**0.5 / 2) if self.scale is None else self.scale
        target = torch.from_numpy(labels).long()
        if self._has_labels:
            self._train(
                x, target.float(), lambda width: GroupSum.of_labels(count, width, scale), count,
                functional.binary_cross_entropy_with_logits,
            )  # fmt: skip
        else:
            self._train(
                x, target, lambda _: GroupSum(count, scale), count, functional.cross_entropy
            )
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

    def fit(self, X: Any, y: Any) -> LogicRegressor:
        """Train on rows X [N, F] with numbers y [N] or [N, K], and make the circuit."""
        self._check_settings()
        x, y = validate_data(
            self, X, y, dtype=(np.float64, np.float32), multi_output=True, y_numeric=True
        )
        y = y.astype(np.float64)
        self.low_, span = y.min(0), np.ptp(y, 0)
        self.span_ = np.where(span > 0, span, 1.0)
        target = torch.from_numpy((y - self.low_) / self.span_).float().reshape(len(y), -1)
        count = target.shape[1]
        self._train(
            x, target, lambda width: GroupSum.of_values(count, width), count, functional.mse_loss
        )
        return self

    def predict(self, X: Any) -> Any:
        """Numbers [N], or [N, K]."""
        x = self._rows(X)
        return self.circuit_(x).reshape(len(x), *self.low_.shape) * self.span_ + self.low_
