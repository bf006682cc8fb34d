#!/usr/bin/env bash
# ONNX Runtime 1.32.0, `Resize` of mode "nearest" with the attributes that it has by default.
# Expected: the pixel of one rule, at every scale: the left one, as OpenCV's INTER_NEAREST and
#   PyTorch's "nearest", or that under the centre, as Pillow's NEAREST and "nearest-exact".
# Seen: the left one at 1/2, that under the centre at 1/3: halves of the index are rounded down.
# Who meets it: masks and labels that are halved before one network and in the graph of another.
. "$(dirname "$0")/environment"
packages onnxruntime==1.32.0 onnx==1.22.0 numpy==2.4.6 pillow==12.0.0 opencv-python-headless==5.0.0.93
python - <<'PY'
import cv2
import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from PIL import Image

row = np.arange(12, dtype=np.float32)[None]


def of_onnx(times):
    image = row[None, None]
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="nearest")
    kind = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * 4) for name in "xy"]
    scales = helper.make_tensor("scales", TensorProto.FLOAT, [4], [1, 1, 1, 1 / times])
    graph = helper.make_graph([node], "g", kind[:1], kind[1:], [scales])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {"x": image})[0][0, 0, 0].tolist()


for times, same in ((2, "OpenCV"), (3, "Pillow")):
    size = (12 // times, 1)
    found = {
        "OpenCV": cv2.resize(row, size, interpolation=cv2.INTER_NEAREST)[0].tolist(),
        "Pillow": np.asarray(Image.fromarray(row).resize(size, Image.NEAREST))[0].tolist(),
        "ONNX Runtime": of_onnx(times),
    }
    print(f"1/{times} of 0 .. 11:", found)
    assert found["OpenCV"] == list(range(0, 12, times))
    assert found["Pillow"] == list(range(times // 2, 12, times))
    assert found["ONNX Runtime"] == found[same]
PY
