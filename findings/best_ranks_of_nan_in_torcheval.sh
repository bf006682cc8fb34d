#!/usr/bin/env bash
# torcheval 0.0.7 (torch 2.13.0): ranks of a network whose scores are NaN, or all equal.
# Expected: NaN, an error, or the worst; of equal scores the mean over their orders (a hit at 1 in one of
#   five), or the order of torch's `topk`.
# Seen: the best: the reciprocal rank, the hit rate and the top-2 accuracy are 1, as only scores above
#   that of the right class are counted, and nothing is above NaN. No word of it.
# Who meets it: who watches such a number while training: a run that has diverged looks perfect.
. "$(dirname "$0")/environment"
packages torch==2.13.0 torcheval==0.0.7 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import torch
from torcheval.metrics.functional import hit_rate, multiclass_accuracy, reciprocal_rank

right = torch.tensor([0, 2, 4, 1])
for name, value in (("NaN", torch.nan), ("equal", 0.0)):
    scores = torch.full((4, 5), value)
    seen = (reciprocal_rank(scores, right).mean(), hit_rate(scores, right, k=1).mean(),
            multiclass_accuracy(scores, right, k=2))
    print(f"scores {name}: reciprocal rank, hit rate at 1, top-2 accuracy:", *(number.item() for number in seen))
    assert all(number == 1 for number in seen), "changed"
ordered = reciprocal_rank(torch.tensor([[0.1, 0.2, 0.3]]), torch.tensor([0]))
assert abs(ordered.item() - 1 / 3) < 1e-6
PY
