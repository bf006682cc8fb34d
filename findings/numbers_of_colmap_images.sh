#!/usr/bin/env bash
# pycolmap 4.2.1, `extract_features` into a new database, with threads.
# Expected: images are numbered by the list of names that is given (or by their names), so that a
#   seed makes two runs equal.
# Seen: by which features are ready first: a large first image comes after small ones. Everything
#   that goes by numbers follows (pairs of matches, the first two images, the order of sums), from
#   run to run, in spite of a `random_seed`. `import_images` before numbers them by name.
# Who meets it: who compares reconstructions, bisects, or caches by image number.
. "$(dirname "$0")/environment"
packages pycolmap==4.2.1 numpy==2.4.6 pillow==12.0.0
python -W ignore - <<'PY'
from contextlib import closing
from pathlib import Path

import numpy as np
import pycolmap
from PIL import Image

pycolmap.logging.minloglevel = pycolmap.logging.ERROR.value
random = np.random.default_rng(0)
Path("images").mkdir()
names = ["a.png", "b.png", "c.png", "d.png"]
for name, size in zip(names, (2000, 200, 200, 200), strict=True):
    pixels = random.integers(0, 256, (size // 20, size // 20, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((size, size)).save(f"images/{name}")


def numbered(imported):
    database = Path(f"{imported}.db")
    pycolmap.Database.open(database).close()
    mode, reader = pycolmap.CameraMode.PER_IMAGE, pycolmap.ImageReaderOptions()
    if imported:
        pycolmap.import_images(database, "images", mode, names, reader)
    options = pycolmap.FeatureExtractionOptions()
    options.use_gpu, options.num_threads = False, 4
    pycolmap.extract_features(
        database, "images", names, mode, reader,
        extraction_options=options, device=pycolmap.Device.cpu,
    )  # fmt: skip
    with closing(pycolmap.Database.open(database)) as base:
        images = sorted(base.read_all_images(), key=lambda image: image.image_id)
        return [image.name for image in images]


seen, imported = numbered(False), numbered(True)
print("names by number:", seen, "imported before:", imported)
assert seen[-1] == "a.png", "changed"
assert imported == names, "changed"
PY
