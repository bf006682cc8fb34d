#!/usr/bin/env bash
# POT 0.9.7.post1, `semidiscrete_wasserstein2_unif_circle` of points on a circle that have weights.
# Expected: the cost of transport to the uniform distribution, in whatever order the points are.
# Seen: points are sorted and their weights are not: 0.0083 where the plan of a linear program against 4000
#   points costs 0.0331. Sorted before, or with equal weights, it is right; `wasserstein_circle` always is.
#   What is built on it, as the sliced distance of a sphere to the uniform one, has no weights.
# Who meets it: tests of uniformity of directions, hues or phases, weighted by areas.
. "$(dirname "$0")/environment"
packages pot==0.9.7.post1 numpy==2.4.6 scipy==1.17.1
python -W ignore - <<'PY'
import numpy as np
import ot

random = np.random.default_rng(0)
n = 4000
grid = (np.arange(n) + 0.5) / n
places = random.random(7)
for name, weights in (("equal", np.full(7, 1 / 7)), ("other", random.dirichlet(np.ones(7)))):
    distance = abs(places[:, None] - grid)
    costs = np.minimum(distance, 1 - distance) ** 2
    exact = ot.emd2(weights, np.full(n, 1 / n), costs, numItermax=10**6)
    order = np.argsort(places)
    plain = ot.semidiscrete_wasserstein2_unif_circle(places, weights)[0]
    sorted_before = ot.semidiscrete_wasserstein2_unif_circle(places[order], weights[order])[0]
    print(f"{name} weights: {plain:.5f}, sorted before {sorted_before:.5f}, linear program {exact:.5f}")
    assert abs(sorted_before - exact) < 1e-5
    assert abs(ot.wasserstein_circle(places, grid, weights, np.full(n, 1 / n), p=2)[0] - exact) < 1e-5
    assert (abs(plain - exact) < 1e-5) == (name == "equal"), "changed"
PY
