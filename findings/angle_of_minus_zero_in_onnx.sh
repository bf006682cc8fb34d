#!/usr/bin/env bash
# torch 2.13.0, `torch.onnx.export`, with onnxscript 0.7.2 and onnx 1.23.2, run by onnxruntime 1.32.0
# (about 200 MB where the index has a build of torch for CPUs, gigabytes elsewhere).
# Expected: atan2(1, -0.0) = pi / 2 and atan2(0, -1) = pi, as torch, NumPy and C have them.
# Seen: -pi / 2 and -pi. ONNX has no atan2; it is written as the arc tangent of a quotient, which
#   divides by -0.0, and takes the side of y = 0 to be below.
# Who meets it: models with headings, rotations and phases along an axis; differences of equal
#   numbers with the sign turned, which are -0.0.
. "$(dirname "$0")/environment"
packages torch==2.13.0 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0 numpy==2.4.6
python -W ignore - <<'PY'
import io
import math

import onnxruntime
import torch


class Angle(torch.nn.Module):
    def forward(self, y, x):
        return torch.atan2(y, x)


y, x = torch.tensor([1.0, 0.0, 1.0]), torch.tensor([-0.0, -1.0, -1.0])
file = io.BytesIO()
torch.onnx.export(Angle(), (y, x), dynamo=True, verbose=False).save(file)
session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
names = [one.name for one in session.get_inputs()]
found = session.run(None, dict(zip(names, (y.numpy(), x.numpy()), strict=True)))[0].tolist()
want = Angle()(y, x).tolist()
print("angles of (x, y) = (-0, 1), (-1, 0), (-1, 1): by torch", want, "by the graph", found)
assert math.isclose(want[0], math.pi / 2, rel_tol=1e-6), "changed"
assert math.isclose(want[1], math.pi, rel_tol=1e-6), "changed"
assert math.isclose(found[0], -want[0], rel_tol=1e-6), "changed"
assert math.isclose(found[1], -want[1], rel_tol=1e-6), "changed"
assert math.isclose(found[2], want[2], rel_tol=1e-6), "changed"
PY
