"""The estimators of scikit-learn: its own checks, and circuits that say what they say."""

import pickle
import unittest
import warnings

import numpy as np
import pytest

from gendr.logic import Circuit
from support.cases import for_each

sklearn = pytest.importorskip("sklearn")
datasets = pytest.importorskip("sklearn.datasets")
checks = pytest.importorskip("sklearn.utils.estimator_checks")
estimators = pytest.importorskip("gendr.logic.estimators")

# Small enough for hundreds of fits, large enough for the scores that the checks ask for.
SMALL = {
    "classifier": lambda: estimators.LogicClassifier(layers=2, width=150, steps=60, lr=0.2),
    "regressor": lambda: estimators.LogicRegressor(layers=2, width=150, steps=100, lr=0.2),
}


def all_checks(seed, every):
    """But that weights do the same as repeated rows to every digit: rows are drawn by chance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            (name, number)
            for name, make in SMALL.items()
            for number, (_, check) in enumerate(checks.estimator_checks_generator(make()))
            if "sample_weight_equivalence" not in str(check)
        ]


@for_each("name, number", all_checks, rotating=31)
def test_the_checks_of_scikit_learn(name, number):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what the checks do on purpose
        estimator, check = list(checks.estimator_checks_generator(SMALL[name]()))[number]
        try:
            check(estimator)
        except unittest.SkipTest:  # for pandas and array libraries that are not there
            return


def test_there_are_as_many_checks_as_scikit_learn_has():
    assert len(all_checks(0, True)) > 90


@pytest.mark.rotating(4, group="logic")
def test_a_classifier_is_its_circuit(tmp_path):
    x, y = datasets.load_wine(return_X_y=True)
    names = np.array(["barolo", "grignolino", "barbera"])[y]
    train = np.arange(len(x)) % 3 > 0
    model = estimators.LogicClassifier(width=300, steps=150, lr=0.1, random_state=0)
    model.fit(x[train], names[train])
    assert model.score(x[~train], names[~train]) > 0.85
    model.circuit_.save(tmp_path / "wine.npz")
    again = Circuit.load(tmp_path / "wine.npz")
    assert (model.classes_[again.predict(x)] == model.predict(x)).all()
    shares = model.predict_proba(x)
    np.testing.assert_allclose(shares.sum(1), 1)
    assert (model.classes_[shares.argmax(1)] == model.predict(x)).all()
    same = estimators.LogicClassifier(**model.get_params()).fit(x[train], names[train])
    assert str(same.circuit_) == str(model.circuit_)


@pytest.mark.rotating(4, group="logic")
def test_a_regressor_is_its_circuit():
    x, y = datasets.make_regression(300, 4, noise=1.0, random_state=0)
    model = estimators.LogicRegressor(fan_in=3, parametrization="walsh", random_state=0)
    model.set_params(layers=2, width=400, steps=300, lr=0.1).fit(x[:200], y[:200])
    assert model.score(x[200:], y[200:]) > 0.6
    counts = model.circuit_.counts(model.circuit_.pack(x))[:, 0]
    found = counts / 400 * np.ptp(y[:200]) + y[:200].min()
    np.testing.assert_allclose(model.predict(x), found, rtol=1e-5, atol=1e-4)


@pytest.mark.rotating(4, group="logic")
def test_several_labels_at_once():
    random = np.random.default_rng(1)
    x = random.normal(size=(300, 8))
    y = (x @ random.normal(size=(8, 4)) > [0.0, 0.5, 1.0, -1.0]).astype(int)
    model = estimators.LogicClassifier(width=240, steps=100, lr=0.2, random_state=0)
    model.fit(x[:200], y[:200])
    assert model.score(x[:200], y[:200]) > 0.7
    found = model.predict(x[200:])
    right, guessed = (found == y[200:]).mean(), np.maximum(y.mean(0), 1 - y.mean(0)).mean()
    assert right > guessed + 0.1
    assert (model.circuit_.labels(x) == model.predict(x)).all()
    shares = model.predict_proba(x)
    assert shares.shape == (300, 4)
    assert ((shares > 0.5) == model.predict(x)).all()
    model.set_params(width=40, steps=3)
    dense = model.fit(x, y).predict(x)
    sparse = pytest.importorskip("scipy.sparse").csr_array(y)
    assert (model.fit(x, sparse).predict(x) == dense).all()
    with pytest.raises(ValueError, match="several outputs must be labels"):
        model.fit(x, y * 2 + y[:, ::-1])


@pytest.mark.rotating(4, group="logic")
def test_several_numbers_at_once():
    x, y = datasets.make_regression(300, 4, n_targets=3, noise=1.0, random_state=0)
    y = y * [1.0, 10.0, 0.1] + [0.0, 5.0, -3.0]
    model = estimators.LogicRegressor(
        fan_in=3, parametrization="walsh", layers=2, width=300, steps=200, lr=0.2, random_state=0
    )
    assert model.fit(x[:200], y[:200]).score(x[200:], y[200:]) > 0.5
    counts = model.circuit_.counts(model.circuit_.pack(x))
    found = counts / 100 * np.ptp(y[:200], 0) + y[:200].min(0)
    np.testing.assert_allclose(model.predict(x), found, rtol=1e-5, atol=1e-4)


@pytest.mark.rotating(4, group="logic")
@for_each(kind=["classifier", "regressor"], rotating=2)
def test_weights_of_rows(kind):
    """Rows of weight 0 are as if they were not; of two with the same x the heavy one wins."""
    x = np.repeat(np.random.default_rng(0).normal(size=(60, 3)), 2, 0)
    truth = (x[:, 0] > 0).astype(int)
    y = np.where(np.arange(120) % 2, truth, 1 - truth)
    model = SMALL[kind]().set_params(random_state=0)
    for heavy in (0, 1):
        weights = np.where(np.arange(120) % 2 == heavy, 3.0, 0.03)
        found = model.fit(x, y, sample_weight=weights).predict(x)
        wanted = truth if heavy else 1 - truth
        assert (found.round() == wanted).mean() > 0.9
    weights[::3] = 0
    text = str(model.fit(x, y, sample_weight=weights).circuit_)
    y[::3] = 1 - y[::3]
    kept = weights > 0
    assert str(model.fit(x, y, sample_weight=weights).circuit_) == text
    assert str(model.fit(x[kept], y[kept], sample_weight=weights[kept]).circuit_) == text
    limits = model.fit(x, y, sample_weight=np.arange(120) % 4).circuit_.thresholds
    repeated = model.fit(x.repeat(np.arange(120) % 4, 0), y.repeat(np.arange(120) % 4))
    assert (limits == repeated.circuit_.thresholds).mean() > 0.8  # the others are neighbours
    for wrong in (-weights, 0 * weights):
        with pytest.raises(
            ValueError, match=r"sample_weight must be >= 0 and|at least one non-zero"
        ):
            model.fit(x, y, sample_weight=wrong)


@pytest.mark.rotating(4, group="logic")
def test_rows_that_come_bit_by_bit():
    x, y = datasets.load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order], y[order]
    model = SMALL["classifier"]().set_params(random_state=0, batch=16)
    model.partial_fit(x[:40], y[:40], classes=[0, 1, 2])
    limits, first = model.circuit_.thresholds, model.score(x[100:], y[100:])
    again = pickle.loads(pickle.dumps(model))
    for each in (model, again):
        for start in (40, 60, 80) * 8:
            each.partial_fit(x[start : start + 20], y[start : start + 20])
    assert str(again.circuit_) == str(model.circuit_)
    assert np.array_equal(model.circuit_.thresholds, limits)
    assert model.score(x[100:], y[100:]) > max(first, 0.85)
    for call, said in (
        (lambda: model.partial_fit(x[:5], y[:5] + 1), "3.*, which is none of the classes"),
        (lambda: model.partial_fit(x[:5], y[:5], classes=[0, 1]), r"the classes are \[0, 1, 2\]"),
        (lambda: model.partial_fit(x[:5, :3], y[:5]), "3 features"),
        (lambda: model.partial_fit(x[:5], np.eye(3)[y[:5]].astype(int)[:, :2]), "like that of"),
    ):
        with pytest.raises(ValueError, match=said):
            call()
    lines = SMALL["regressor"]().set_params(random_state=0)
    lines.fit(x[:100], x[:100, 0])
    before = lines.score(x, x[:, 0])
    for _ in range(60):
        lines.partial_fit(x, x[:, 0])
    assert lines.score(x, x[:, 0]) > max(before, 0.5)
    assert lines.predict(x).max() <= x[:100, 0].max() + 1e-5


def test_bad_settings():
    x, y = np.zeros((4, 2)), [0, 1, 0, 1]
    with pytest.raises(ValueError, match="steps must be >= 1"):
        estimators.LogicClassifier(steps=0).fit(x, y)
    with pytest.raises(ValueError, match="at least 2 classes, got 1 class"):
        estimators.LogicClassifier().fit(x, [1] * 4)
