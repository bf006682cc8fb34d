"""GPS fixes of photos: read from EXIF, and what they say of cameras, wrong ones aside."""

import json

import numpy as np
import pytest
from PIL import Image

from gendr.cli import main
from gendr.photos.capture import cameras as module
from gendr.photos.capture.gps import place_by_gps, read_fix

HERE = (48.1372, 11.5756, 520.0)


def on_earth(metres):
    """Fixes of places east, north and up of HERE, by way of WGS 84's ellipsoid in space."""

    def space(lat, lon, high):
        phi, lam = np.radians(lat), np.radians(lon)
        n = 6378137.0 / np.sqrt(1 - 6.69437999014e-3 * np.sin(phi) ** 2)
        flat = (n + high) * np.cos(phi)
        polar = (n * (1 - 6.69437999014e-3) + high) * np.sin(phi)
        return np.array([flat * np.cos(lam), flat * np.sin(lam), polar])

    found = []
    for east, north, up in metres:
        place = np.array(HERE)
        for _ in range(5):  # Newton's, by differences of degrees
            steps = np.diag([1e-5, 1e-5, 1.0])
            phi, lam = np.radians(HERE[0]), np.radians(HERE[1])
            frame = np.array([
                [-np.sin(lam), np.cos(lam), 0],
                [-np.sin(phi) * np.cos(lam), -np.sin(phi) * np.sin(lam), np.cos(phi)],
                [np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)],
            ])  # fmt: skip
            at = frame @ (space(*place) - space(*HERE))
            slopes = [(frame @ (space(*(place + s)) - space(*HERE)) - at) / s.max() for s in steps]
            place = place + np.linalg.solve(np.stack(slopes, 1), np.array([east, north, up]) - at)
        found.append(tuple(place))
    return found


def turned(seed):
    q, r = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    q = q * np.sign(np.diag(r))
    return q * np.linalg.det(q)


@pytest.mark.parametrize("path", ["area", "line"])
def test_cameras_stand_as_gps_says(path):
    dice = np.random.default_rng(4)
    area = dice.uniform(-40, 40, (12, 3)) * [1, 1, 0.3]
    line = np.stack([np.linspace(0, 60, 12), 0.5 * np.linspace(0, 60, 12), np.zeros(12)], 1)
    true = {"area": area, "line": line}[path]
    noise = dice.normal(0, 0.4, true.shape)
    fixes = on_earth(true + noise)
    fixes[3] = on_earth(true[3:4] + np.array([0, 250.0, 0]))[0]
    fixes[7] = None
    turn, scale, shift = turned(1), 0.031, np.array([2.0, -1, 5])
    eyes = scale * true @ turn.T + shift
    # What cameras say is up is used where the path is a line, and wrong here where it is not.
    up = turn @ ([0, 0, 1.0] if path == "line" else [0.5, 0, 0.75**0.5])
    found = place_by_gps(eyes, up, fixes)
    assert found.wrong == (3,)
    assert found.used == (0, 1, 2, 4, 5, 6, 8, 9, 10, 11)
    assert found.scale == pytest.approx(1 / scale, rel=0.02)
    axes = found.turn @ turn  # from east, north, up
    want = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]])
    assert np.degrees(np.arccos((np.trace(axes @ want.T) - 1) / 2)) < 1.5
    assert 0.2 < found.error < 1.0
    centre = on_earth([true[list(found.used)].mean(0)])[0]
    assert abs(found.latitude - centre[0]) < 5e-6
    assert abs(found.longitude - centre[1]) < 5e-6
    assert found.altitude == pytest.approx(centre[2], abs=0.5)
    low = [None if f is None else (*f[:2], float("nan")) for f in fixes]
    if path == "line":
        assert place_by_gps(eyes, up, low).altitude is None


