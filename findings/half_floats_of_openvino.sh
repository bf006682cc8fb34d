#!/usr/bin/env bash
# openvino 2026.4.1, `openvino.save_model` of a float32 model at its defaults, and the file read again.
# Expected: the numbers of the model, which was compiled from memory right before; or a warning.
# Seen: constants become half floats (`compress_to_fp16=True`, its default): 2049 is 2048, 4095 is 4096,
#   100000 is 65504, 1e-8 is 0, without a word. Models are as small as asked, and positions, ranks, counts
#   and epsilons among their constants are others.
# Who meets it: sorts, ranks, top-k and renderers exported with their indices or guards as floats.
. "$(dirname "$0")/environment"
packages openvino==2026.4.1 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import numpy as np
import openvino
from openvino import opset13

constants = np.array([2047, 2049, 4095, 1e5, 1e-8], np.float32)
x = opset13.parameter([1, 5], np.float32)
model = openvino.Model([opset13.multiply(x, opset13.constant(constants))], [x])
core, ones = openvino.Core(), np.ones((1, 5), np.float32)
exact = {"INFERENCE_PRECISION_HINT": "f32"}
seen = {"memory": core.compile_model(model, "CPU", exact)([ones])[0][0].copy()}
openvino.save_model(model, "a.xml")
openvino.save_model(model, "b.xml", compress_to_fp16=False)
for name in ("a.xml", "b.xml"):
    seen[name] = core.compile_model(core.read_model(name), "CPU", exact)([ones])[0][0].copy()
for name, numbers in seen.items():
    print(f"{name:7}", numbers.tolist())
assert (seen["memory"] == constants).all() and (seen["b.xml"] == constants).all()
assert seen["a.xml"].tolist() == [2047, 2048, 4096, 65504, 0], "changed"
PY
