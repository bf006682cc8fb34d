#!/usr/bin/env bash
# LTNtorch 1.0.2, `ltn.fuzzy_ops.ImpliesGoguen()` as it comes, which is its stable form.
# Expected: Goguen's implication, 1 where x <= y and y / x else, as its page has it: what is false implies anything,
#   so that (0, 0) is 1. The stable form is said to keep away from gradients that are not finite.
# Seen: (0, 0) is 0, with a gradient of 10,000 by y: x is moved up by 1e-4 before it is compared, and 0 / 1e-4 is
#   taken. (1e-5, 1e-5) is 0.09. `stable=False` gives 1, with gradients that are NaN. Goedel's, Lukasiewicz's,
#   Kleene-Dienes' and Reichenbach's are right there.
# Who meets it: rules over many groundings, in most of which premise and conclusion are both false.
. "$(dirname "$0")/environment"
packages torch==2.13.0 LTNtorch==1.0.2 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import torch
from ltn import fuzzy_ops

def value_and_slopes(implies, x, y):
    x, y = (torch.tensor([v], dtype=torch.float64, requires_grad=True) for v in (x, y))
    value = implies(x, y)
    slopes = torch.autograd.grad(value.sum(), (x, y), allow_unused=True)
    return value.item(), [None if slope is None else slope.item() for slope in slopes]

stable = fuzzy_ops.ImpliesGoguen()
for point in ((0.0, 0.0), (1e-5, 1e-5), (0.3, 0.6), (0.8, 0.4)):
    print(point, *value_and_slopes(stable, *point))
value, slopes = value_and_slopes(stable, 0.0, 0.0)
assert value == 0 and slopes[1] > 9_000, "changed"
assert value_and_slopes(stable, 1e-5, 1e-5)[0] < 0.1, "changed"
assert value_and_slopes(stable, 0.3, 0.6)[0] == 1
assert abs(value_and_slopes(stable, 0.8, 0.4)[0] - 0.5) < 1e-3
value, slopes = value_and_slopes(fuzzy_ops.ImpliesGoguen(stable=False), 0.0, 0.0)
print("stable=False:", value, slopes)
assert value == 1 and slopes[1] != slopes[1], "changed"
for name in ("Godel", "Luk", "KleeneDienes", "Reichenbach"):
    assert abs(value_and_slopes(getattr(fuzzy_ops, f"Implies{name}")(), 0.0, 0.0)[0] - 1) < 2e-4
PY
