"""The mixed model of the study of splatting."""

import sys

import numpy as np
from scipy.optimize import minimize

from support.scripts import imported


def test_the_mixed_model_is_that_of_restricted_maximum_likelihood(monkeypatch):
    laws, scenes, seeds = 4, 3, 3
    rng = np.random.default_rng(0)

    def drawn(*shape):
        return rng.normal(size=shape)

    scores = drawn(1, scenes, 1) + 0.3 * drawn(laws, scenes, 1)
    scores = scores + 0.2 * drawn(1, scenes, seeds) + 0.2 * drawn(laws, scenes, seeds)
    law, scene, seed = (x.ravel() for x in np.indices(scores.shape))
    fixed = np.eye(laws)[law]
    groups = scene, laws * scene + law, seeds * scene + seed, np.arange(scores.size)
    shared = [np.equal.outer(group, group) for group in groups]

    def fitted(deviations):
        inverse = np.linalg.inv(sum(d**2 * s for d, s in zip(deviations, shared, strict=True)))
        covariance = np.linalg.inv(fixed.T @ inverse @ fixed)
        rest = scores.ravel() - fixed @ (covariance @ fixed.T @ inverse @ scores.ravel())
        logs = -np.linalg.slogdet(inverse)[1] - np.linalg.slogdet(covariance)[1]
        return logs + rest @ inverse @ rest, covariance

    best = minimize(lambda x: fitted(x)[0], np.full(4, 0.5), tol=1e-9).x
    covariance = fitted(best)[1]
    error = np.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    monkeypatch.delitem(sys.modules, "splatting", raising=False)  # of benchmarks
    found = imported(monkeypatch, "splatting").mixed(scores)
    np.testing.assert_allclose(found, [error, 6, abs(best[1]), abs(best[3])], rtol=1e-4)
