#!/usr/bin/env bash
# pytrec_eval-terrier 0.5.11 (the evaluator of trec_eval, also behind ir_measures): scores are
# Python's doubles, and two documents differ by 1e-5 at 1000, as sums of logits do.
# Expected: the reciprocal rank of the ranking by these scores, 1, as ranx 0.3.21 has it of the same.
# Seen: 1/3. Scores are kept in single precision, where these are equal, and equal scores are ranked
#   by the names of the documents, the last of the alphabet first: the relevant `a` is behind `c`.
#   With `c` relevant, which the scores put last, the value is 1.
# Who meets it: whoever evaluates a learned ranking whose scores have an offset.
. "$(dirname "$0")/environment"
packages pytrec-eval-terrier==0.5.11 ranx==0.3.21 numpy==2.4.6
python -W ignore - <<'PY'
import pytrec_eval
from ranx import Qrels, Run, evaluate

scores = {"q": {"a": 1000.00002, "b": 1000.00001, "c": 1000.0}}
seen = {}
for relevant in "ac":
    judged = {"q": {name: int(name == relevant) for name in "abc"}}
    trec = pytrec_eval.RelevanceEvaluator(judged, {"recip_rank"}).evaluate(scores)["q"]["recip_rank"]
    other = evaluate(Qrels({"q": {relevant: 1}}), Run(scores), "mrr")
    seen[relevant] = (round(float(trec), 4), round(float(other), 4))
print("reciprocal rank where one is relevant, by trec_eval and by ranx:", seen)
assert seen["a"] == (0.3333, 1.0), "changed"
assert seen["c"] == (1.0, 0.3333), "changed"
PY
