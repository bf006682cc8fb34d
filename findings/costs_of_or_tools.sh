#!/usr/bin/env bash
# OR-Tools 9.15.6755, `ortools.graph.python` (numpy 2.3.5, SciPy 1.16.3 for the right answer).
# Expected: arrays of costs that are no integers are refused, as a single one is (`add_arc_with_cost`
#   of 0.9 is a TypeError), or solved as they are.
# Seen: the methods that take arrays cut the costs off towards zero without a word and call the
#   answer optimal: of an assignment with costs between 0 and 1 all are 0, and the worst one comes
#   back. Minimum cost flow does the same with costs, maximum flow with capacities.
# Who meets it: whoever makes a layer of such a solver (decisions learned through assignments and
#   flows): costs come from a network, as floats. Multiply by 2^20 and round.
. "$(dirname "$0")/environment"
packages ortools==9.15.6755 numpy==2.3.5 scipy==1.16.3
python - <<'PY'
import numpy as np
from ortools.graph.python import linear_sum_assignment, max_flow, min_cost_flow
from scipy.optimize import linear_sum_assignment as by_scipy

costs = np.array([[0.9, 0.2], [0.1, 0.8]])
rows, columns = np.divmod(np.arange(4), 2)

solver = linear_sum_assignment.SimpleLinearSumAssignment()
try:
    solver.add_arc_with_cost(0, 0, 0.9)
    raise SystemExit("changed: a single cost is taken")
except TypeError:
    print("one cost of 0.9: TypeError")


def assigned(costs):
    solver = linear_sum_assignment.SimpleLinearSumAssignment()
    solver.add_arcs_with_cost(rows, columns, costs.ravel())
    assert solver.solve() == solver.OPTIMAL
    return [solver.right_mate(i) for i in range(2)], solver.optimal_cost()


best = by_scipy(costs)[1]
found, value = assigned(costs)
print(f"an array of costs: assigned {found} for {value}, 'optimal'; right: {best} for {costs[[0, 1], best].sum():.1f}")
assert found == [0, 1] and value == 0 and best.tolist() == [1, 0], "changed"
print(f"the same times 10: {assigned(10 * costs)}")
assert assigned(np.rint(2**20 * costs).astype(np.int64))[0] == best.tolist(), "changed"

# Two paths of two arcs: 0-1-3 costs 0.2 + 0.2, 0-2-3 costs 0.9 + 0.9.
flow = min_cost_flow.SimpleMinCostFlow()
flow.add_arcs_with_capacity_and_unit_cost(
    np.array([0, 0, 2, 1]), np.array([2, 1, 3, 3]), np.ones(4, int), np.array([0.9, 0.2, 0.9, 0.2])
)
flow.set_nodes_supplies(np.arange(4), np.array([1, 0, 0, -1]))
assert flow.solve() == flow.OPTIMAL
print(f"minimum cost flow: flows {flow.flows(np.arange(4)).tolist()}, cost {flow.optimal_cost()}; right: 0.4")
assert flow.optimal_cost() == 0, "changed"

pipes = max_flow.SimpleMaxFlow()
pipes.add_arcs_with_capacity(np.array([0, 0]), np.array([1, 1]), np.array([1.9, 2.9]))
assert pipes.solve(0, 1) == pipes.OPTIMAL
print(f"maximum flow of capacities 1.9 + 2.9: {pipes.optimal_flow()}")
assert pipes.optimal_flow() == 3, "changed"
PY
