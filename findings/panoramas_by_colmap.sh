#!/usr/bin/env bash
# pycolmap 4.2.1, `undistort_images` of a model whose camera is EQUIRECTANGULAR, new in COLMAP 4.
# Expected: photos of pinhole cameras, which the function is for, or an error.
# Seen: neither: the camera stays EQUIRECTANGULAR, the photo keeps its size. Other new models, EUCM
#   say, become pinholes.
# Who meets it: readers of COLMAP's models that take what was undistorted for pinholes.
. "$(dirname "$0")/environment"
packages pycolmap==4.2.1 numpy==2.4.6 pillow==12.0.0
python - <<'PY'
from PIL import Image

Image.linear_gradient("L").convert("RGB").resize((64, 32)).save("a.png")
PY
python - <<'PY' 2> log.txt || { cat log.txt; exit 1; }
import pycolmap

found = {}
for name, numbers in {"EUCM": [50, 50, 32, 16, 0.5, 1], "EQUIRECTANGULAR": [64, 32]}.items():
    model = pycolmap.Reconstruction()
    model.add_camera_with_trivial_rig(
        pycolmap.Camera(model=name, width=64, height=32, params=numbers, camera_id=1)
    )
    image = pycolmap.Image(name="a.png", camera_id=1, image_id=1)
    model.add_image_with_trivial_frame(image, pycolmap.Rigid3d())
    model.write(".")
    pycolmap.undistort_images(name, ".", ".")
    found[name] = pycolmap.Reconstruction(f"{name}/sparse").cameras[1].model.name
print("after undistort_images:", found)
assert found == {"EUCM": "PINHOLE", "EQUIRECTANGULAR": "EQUIRECTANGULAR"}
PY
