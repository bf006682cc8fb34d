#!/usr/bin/env bash
# torchmetrics 1.9.0, `torchmetrics.retrieval`: ten documents of one score, one of them relevant
# (torch 2.13.0; about 200 MB where the index has a build for CPUs, gigabytes elsewhere).
# Expected: what a random order gets on average, as `RetrievalNormalizedDCG` of the same module has
#   it, wherever the relevant one is listed; or an error.
# Seen: MRR and MAP from 0.1 to 1 by the place at which it is listed, in the order that an unstable
#   sort leaves; and a hit among the first 1 together with a precision at 1 of 0, as these ask
#   different functions of torch.
# Who meets it: rankers in half precision, trees and other scores of few values, models that have
#   not learnt yet or have collapsed: how documents are listed makes them look good or bad.
. "$(dirname "$0")/environment"
packages torch==2.13.0 torchmetrics==1.9.0 numpy==2.4.6
python -W ignore - <<'PY'
import torch
from torchmetrics import retrieval

scores, query = torch.full((10,), 0.5), torch.zeros(10, dtype=torch.long)
found = {}
for name, options in (
    ("MRR", {}), ("MAP", {}), ("NormalizedDCG", {}), ("HitRate", {"top_k": 1}),
    ("Precision", {"top_k": 1}),
):  # fmt: skip
    metric = getattr(retrieval, f"Retrieval{name}")
    found[name] = [
        round(metric(**options)(scores, truth, indexes=query).item(), 3)
        for truth in torch.eye(10, dtype=torch.long)
    ]
    print(f"{name}, the relevant one listed first, second, ..: {found[name]}")
assert len(set(found["NormalizedDCG"])) == 1, "changed"
assert found["MRR"] == found["MAP"] and set(found["MRR"]) >= {0.1, 1.0}, "changed"
assert found["HitRate"] != found["Precision"], "changed"
PY