def test_fixes_that_say_nothing():
    dice = np.random.default_rng(5)
    eyes = dice.normal(0, 1, (9, 3))
    up = np.array([0, 0, 1.0])
    assert place_by_gps(eyes, up, on_earth(dice.normal(0, 5, (9, 3)))) is None  # noise alone
    assert place_by_gps(eyes, up, on_earth(np.zeros((9, 3)))) is None  # all at one place
    assert place_by_gps(eyes, up, [None] * 7 + on_earth(eyes[7:])) is None


def degrees(value):
    return (int(value), int(value % 1 * 60), value * 60 % 1 * 60)


def with_fix(path, place, shade=60):
    image = Image.new("RGB", (40, 30), (90, 120, shade))
    lat, lon, high = place
    exif = Image.Exif()
    exif[0x10F] = "a maker"
    exif.get_ifd(0x8825).update({
        1: "S" if lat < 0 else "N", 2: degrees(abs(lat)), 3: "W" if lon < 0 else "E",
        4: degrees(abs(lon)), 5: b"\x01" if high < 0 else b"\x00", 6: abs(high),
    })  # fmt: skip
    image.save(path, exif=exif)


def test_exif_is_read(tmp_path):
    for place in (HERE, (-33.8568, 151.2153, -3.0), (37.8199, -122.4783, 75.0)):
        with_fix(tmp_path / "a.jpg", place)
        with Image.open(tmp_path / "a.jpg") as image:
            assert read_fix(image) == pytest.approx(place, abs=2e-6)
    with_fix(tmp_path / "a.jpg", (0.0, 0.0, 0.0))  # what devices without a fix write
    Image.new("RGB", (9, 9)).save(tmp_path / "b.jpg")
    for name in "ab":
        with Image.open(tmp_path / f"{name}.jpg") as image:
            assert read_fix(image) is None


def test_cameras_that_are_found_are_in_metres(tmp_path, monkeypatch, capsys):
    """What structure from motion would find is given; all else runs."""
    true = np.array([[0, 0, 2.0], [8, 1, 2], [16, 4, 2.5], [24, 9, 2], [30, 16, 2.2], [34, 24, 2]])
    turn, scale = turned(2), 0.2
    images = []
    for k, (place, fix) in enumerate(zip(true, on_earth(true), strict=True)):
        with_fix(tmp_path / f"{k}.png", fix if k != 2 else (49.0, *fix[1:]), 9 * k)
        ahead = np.array([10, 25, 2.0]) - place
        ahead /= np.linalg.norm(ahead)
        right = np.cross(ahead, [0, 0, 1])
        right /= np.linalg.norm(right)
        R = np.stack([right, np.cross(ahead, right), ahead])
        images.append({"name": f"40x30/{k:05d}.png", "R": (R @ turn.T).tolist(),
                       "t": (-scale * R @ place).tolist(), "params": [50.0, 20, 15, 0],
                       "size": [40, 30]})  # fmt: skip
    result = {"images": images, "error": 0.5}
    monkeypatch.setattr(
        module, "_run", lambda work, *_: (work / "result.json").write_text(json.dumps(result))
    )
    monkeypatch.setattr(module, "find_spec", lambda name: True)
    assert main(["cameras", str(tmp_path)]) == 0
    line = capsys.readouterr().out
    assert "in metres" in line
    assert "5 photos" in line
    assert "wrong there: 2.png" in line
    written = json.loads((tmp_path / "cameras.json").read_text())
    said = written["gps"]
    assert (said["photos"], said["of"]) == (5, 6)
    eyes = np.stack([-np.array(e["R"]).T @ np.array(e["t"]) for e in written["images"]])
    gaps = eyes[1:] - eyes[:-1]
    want = (true[1:] - true[:-1]) @ np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]]).T
    np.testing.assert_allclose(gaps, want, atol=0.05)
    used = true[[0, 1, 3, 4, 5]].mean(0)
    np.testing.assert_allclose(said["at"], eyes[[0, 1, 3, 4, 5]].mean(0), atol=1e-6)
    assert on_earth([used])[0] == pytest.approx((said["latitude"], said["longitude"],
                                                 said["altitude"]), abs=1e-4)  # fmt: skip
