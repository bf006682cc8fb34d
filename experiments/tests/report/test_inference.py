"""Errors, degrees of freedom and corrections, by draws and by other formulas."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import t, ttest_1samp

from lab.report.claims import Claim, Part, decide
from lab.report.inference import Crossed, Effect, benjamini_hochberg, farthest, welch
from support.cases import for_each


@for_each("scenes, partners", [(1, 12), (4, 12), (12, 4)])
def test_the_error_of_a_mean_is_its_spread(scenes, partners):
    """Drawn many times, the mean varies as its error says."""
    noise = np.random.default_rng(0)
    found = []
    for _ in range(2000):
        of_partners = noise.normal(0, 0.02, (1, partners))
        of_scenes = noise.normal(0, 0.05 if scenes > 1 else 0.0, (scenes, 1))
        found.append(welch((0.3 + of_partners + of_scenes)[..., None]))
    values = np.array([part.value for part in found])
    errors = np.array([part.error for part in found])
    assert values.mean() == pytest.approx(0.3, abs=0.003)
    assert np.sqrt((errors**2).mean()) == pytest.approx(values.std(), rel=0.06)


def test_scenes_that_agree_by_chance_keep_the_error_of_their_draws():
    noise = np.random.default_rng(0)
    found = []
    for _ in range(2000):
        of_draws = noise.normal(0, 0.5, (2, 1, 48))  # such as pairs of poses, hard or easy for all
        found.append(welch(0.3 + of_draws + noise.normal(0, 0.01, (1, 12, 1))))
    errors = np.array([part.error for part in found])
    actual = np.std([part.value for part in found])
    assert np.quantile(errors, 0.01) > 0.8 * actual
    assert np.median(errors) < 1.5 * actual


def test_an_interval_of_two_scenes_holds_the_truth_as_often_as_it_says():
    noise = np.random.default_rng(0)
    held = 0
    for _ in range(1000):
        low, high = welch(noise.normal(0.3, 0.05, (2, 1, 1)).repeat(3, 1)).interval()
        held += low < 0.3 < high
    assert held / 1000 == pytest.approx(0.95, abs=0.02)


def test_one_kind_of_error_gives_students_test():
    values = np.random.default_rng(0).normal(0.2, 1.0, (5, 1, 1))
    found = welch(values.repeat(2, 1))
    assert found.freedom == pytest.approx(4)
    assert found.p() == pytest.approx(ttest_1samp(values.ravel(), 0.0).pvalue)
    assert found.interval()[1] == pytest.approx(
        ttest_1samp(values.ravel(), 0.0).confidence_interval()[1]
    )


@for_each(draws=[1, 3])
def test_the_mixed_model_is_that_of_restricted_maximum_likelihood(draws):
    treatments, scenes = 4, 3
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1, scenes, 1)) + 0.5 * rng.normal(size=(treatments, scenes, 1))
    values = values + 0.2 * rng.normal(size=(1, scenes, draws))
    values = values + 0.2 * rng.normal(size=(treatments, scenes, draws))
    treatment, scene, draw = (x.ravel() for x in np.indices(values.shape))
    fixed = np.eye(treatments)[treatment]
    groups = [scene, np.arange(values.size)]
    if draws > 1:
        groups += [scenes * treatment + scene, draws * scene + draw]
    shared = [np.equal.outer(group, group) for group in groups]

    def fitted(deviations):
        inverse = np.linalg.inv(sum(d**2 * s for d, s in zip(deviations, shared, strict=True)))
        covariance = np.linalg.inv(fixed.T @ inverse @ fixed)
        rest = values.ravel() - fixed @ (covariance @ fixed.T @ inverse @ values.ravel())
        logs = -np.linalg.slogdet(inverse)[1] - np.linalg.slogdet(covariance)[1]
        return logs + rest @ inverse @ rest, covariance

    best = minimize(lambda x: fitted(x)[0], np.full(len(groups), 0.5), tol=1e-9).x
    covariance, weights = fitted(best)[1], np.array([1.0, -0.5, -0.5, 0.0])
    found = Crossed.of(values).contrast(weights)
    assert found.error == pytest.approx((weights @ covariance @ weights) ** 0.5, rel=1e-4)
    assert found.freedom == 6
    assert found.value == pytest.approx(weights @ values.mean((1, 2)))
    if draws > 1:
        model = Crossed.of(values)
        deviations = abs(best[[2, 1]])  # of treatments in scenes, and of single draws
        np.testing.assert_allclose([model.of_scene, model.of_draw], deviations, rtol=1e-4)


def test_the_mixed_model_keeps_the_error_of_draws():
    """Of scenes that agree, what their draws leave open is the error."""
    values = np.random.default_rng(0).normal(0, 1, (5, 2, 50))
    values = values - values.mean(2, keepdims=True)
    model = Crossed.of(values + 1e-6 * np.arange(10.0).reshape(5, 2, 1) ** 2)
    assert model.error == pytest.approx((1 / 50 / 2) ** 0.5, rel=0.1)
    assert model.freedom == 4 * 2 * 49


def test_shrunken_means_are_nearer_to_the_truth():
    rng = np.random.default_rng(0)
    truth = rng.normal(0.9, 0.01, 100)
    model = Crossed.of(truth[:, None, None] + rng.normal(0, 0.02, (100, 4, 1)))
    assert model.reliability == pytest.approx(0.5, abs=0.15)
    raw, shrunken = (((x - truth) ** 2).mean() for x in (model.means, model.shrunken))
    assert shrunken < 0.7 * raw
    assert Crossed.of(rng.normal(0, 1, (50, 3, 1))).p > 0.01


def test_corrections():
    p = [0.01, 0.04, 0.03, 0.5]
    assert benjamini_hochberg(p).tolist() == pytest.approx([0.04, 0.16 / 3, 0.16 / 3, 0.5])


def test_the_best_is_in_the_set_as_often_as_it_says():
    rng = np.random.default_rng(0)
    held = [Crossed.of(rng.normal(0, 1, (8, 4, 1))).may_be_best()[0] for _ in range(1000)]
    assert np.mean(held) == pytest.approx(0.95, abs=0.02)
    # Of two, it is Student's test against one side.
    assert farthest(2, 10) == pytest.approx(t.ppf(0.95, 10), rel=1e-2)


def test_a_verdict_needs_both_errors():
    def verdict(*parts, confounded=False):
        claim = Claim("c", "shape", tuple(Part("p", *part) for part in parts), confounded)
        return decide([claim])[0].verdict

    sure, unsure = Effect(0.3, 0.01, 20), Effect(0.3, 0.01 * 30, 20)
    assert verdict((sure, sure)) == "yes"
    assert verdict((sure, unsure)) == "likely"
    assert verdict((unsure, unsure)) == "open"
    assert verdict((sure, sure), (unsure, unsure)) == "open"
    against = Effect(-0.3, 0.01, 20)
    assert verdict((against, against)) == "no"
    assert verdict((against, unsure)) == "likely not"
    assert verdict((sure, sure), (against, against)) == "mixed"
    assert verdict((sure, sure), confounded=True) == "width"
    assert decide([Claim("c", "shape", ())]) == []
