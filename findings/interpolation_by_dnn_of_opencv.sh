#!/usr/bin/env bash
# OpenCV 5.0.0, `cv2.dnn.readNetFromONNX` of ONNX graphs with GridSample and Resize (opset 20).
# Expected: what the standard says, as ONNX Runtime 1.32.0 gives it; or a word that a mode is not known.
# Seen: three modes are others, without a word. GridSample with mode "cubic" is linear. Resize with antialias=1
#   is not filtered. Resize with scales whose product with the size is no integer, 8 x 0.6, takes the ratio of
#   the sizes, 4 / 8, as its step. Other modes of GridSample are right, as is Resize by scales that fit.
# Who meets it: textures and warps that were exported from torch (`grid_sample`, `interpolate`) for a program
#   that has OpenCV alone.
. "$(dirname "$0")/environment"
packages opencv-python-headless==5.0.0.93 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
python -W error::UserWarning - <<'PY'
import cv2
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

def off(node, shape, scales=None, **given):
    """How far OpenCV is from ONNX Runtime."""
    inputs = [helper.make_tensor_value_info(k, TensorProto.FLOAT, v.shape) for k, v in given.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    constants = [helper.make_tensor("s", TensorProto.FLOAT, [4], scales)] if scales else []
    graph = helper.make_graph([node], "g", inputs, [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    file = model.SerializeToString()
    want = onnxruntime.InferenceSession(file).run(["y"], given)[0]
    network = cv2.dnn.readNetFromONNX(np.frombuffer(file, np.uint8))
    for name, value in given.items():
        network.setInput(value, name)
    return abs(network.forward().reshape(want.shape) - want).max()

random = np.random.default_rng(0)
image = random.random((1, 1, 8, 10), dtype=np.float32)
places = random.uniform(-1, 1, (1, 4, 5, 2)).astype(np.float32)
for mode in ("linear", "nearest", "cubic"):
    node = helper.make_node("GridSample", ["x", "g"], ["y"], mode=mode)
    found = off(node, (1, 1, 4, 5), x=image, g=places)
    print(f"GridSample, {mode}: {found:.1e} off")
    assert found > 0.05 if mode == "cubic" else found < 1e-5, "changed"

for scale, antialias in ((0.5, 0), (0.5, 1), (0.6, 0), (2.0, 0)):
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear", antialias=antialias)
    shape = 1, 1, int(8 * scale), int(10 * scale)
    found = off(node, shape, [1, 1, scale, scale], x=image)
    print(f"Resize by {scale}, antialias={antialias}: {found:.1e} off")
    assert found > 0.05 if antialias or scale == 0.6 else found < 1e-5, "changed"
PY
