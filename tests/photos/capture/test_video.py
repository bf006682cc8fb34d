"""Photos from a video: the sharp frames, evenly spaced, and none twice."""

import sys

import numpy as np
import pytest
from PIL import Image

from gendr.cli import main
from gendr.photos.capture import extract_frames

cv2 = pytest.importorskip("cv2")
LENGTH, SHARP = 40, (3, 9, 11, 18, 21, 29)  # the frames that are not blurred


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """A video that moves along a pattern, blurred but in some frames, and stands still at last."""
    file = tmp_path_factory.mktemp("video") / "walk.AVI"
    wall = np.random.default_rng(0).integers(0, 255, (12, 60, 3)).astype(np.uint8)
    wall = cv2.resize(wall, (600, 120), interpolation=cv2.INTER_NEAREST)
    out = cv2.VideoWriter(str(file), cv2.VideoWriter_fourcc(*"MJPG"), 10, (160, 120))
    for k in range(LENGTH):
        place = 10 * min(k, 29)
        frame = wall[:, place : place + 160]
        out.write(frame if k in SHARP or k > 29 else cv2.GaussianBlur(frame, (0, 0), 3))
    out.release()
    return file, wall


def test_frames_are_sharp_evenly_spaced_and_upright(walk, tmp_path):
    file, wall = walk
    (tmp_path / "frame_00077.jpg").write_bytes(b"of before")
    (tmp_path / "mine.txt").write_text("stays")
    seen = []
    found = extract_frames(file, tmp_path, 8, callback=seen.append)
    # Pieces of five frames; the two last ones show what frame 29 shows.
    assert [photo.name for photo in found] == [
        f"frame_{k + 1:05d}.jpg" for k in (3, 9, 11, 18, 21, 29)
    ]
    assert sorted(p.name for p in tmp_path.iterdir()) == [*(p.name for p in found), "mine.txt"]
    assert seen == sorted(seen)
    assert seen[-1] == 1
    first = np.asarray(Image.open(found[0])).astype(int)
    assert np.abs(first - wall[:, 30:190, ::-1]).mean() < 12  # two compressions
    assert len(extract_frames(file, tmp_path, 1000)) > 25  # as many as there are, none twice


def test_pieces_are_of_equal_time(walk, tmp_path, monkeypatch):
    """As of a phone in the dark: the first ten frames take as long as the thirty others."""
    times = [k * 300.0 if k < 10 else 3000.0 + 100.0 * (k - 10) for k in range(LENGTH)]

    opened = cv2.VideoCapture

    class Timed:
        def __init__(self, path):
            self.video = opened(path)
            self.read, self.release = self.video.read, self.video.release

        def get(self, what):
            if what != cv2.CAP_PROP_POS_MSEC:
                return self.video.get(what)
            return times[int(self.video.get(cv2.CAP_PROP_POS_FRAMES)) - 1]

    def frames(count):
        return [int(p.stem[6:]) - 1 for p in extract_frames(walk[0], tmp_path, count)]

    monkeypatch.setattr(cv2, "VideoCapture", Timed)
    found = frames(4)
    assert found[:2] == [3, 9]  # of frames 0-4, 5-9, 10-24, 25-39
    assert found[2] in (11, 18, 21)
    assert found[3] == 29
    times[:] = [0.0] * LENGTH  # no times
    assert frames(8) == [3, 9, 11, 18, 21, 29]
    times[:] = [k + 1000.0 * (k >= 20) for k in range(LENGTH)]  # nothing in the middle
    assert [k >= 20 for k in frames(3)] == [False, True]


def test_a_video_that_is_cut_off_is_named(walk, tmp_path):
    content = walk[0].read_bytes()
    (tmp_path / "cut.avi").write_bytes(content[: len(content) // 2])
    with pytest.warns(UserWarning, match=r"cut.avi ends after \d+ of about 40 frames"):
        found = extract_frames(tmp_path / "cut.avi", tmp_path / "out", 4)
    assert 0 < len(found) <= 4


def test_a_video_of_high_dynamic_range_is_named(walk, tmp_path):
    """By the numbers of ITU-T H.273 in a box colr; of two boxes moov FFmpeg reads the first."""
    path = tmp_path / "walk.mp4"
    out = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"mp4v"), 10, (160, 120))
    for k in range(4):
        out.write(walk[1][:, 40 * k : 40 * k + 160])
    out.release()
    content = path.read_bytes()
    assert len(extract_frames(path, tmp_path / "out", 2)) == 2
    for kind, curve in ((b"nclx", 18), (b"nclc", 16), (b"nclx", 1)):
        color = b"\0\0\0\x13colr" + kind + bytes([0, 9, 0, curve, 0, 9, 0])
        box = (8 + len(color)).to_bytes(4, "big") + b"moov" + color
        path.write_bytes(content + box)
        if curve == 1:
            extract_frames(path, tmp_path / "out", 2)
            continue
        with pytest.warns(UserWarning, match=r"walk.mp4 is of high dynamic range \(PQ or HLG\)"):
            extract_frames(path, tmp_path / "out", 2)
    path = tmp_path / "walk.mkv"
    out = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"mp4v"), 10, (160, 120))
    out.write(np.full((120, 160, 3), 99, np.uint8))
    out.release()
    assert extract_frames(path, tmp_path / "out", 1)
    path.write_bytes(path.read_bytes() + b"\x55\xba\x81\x12")
    with pytest.warns(UserWarning, match=r"walk.mkv is of high dynamic range"):
        extract_frames(path, tmp_path / "out", 1)


