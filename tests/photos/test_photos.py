"""Which files of a folder are photos, which a name means, and whose masks are whose."""

import json
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gendr.photos import load_views
from gendr.photos.camera_files.photos import Index, Masks, is_photo, output_names
from gendr.photos.capture.cameras import list_photos
from support.cases import for_each


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 6), 255).save(root / name)


def test_hidden_files_are_no_photos(tmp_path):
    touch(tmp_path, "a.png", "images/b.JPG", ".thumbnails/a.png", "images/.cache/b.png")
    for name in ("._a.png", "images/._b.JPG", ".DS_Store", "Thumbs.db"):
        (tmp_path / name).write_bytes(b"\0\5\x16\7")
    assert len(Index(tmp_path)) == 2
    assert sorted(p.name for p in tmp_path.iterdir() if is_photo(p)) == ["a.png"]


def test_photos_are_found_by_names_of_other_systems(tmp_path):
    composed = unicodedata.normalize("NFC", "é.png")
    touch(
        tmp_path, "images/a b.png", "images/cam0/0.png", "images/cam1/0.png", f"images/{composed}"
    )
    touch(tmp_path, "masks/a b.png", "input/late.jpg")
    index = Index(tmp_path)
    for name, photo in {
        "a b": "images/a b.png",
        "A B.PNG": "images/a b.png",
        "C:\\Users\\me\\a b.png": "images/a b.png",
        "/home/me/scan/images/a b.png": "images/a b.png",
        "images/a b.png": "images/a b.png",
        "D:/scan/cam1/0.png": "images/cam1/0.png",
        "cam0\\0": "images/cam0/0.png",
        "late": "input/late.jpg",
        unicodedata.normalize("NFD", composed): f"images/{composed}",
        "/x/none.png": "none.png",
        "": "",
    }.items():
        assert index.photo(name) == photo, name
    assert index.in_order() == ["images/a b.png", f"images/{composed}"]
    assert index.in_order("masks") == ["masks/a b.png"]
    touch(tmp_path, "images/A B.png")  # two that differ in case: only as they are spelled
    if len(list((tmp_path / "images").glob("?.png"))) != 1 or sys.platform == "linux":
        assert Index(tmp_path).photo("A B.png") == "images/A B.png"
        assert Index(tmp_path).get("images/a B.png") is None


def test_links_that_lead_in_circles(tmp_path):
    touch(tmp_path, "images/a.png")
    (tmp_path / "images/again").symlink_to(tmp_path)
    assert len(Index(tmp_path)) == 1


@for_each("photos, names", [
    (["a.jpg", "b.jpg"], ["a", "b"]),
    (["a.jpg", "a.png"], ["a.jpg", "a.png"]),
    (["a.jpg", "A.png", "b.jpg"], ["a.jpg", "A.png", "b.jpg"]),
    (["a.jpg", "a.jpg.png"], ["a.jpg", "a.jpg.png"]),
    (["x/a.jpg", "y/a.jpg"], ["x/a", "y/a"]),
    (["x/a.jpg", "y/a.jpg", "y/a.png"], ["x/a.jpg", "y/a.jpg", "y/a.png"]),
    (["x/y/a.jpg"], ["a"]),
    ([], []),
])  # fmt: skip
def test_names_of_outputs(photos, names):
    assert output_names(map(Path, photos)) == names


