#!/usr/bin/env bash
# torch 2.13.0 with onnxscript 0.7.2 and ONNX Runtime 1.32.0: `torch.logaddexp`, `torch.logaddexp2` and
# `torch.special.log_ndtr` by `torch.onnx.export(dynamo=True)`.
# Expected: what PyTorch gives, whose documentation has the first for numbers whose exponentials do not
#   fit: logaddexp(90, 90) = 90.69; log_ndtr(-30) = −454.32.
# Seen: inf, and inf and NaN: the graph is log(exp(a) + exp(b)), and that of a chance that is 0.
#   No word by the exporter. `torch.logsumexp` of the two stacked is exported as an operator, and right.
# Who meets it: soft minima, alignments, mixtures and likelihoods in logarithms with numbers above 88.
. "$(dirname "$0")/environment"
packages torch==2.13.0 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0 numpy==2.4.6
python -W ignore - <<'PY' 2> /dev/null
import numpy as np
import onnxruntime
import torch


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.forward = function


def both(function, *inputs):
    program = torch.onnx.export(Module(function), inputs, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    names = [entry.name for entry in session.get_inputs()]
    (seen,) = session.run(None, {name: x.numpy() for name, x in zip(names, inputs)})
    return function(*inputs).numpy(), seen


a, b = torch.tensor([1.0, 90.0, -200.0]), torch.tensor([2.0, 90.0, -200.5])
true, stacked = both(lambda a, b: torch.stack([a, b]).logsumexp(0), a, b)
_, seen = both(lambda a, b: torch.logaddexp(a, b), a, b)
print("logaddexp: torch", torch.logaddexp(a, b).numpy(), "ONNX", seen, "logsumexp in ONNX", stacked)
assert np.allclose(true, torch.logaddexp(a, b)) and np.allclose(stacked, true)
assert np.isclose(seen[0], true[0]) and seen[1] == np.inf and seen[2] == -np.inf, "changed"
x = torch.tensor([-1.0, -30.0])
true, seen = both(lambda x: torch.special.log_ndtr(x), x)
print("log_ndtr: torch", true, "ONNX", seen)
assert np.isclose(seen[0], true[0]) and np.isclose(true[1], -454.3213) and not np.isfinite(seen[1]), "changed"
PY