def test_a_video_of_one_picture_is_refused(walk, tmp_path, monkeypatch):
    """As OpenCV 5.0 gives the frames of interlaced video."""
    opened = cv2.VideoCapture

    class Black:
        def __init__(self, path):
            self.video = opened(path)
            self.get, self.release = self.video.get, self.video.release

        def read(self):
            there, frame = self.video.read()
            return there, frame if frame is None else 0 * frame

    monkeypatch.setattr(cv2, "VideoCapture", Black)
    with pytest.raises(ValueError, match=r"all 40 frames of .*walk.AVI are one picture, as OpenCV"):
        extract_frames(walk[0], tmp_path, 4)


def test_colours_of_hd_by_opencv_4_are_named(tmp_path, monkeypatch):
    path = tmp_path / "hd.avi"
    out = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 10, (1280, 720))
    out.write(np.full((720, 1280, 3), 99, np.uint8))
    out.release()
    monkeypatch.setattr(cv2, "__version__", "5.0.0")
    assert extract_frames(path, tmp_path / "out", 1)
    monkeypatch.setattr(cv2, "__version__", "4.12.0")
    with pytest.warns(UserWarning, match=r"OpenCV 4.12.0 takes the colours of HD video"):
        extract_frames(path, tmp_path / "out", 1)


def test_pixels_become_square(walk, tmp_path):
    """By aspect_ratio_info (ISO/IEC 14496-2, 6.3.3) of a video of camcorders: 16 : 11."""
    path = tmp_path / "walk.mp4"
    out = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"mp4v"), 10, (160, 120))
    out.write(walk[1][:, :160])
    out.release()
    content = bytearray(path.read_bytes())
    at = content.index(b"\0\0\1\x20") + 4  # bits: one, eight of a type, one for seven more
    place = 64 - (21 if content[at + 1] & 0x40 else 14)
    bits = int.from_bytes(content[at : at + 8], "big")
    assert bits >> place & 15 == 1
    content[at : at + 8] = (bits + (3 << place)).to_bytes(8, "big")
    path.write_bytes(content)
    (photo,) = extract_frames(path, tmp_path / "out", 1)
    seen = np.asarray(Image.open(photo)).astype(int)
    assert seen.shape == (120, round(160 * 16 / 11), 3)
    wanted = cv2.resize(walk[1][:, :160], seen.shape[1::-1])[..., ::-1]
    assert np.abs(seen - wanted).mean() < 12


@pytest.mark.rotating(5, group="photos")
def test_what_is_no_video_is_said(walk, tmp_path, monkeypatch, capsys):
    (tmp_path / "a.mp4").write_bytes(b"no video at all")
    for command in ("fit", "splat"):
        assert main([command, str(tmp_path / "a.mp4"), "-o", str(tmp_path / "out")]) == 2
        assert "cannot be read as a video" in capsys.readouterr().err
        assert main([command, str(tmp_path / "b.mp4"), "-o", str(tmp_path / "out")]) == 2
        assert "no such file" in capsys.readouterr().err
        assert main([command, str(tmp_path), "--frames", "9", "-o", str(tmp_path / "out")]) == 2
        assert "--frames has no effect, as" in capsys.readouterr().err
    for command in ("cameras", "masks"):
        assert main([command, str(walk[0])]) == 2
        assert "is a video" in capsys.readouterr().err
    with pytest.raises(ValueError, match="count must be >= 1"):
        extract_frames(walk[0], tmp_path, 0)
    monkeypatch.setitem(sys.modules, "cv2", None)
    assert main(["fit", str(walk[0]), "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "pip install opencv-python-headless" in said
    assert said.count("\n") == 1