@for_each("photos, masks, found", [
    (["a.jpg", "b.png"], ["a.png", "b.png"], ["a.png", "b.png"]),
    (["a.jpg", "a.png"], ["a.jpg.png", "a.png.png"], ["a.jpg.png", "a.png.png"]),
    (["a.jpg", "a.png"], ["a.jpg.png", "a.png"], ["a.jpg.png", "a.png"]),
    (["a.jpg", "a.jpg.png"], ["a.jpg.png", "a.jpg.png.png"], ["a.jpg.png", "a.jpg.png.png"]),
    (["images/c/0.jpg", "images/d/0.jpg"], ["c/0.png", "d/0.png"], ["c/0.png", "d/0.png"]),
    (["images/c/0.jpg"], ["0.png", "images/c/0.png"], ["images/c/0.png"]),
    (["a.jpg"], ["A.PNG"], ["A.PNG"]),
    (["a.jpg", "b.jpg"], ["a_mask.png", "b.jpg.mask.png"], ["a_mask.png", "b.jpg.mask.png"]),
    (["a.jpg"], ["b.png", "._a.png"], None),
])  # fmt: skip
def test_masks_of_photos(tmp_path, photos, masks, found):
    """In the folder masks, and in another; what is made for photos is found again."""
    touch(tmp_path / "p", *photos)
    places = ("p/mask", None), ("p/masks", None), ("m", tmp_path / "m")
    for folder, given in ((tmp_path / place, given) for place, given in places):
        touch(folder, *masks)
        of = Masks(tmp_path / "p", given)
        if found is None:
            with pytest.raises(ValueError, match=r"no mask for .*a.jpg in .*; want a.png there"):
                of.of(tmp_path / "p" / photos[0])
            continue
        got = [of.of(tmp_path / "p" / name) for name in photos]
        assert got == [folder / name for name in found]
    if found is not None:
        paths = [tmp_path / "p" / name for name in photos]
        touch(tmp_path / "own", *(f"{name}.png" for name in output_names(paths)))
        again = [Masks(tmp_path / "p", tmp_path / "own").of(path) for path in paths]
        assert [f.relative_to(tmp_path / "own").as_posix()[:-4] for f in again] == output_names(
            paths
        )


def test_masks_beside_their_photos(tmp_path):
    """Of Metashape and OpenDroneMap, and of RealityScan; a folder of masks comes first."""
    mask = np.zeros((4, 6), np.uint8)
    mask[1:3, 2:4] = 255
    names = ["a.jpg", "b.png"]
    for name, own in zip(names, ("a_mask.png", "b.png.mask.png"), strict=True):
        Image.new("RGB", (6, 4), (250, 9, 9)).save(tmp_path / name)
        Image.fromarray(mask).save(tmp_path / own)
    assert [p.name for p in list_photos(tmp_path)] == names
    frames = [{"file_path": name, "transform_matrix": np.eye(4).tolist()} for name in names]
    (tmp_path / "transforms.json").write_text(json.dumps({"fl_x": 9, "frames": frames}))
    with pytest.warns(UserWarning, match=r"masks that lie beside .* are used: a_mask.png, \.\.\."):
        views = load_views(tmp_path)
    np.testing.assert_array_equal(views.masks, [mask / 255] * 2)
    (tmp_path / "masks").mkdir()
    for name in names:
        Image.fromarray(255 - mask).save(tmp_path / "masks" / f"{name}.png")
    np.testing.assert_array_equal(load_views(tmp_path).masks, [1 - mask / 255] * 2)


def test_a_mask_that_would_serve_two_photos(tmp_path):
    touch(tmp_path, "images/c/0.png", "images/d/0.png", "masks/0.png")
    frames = [
        {"file_path": f"images/{c}/0.png", "transform_matrix": np.eye(4).tolist()} for c in "cd"
    ]
    file = tmp_path / "transforms.json"
    file.write_text(json.dumps({"fl_x": 9, "frames": frames}))
    words = r"masks/0.png would be the mask of .*c/0.png and of .*d/0.png; name .* as in d/0.png$"
    with pytest.raises(ValueError, match=words):
        load_views(tmp_path)
    # One photo twice, or one mask that is named for both, is as somebody wants it.
    for change in ({"mask_path": "masks/0.png"}, {"file_path": "images/c/0.png"}):
        file.write_text(json.dumps({"fl_x": 9, "frames": [frames[0], {**frames[1], **change}]}))
        if "mask_path" in change:
            frames[0]["mask_path"] = change["mask_path"]
            file.write_text(json.dumps({"fl_x": 9, "frames": [{**f, **change} for f in frames]}))
        with pytest.raises(ValueError, match="every image is opaque all over"):
            load_views(tmp_path)
