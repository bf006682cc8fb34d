#!/usr/bin/env bash
# onnxruntime 1.32.0 on a CPU, onnx 1.23.2: the maximum of numbers of which one is NaN.
# Expected: as torch.amax and numpy.max, NaN; at least the same for the operators of one runtime.
# Seen: ReduceMax of (3, NaN, 1, 2) is 3 and ArgMax 0, as if the NaN were not there; Max of two
#   tensors keeps it, and TopK gives it as the largest.
# Who meets it: exported models (log-sum-exp, hard selections, checks) in which a NaN becomes a
#   plausible number between two operators.
. "$(dirname "$0")/environment"
packages onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
python - <<'PY'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper as h

x = np.array([[3, np.nan, 1, 2]], np.float32)


def run(operator, inputs, kind, **attributes):
    outputs = ["y", "indices"] if operator == "TopK" else ["y"]
    node = h.make_node(operator, list(inputs), outputs, **attributes)
    kinds = {"float32": T.FLOAT, "int64": T.INT64}
    given = [h.make_tensor_value_info(n, kinds[str(a.dtype)], a.shape) for n, a in inputs.items()]
    result = h.make_tensor_value_info("y", kind, [None, None])
    graph = h.make_graph([node], "g", given, [result])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(model)
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=providers)
    return session.run(None, inputs)[0]


seen = {
    "ReduceMax": run("ReduceMax", {"x": x}, T.FLOAT).item(),
    "ArgMax": run("ArgMax", {"x": x}, T.INT64, axis=1).item(),
    "Max": run("Max", {"x": x, "z": np.zeros_like(x)}, T.FLOAT)[0, 1],
    "TopK": run("TopK", {"x": x, "k": np.array([1])}, T.FLOAT).item(),
}
print("of (3, NaN, 1, 2):", seen, "numpy:", np.max(x))
assert seen["ReduceMax"] == 3 and seen["ArgMax"] == 0, "changed"
assert np.isnan(seen["Max"]) and np.isnan(seen["TopK"]), "changed"
PY
