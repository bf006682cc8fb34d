#!/usr/bin/env bash
# pyproj 3.7.2 (PROJ 9.5.1), heights of GPS, above the ellipsoid, to heights above the sea (EGM96), with
# the package as it comes, which has no grids and does not fetch any.
# Expected: the sea is 43 to 49 m above the ellipsoid in Germany: an error, infinite numbers or a warning;
#   with `only_best=True` an error by its page ("cause PROJ to error out if the best transformation … cannot
#   be used").
# Seen: the height comes back as it was, without a word, with `only_best=True` and `errcheck=True` as well;
#   `description` alone says "ballpark". `allow_ballpark=False` raises.
# Who meets it: who sets photos of drones, whose EXIF has either kind of height, beside a map or a scan.
. "$(dirname "$0")/environment"
packages pyproj==3.7.2
python -W error - <<'PY'
from pyproj import Transformer, proj_version_str
from pyproj.exceptions import ProjError

seen = set()
for target in ("EPSG:4326+5773", "EPSG:9518"):  # EGM96, EGM2008
    for best in (False, True):
        transformer = Transformer.from_crs("EPSG:4979", target, always_xy=True, only_best=best)
        height = transformer.transform(11.0, 48.0, 600.0, errcheck=True)[2]
        seen.add(height)
        print(f"PROJ {proj_version_str}, {target}, only_best={best}: 600 m above the ellipsoid are {height} m above the sea")
        assert "ballpark" in transformer.description
assert seen == {600.0}, "changed"
try:
    Transformer.from_crs("EPSG:4979", "EPSG:4326+5773", always_xy=True, allow_ballpark=False).transform(11.0, 48.0, 600.0, errcheck=True)
    raise AssertionError("changed")
except ProjError as error:
    print("allow_ballpark=False:", error)
PY
