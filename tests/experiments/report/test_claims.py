"""The errors behind the verdicts on claims."""

import numpy as np
import pytest

from lab.report.claims import Claim, Part, almost_all, mean
from support.cases import for_each


@for_each("scenes, partners", [(1, 12), (4, 12), (12, 4)])
def test_the_error_of_a_mean_is_its_spread(scenes, partners):
    """Drawn many times, the mean varies as its error says."""
    noise = np.random.default_rng(0)
    found = []
    for _ in range(2000):
        of_partners = noise.normal(0, 0.02, (1, partners))
        of_scenes = noise.normal(0, 0.05 if scenes > 1 else 0.0, (scenes, 1))
        found.append(mean("x", (0.3 + of_partners + of_scenes)[..., None]))
    values = np.array([part.value for part in found])
    errors = np.array([part.error for part in found])
    assert values.mean() == pytest.approx(0.3, abs=0.003)
    assert np.sqrt((errors**2).mean()) == pytest.approx(values.std(), rel=0.06)


def test_scenes_that_agree_by_chance_keep_the_error_of_their_draws():
    noise = np.random.default_rng(0)
    found = []
    for _ in range(2000):
        of_draws = noise.normal(0, 0.5, (2, 1, 48))  # such as pairs of poses, hard or easy for all
        found.append(mean("x", 0.3 + of_draws + noise.normal(0, 0.01, (1, 12, 1))))
    errors = np.array([part.error for part in found])
    actual = np.std([part.value for part in found])
    assert np.quantile(errors, 0.01) > 0.8 * actual
    assert np.median(errors) < 1.5 * actual


def test_a_verdict_needs_two_errors():
    def verdict(*values):
        return Claim("c", "shape", tuple(Part("p", v, 0.01) for v in values)).verdict

    assert verdict() == "not tested"
    assert verdict(0.03, 0.021) == "yes"
    assert verdict(-0.03, -0.021) == "no"
    assert verdict(0.03, 0.019) == verdict(0.03, -0.03) == verdict(0.019) == "partly"


def test_almost_all_is_nine_in_ten():
    assert almost_all(124, 124).sign == 1
    assert almost_all(60, 124).sign == -1
    assert almost_all(112, 124).sign == 0
    assert almost_all(60, 124).error == pytest.approx((0.4839 * 0.5161 / 124) ** 0.5, rel=1e-3)
