"""Models of COLMAP, text and binary, and OpenCV's matrices, written here by their documentation."""

import json
import struct
from itertools import product

import numpy as np
import pytest
import torch
from PIL import Image

from gendr.photos import load_views, view_sizes, visual_sphere
from support.cases import for_each

HEIGHT, WIDTH = 12, 20
FX, FY, CX, CY = 30.0, 33.0, 11.5, 4.25  # the principal point is not in the middle
COUNT = 3


def poses():
    """World to camera, x right, y down, z ahead: quaternions (w, x, y, z), rotations and shifts."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(COUNT):
        q = rng.normal(size=4)
        w, x, y, z = q / np.linalg.norm(q)
        # By the product q p q*, a column for each axis.
        columns = []
        for p in np.eye(3):
            v = np.array([x, y, z])
            t = 2 * np.cross(v, p)
            columns.append(p + w * t + np.cross(v, t))
        found.append((q, np.stack(columns, 1), rng.normal(size=3) + np.array([0, 0, 5])))
    return found


def save_images(root, folder="images", alpha=True):
    for i in range(COUNT):
        rgba = np.zeros((HEIGHT, WIDTH, 4), np.uint8)
        rgba[2:9, 3:12] = (200, 100, 50 * i, 255)
        (root / folder).mkdir(parents=True, exist_ok=True)
        Image.fromarray(rgba if alpha else rgba[..., :3]).save(root / folder / f"view {i}.png")
    return root


MODELS = {
    "SIMPLE_PINHOLE": (0, [FX, CX, CY]),
    "PINHOLE": (1, [FX, FY, CX, CY]),
    "SIMPLE_RADIAL": (2, [FX, CX, CY, 0.0]),
    "RADIAL": (3, [FX, CX, CY, 0.0, 0.0]),
    "OPENCV": (4, [FX, FY, CX, CY, 0.0, 0.0, 0.0, 0.0]),
    "FULL_OPENCV": (6, [FX, FY, CX, CY, *[0.0] * 8]),
}
UNKNOWN = {
    "THIN_PRISM_FISHEYE": (10, [FX, FY, CX, CY, *[0.0] * 8]),
    "RAD_TAN_THIN_PRISM_FISHEYE": (11, [FX, FY, CX, CY, *[0.0] * 12]),
    "SIMPLE_DIVISION": (12, [FX, CX, CY, 0.1]),
    "DIVISION": (13, [FX, FY, CX, CY, 0.1]),
    "EUCM": (16, [FX, FY, CX, CY, 0.5, 1.0]),
    "EQUIRECTANGULAR": (17, [WIDTH, HEIGHT]),
}


def write_text(root, model, numbers, width=WIDTH, height=HEIGHT):
    root.mkdir(parents=True, exist_ok=True)
    numbers = " ".join(map(str, numbers))
    (root / "cameras.txt").write_text(
        "# Camera list with one line of data per camera:\n"
        "#   CAMERA_ID, MODEL, WIDTH, HEIGHT, PARAMS[]\n"
        f"7 {model} {width} {height} {numbers}\n"
    )
    lines = ["# Image list with two lines of data per image:"]
    for i, (q, _, t) in reversed(list(enumerate(poses()))):
        lines.append(f"{i + 1} {' '.join(map(repr, map(float, [*q, *t])))} 7 view {i}.png")
        lines.append("" if i == 1 else "3.5 2.5 -1 1 2 3")  # its points: none, or two
    (root / "images.txt").write_text("\n".join(lines) + "\n")


def write_binary(root, model, numbers, width=WIDTH, height=HEIGHT):
    root.mkdir(parents=True, exist_ok=True)
    lens = struct.pack("<QiiQQ", 1, 7, model, width, height)
    lens += struct.pack(f"<{len(numbers)}d", *numbers)
    (root / "cameras.bin").write_bytes(lens)
    data = struct.pack("<Q", COUNT)
    for i, (q, _, t) in reversed(list(enumerate(poses()))):
        data += struct.pack("<i4d3di", i + 1, *q, *t, 7) + f"view {i}.png".encode() + b"\0"
        data += struct.pack("<Q", i)
        data += struct.pack("<ddq", 1.5, 2.5, -1) * i
    (root / "images.bin").write_bytes(data)


def write_opencv(root, **change):
    images = []
    for i, (_, r, t) in enumerate(poses()):
        entry = {"file": f"images/view {i}.png"}
        if i == 1:
            entry["world_to_camera"] = np.vstack([np.c_[r, t], [0, 0, 0, 1]]).tolist()
        else:
            entry |= {"R": r.tolist(), "t": t.tolist()}
        images.append(entry)
    k = [[FX, 0, CX], [0, FY, CY], [0, 0, 1]]
    meta = {"width": WIDTH, "height": HEIGHT, "K": k, "images": images, **change}
    (root / "cameras.json").write_text(json.dumps(meta))


def check_cameras(views, fy=FY, shift=0.0):
    """Points land where the documentation of COLMAP and OpenCV says."""
    assert [name.split("/")[-1] for name in views.names] == [f"view {i}.png" for i in range(COUNT)]
    rng = np.random.default_rng(1)
    for i, (_, r, t) in enumerate(poses()):
        seen = rng.normal(size=(9, 3)) + np.array([0, 0, 6])  # before the camera
        points = (seen - t) @ r  # r^T (seen - t), in the world
        u, v = FX * seen[:, 0] / seen[:, 2] + CX, fy * seen[:, 1] / seen[:, 2] + CY
        xy, depth = views.camera[i].project(torch.from_numpy(points))
        side = min(HEIGHT, WIDTH)
        wanted = np.stack([(2 * (u + shift) - WIDTH) / side, (HEIGHT - 2 * (v + shift)) / side], 1)
        np.testing.assert_allclose(xy[0].numpy(), wanted, atol=1e-9)
        np.testing.assert_allclose(depth[0].numpy(), seen[:, 2], atol=1e-9)
        # The images are those of the names.
        assert float(views.rgb[i, 2].max()) == pytest.approx(50 * i / 255)


def load(root, **options):
    return load_views(root, dtype=torch.float64, **options)


@for_each(kind=["text", "binary"], place=["sparse/0", "sparse", "colmap/sparse/0", "."])
def test_models_of_colmap(tmp_path, kind, place):
    save_images(tmp_path)
    number, numbers = MODELS["PINHOLE"]
    if kind == "text":
        write_text(tmp_path / place, "PINHOLE", numbers)
    else:
        write_binary(tmp_path / place, number, numbers)
    check_cameras(load(tmp_path))
    assert view_sizes(tmp_path) == [(HEIGHT, WIDTH)] * COUNT
    (tmp_path / "images").rename(tmp_path / "rgb")
    check_cameras(load(tmp_path))


@for_each(model=MODELS)
def test_lens_models_of_colmap(tmp_path, model):
    number, numbers = MODELS[model]
    fy = FY if "PINHOLE" == model or "OPENCV" in model else FX
    save_images(tmp_path / "a")
    write_text(tmp_path / "a" / "sparse/0", model, numbers)
    check_cameras(load(tmp_path / "a"), fy)
    save_images(tmp_path / "b", folder=".")  # without a folder images
    write_binary(tmp_path / "b" / "sparse/0", number, numbers)
    check_cameras(load(tmp_path / "b"), fy)


def test_lines_of_images_are_told_apart_by_what_they_hold(tmp_path):
    """With any mix of empty, missing and filled second lines, as scripts of others write them."""
    root, heads, file = tmp_path, [""], tmp_path
    points = ("", None, "3.5 2.5 -1 1 2 3", "10 20 4 11 21 5 12 22 -1 13 23 -1")
    for number, chosen in enumerate(product(points, repeat=COUNT)):
        root = tmp_path / str(number % 8)
        if number < 8:
            save_images(root)
            write_text(root / "sparse/0", "PINHOLE", MODELS["PINHOLE"][1])
        file = root / "sparse/0/images.txt"
        heads = [line for line in file.read_text("utf-8-sig").split("\n") if ".png" in line]
        lines = zip(heads, chosen, strict=True)
        text = "\n".join(part for pair in lines for part in pair if part is not None)
        file.write_bytes(b"\xef\xbb\xbf" * (number % 2) + text.replace("\n", "\r\n").encode())
        assert len(view_sizes(root)) == COUNT, chosen
    check_cameras(load(root))
    file.write_text("\n".join([heads[0], points[2], points[2], *heads[1:]]))
    with pytest.raises(ValueError, match="want IMAGE_ID QW"):  # points of no image
        load(root)


@for_each(write=[write_text, write_binary])
def test_of_several_models_the_largest(tmp_path, write):
    number, numbers = MODELS["PINHOLE"]
    model = "PINHOLE" if write is write_text else number
    save_images(tmp_path)
    for place, count in (("sparse/0", 1), ("sparse/1", COUNT), ("sparse/2", 2)):
        write(tmp_path / place, model, numbers)
        if write is write_text:
            file = tmp_path / place / "images.txt"
            lines = file.read_text().split("\n")
            file.write_text("\n".join(lines[: 1 + 2 * count]) + "\n")
        else:
            packed(tmp_path / place / "images.bin", 0, "<Q", count)
    with pytest.warns(
        UserWarning, match=r"3 models of COLMAP: sparse/0 \(1 photos\).*sparse/1 is "
    ):
        check_cameras(load(tmp_path))
    (tmp_path / "sparse").rename(tmp_path / "elsewhere")
    check_cameras(load(tmp_path, cameras=tmp_path / "elsewhere/1"))
    (tmp_path / "distorted/sparse").mkdir(parents=True)
    (tmp_path / "elsewhere/1").rename(tmp_path / "distorted/sparse/0")
    check_cameras(load(tmp_path))
    (tmp_path / "images").rename(tmp_path / "input")  # as 3DGS's convert.py has it
    (tmp_path / "images").mkdir()
    check_cameras(load(tmp_path))


def test_lenses_of_unknown_kinds(tmp_path):
    for model, (number, numbers) in UNKNOWN.items():
        root = save_images(tmp_path / model)
        write_text(root / "sparse", model, numbers)
        advice = "they look all around, .* cut" if model == "EQUIRECTANGULAR" else "undistort"
        for _ in ("text", "binary"):
            with pytest.raises(ValueError, match=f"kind {model} are not supported; {advice}"):
                load(root)
            write_binary(root / "sparse", number, numbers)


def test_opencv_matrices(tmp_path):
    save_images(tmp_path)
    write_opencv(tmp_path)
    check_cameras(load(tmp_path))
    check_cameras(load(tmp_path / "cameras.json"))
    for count in (5, 8, 14):
        write_opencv(tmp_path, dist=[0.0] * count)
        check_cameras(load(tmp_path))
    write_opencv(tmp_path, pixel_centre=0)
    check_cameras(load(tmp_path), shift=0.5)
    write_opencv(tmp_path, width=None, height=None)
    check_cameras(load(tmp_path))
    (tmp_path / "m").mkdir()
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[3, 4] = 255
    for i in range(COUNT):
        Image.fromarray(mask).save(tmp_path / "m" / f"{i}.png")
    meta = json.loads((tmp_path / "cameras.json").read_text())
    for i, image in enumerate(meta["images"]):
        image["mask"] = f"m/{i}.png"
    (tmp_path / "other.json").write_text(json.dumps(meta))
    assert load(tmp_path / "other.json").masks.sum() == COUNT


def projections(skew=0.0, mirrored=False):
    """P = K [R | t] of the poses, each with a factor and a sign of its own; in another world."""
    k = np.array([[FX, skew, CX], [0, FY, CY], [0, 0, 1]])
    world = np.diag([1, 1, -1, 1] if mirrored else [1, 1, 1, 1])
    factors = (2.5, -0.01, 1e4)
    return [f * k @ np.c_[r, t] @ world for f, (_, r, t) in zip(factors, poses(), strict=True)]


def write_projections(root, **options):
    images = [
        {"file": f"images/view {i}.png", "P": p.tolist()}
        for i, p in enumerate(projections(**options))
    ]
    (root / "cameras.json").write_text(json.dumps({"images": images}))


def test_projection_matrices(tmp_path):
    save_images(tmp_path)
    write_projections(tmp_path)
    check_cameras(load(tmp_path))
    write_projections(tmp_path, skew=1e-3)  # less than a quarter of a pixel
    assert len(load(tmp_path)) == COUNT
    write_projections(tmp_path, skew=4.0)  # which is undone
    assert load(tmp_path).image_size == (HEIGHT, WIDTH - 2)
    write_projections(tmp_path, mirrored=True)
    views = load(tmp_path)
    with pytest.raises(ValueError, match=r"behind the cameras.*negate the third column of each"):
        visual_sphere(views.camera, views.masks)
    for image, words in (
        ({"P": np.eye(4)[:3, :3].tolist()}, "P must be 3 x 4"),
        ({"P": np.diag([1, 1, 0, 1])[:3].tolist()}, "P is no perspective camera"),
        ({"R": np.eye(3).tolist()}, "P says all that K, R, t and world_to_camera say"),
        (
            {"P": None, "world_to_camera": projections()[1].tolist()},
            "give a projection matrix as P",
        ),
    ):
        write_projections(tmp_path)
        edit_opencv(tmp_path, image=image)
        if "world_to_camera" in image:
            edit_opencv(tmp_path, K=[[FX, 0, CX], [0, FY, CY], [0, 0, 1]])
        with pytest.raises(ValueError, match=words):
            load(tmp_path)


def save_matrices(root, kind):
    """Projection matrices in a file beside the images, or a file for each."""
    matrices = np.array(projections(mirrored=kind == "npy"))
    names = [f"view {i}.png" for i in range(COUNT)]
    if kind == "npy":
        np.save(root / "projections.npy", matrices)
    elif kind == "txt":
        np.savetxt(root / "projections.txt", matrices.reshape(-1, 4))
    elif kind == "pmvs":
        for name, matrix in zip(names, matrices, strict=True):
            np.savetxt(root / name.replace("png", "txt"), matrix, header="CONTOUR", comments="")
    else:
        k = np.array([[FX, 0, CX], [0, FY, CY], [0, 0, 1]])
        rows = [
            " ".join([name, *(str(x) for part in (k, r, t) for x in np.ravel(part))])
            for name, (_, r, t) in zip(names, poses(), strict=True)
        ]
        # In whichever order.
        (root / "scene_par.txt").write_text("\n".join([str(COUNT), *rows[::-1]]) + "\n")


@for_each(kind=["npy", "txt", "pmvs", "par"])
def test_files_of_projection_matrices(tmp_path, kind):
    save_images(tmp_path)
    for path in (tmp_path / "images").iterdir():
        path.rename(tmp_path / path.name)
    save_matrices(tmp_path, kind)
    (tmp_path / "._scene_par.txt").write_text("Mac OS X")
    views = load(tmp_path)
    if kind == "par":
        views = views[::-1]
    if kind == "npy":  # turned around, by its third axis
        assert float((views.camera.ahead * -views.camera.eye).sum(-1).min()) > 0
    else:
        check_cameras(views)


def test_par_files_of_more_photos_than_there_are(tmp_path):
    save_images(tmp_path, folder=".")
    save_matrices(tmp_path, "par")
    whole = load(tmp_path)
    (tmp_path / "view 1.png").unlink()
    words = (
        r"scene_par.txt names 1 of 3 photos that are not in .*, and which are left out: view 1.png$"
    )
    with pytest.warns(UserWarning, match=words):
        views = load(tmp_path)
    assert views.names == ("view 2.png", "view 0.png")
    assert torch.equal(views.camera.eye, whole.camera.eye[[0, 2]])
    (tmp_path / "b_par.txt").write_text("0\n")
    with pytest.raises(ValueError, match=r"holds 2 files of cameras, b_par.txt and scene_par.txt"):
        load(tmp_path)
    with pytest.warns(UserWarning, match=words):
        assert len(load(tmp_path, cameras=tmp_path / "scene_par.txt")) == 2


@for_each("text, words", [
    ("2\nview.png 1 2 3\n", "it announces 2 images and has 1"),
    ("1\nview.png a b\n", "a line must be a name and 21 numbers"),
    (f"1\nview.png {'a ' * 21}\n", "could not convert"),
    ("", "invalid literal"),
])  # fmt: skip
def test_damaged_files_of_projection_matrices(tmp_path, text, words):
    Image.new("L", (8, 8), 255).save(tmp_path / "view.png")
    (tmp_path / "a_par.txt").write_text(text)
    with pytest.raises(ValueError, match=f"holds no 3 x 4 projection matrices: {words}"):
        load(tmp_path)
    (tmp_path / "a_par.txt").unlink()
    np.save(tmp_path / "projections.npy", np.zeros((2, 3, 4)))
    with pytest.raises(ValueError, match="2 matrices for the images in its folder, of which there"):
        load(tmp_path)


def edit_opencv(root, image=None, **change):
    meta = json.loads((root / "cameras.json").read_text())
    meta["images"][1] |= image or {}
    meta |= change
    (root / "cameras.json").write_text(json.dumps(meta))


def opencv(image=None, **change):
    return lambda root: edit_opencv(root, image, **change)


BAD_OPENCV = {
    "no K; give the 3 x 3": opencv(K=None, image={"K": None}),
    r"K must be 3 x 3, got shape \[2, 2\]": opencv(K=[[1, 0], [0, 1]]),
    "so much that less than half .* skew = 20": opencv(K=[[1, 20, 3], [0, 1, 3], [0, 0, 1]]),
    "camera_model must be one of PINHOLE, OPENCV, .*FOV, got BROWN": opencv(camera_model="brown"),
    "K must hold numbers": opencv(K="no"),
    "K holds NaN": opencv(K=[[1, 0, float("nan")], [0, 1, 3], [0, 0, 1]]),
    r"image 1 .*no pose; give R and t": opencv({"world_to_camera": None}),
    "world_to_camera is a mirror": opencv({"world_to_camera": np.diag([1, 1, -1, 1.0]).tolist()}),
    "last row of world_to_camera": opencv(
        {"world_to_camera": (np.eye(4) + np.eye(4)[::-1]).tolist()}
    ),
    "image 1 has no file": opencv({"file": None}),
    "has no images": opencv(images=[]),
    "pixel_centre must be 0 or 0.5, got 1": opencv(pixel_centre=1),
    r"so much .* p1 = 4$": opencv(dist=[0, 0, 4.0]),
    "dist must be at most 14": opencv(dist=[0.0] * 15),
    r"lens distortion \(tx\)": opencv(dist=[*[0.0] * 12, 0.3]),
    "distCoeffs": opencv({"distCoeffs": [[0.3, 0, 0, 0]]}),
    r"lens distortion \(D\) is not supported": opencv({"D": [0.3, 0, 0, 0]}),
    r"lens distortion \(omega\) is not supported": opencv({"omega": 0.3}),
    "pixel_center is not read; write pixel_centre": opencv(pixel_center=0),
    "is outside of the folder": opencv({"file": "../view 1.png"}),
    "w must be a finite number": opencv(width="wide"),
}


def replaced(name, old, new):
    def change(root):
        text = (root / name).read_text()
        assert old in text
        (root / name).write_text(text.replace(old, new))

    return change


def cut(file, count):
    file.write_bytes(file.read_bytes()[:count])


def packed(file, place, form, value):
    data = bytearray(file.read_bytes())
    struct.pack_into(form, data, place, value)
    file.write_bytes(bytes(data))


BAD_TEXT = {
    "needs cameras.txt beside it": lambda r: (r / "cameras.txt").unlink(),
    "holds no images": lambda r: (r / "images.txt").write_text("# none\n"),
    "camera 7, which is not in cameras.txt": replaced("cameras.txt", "7 PINHOLE", "8 PINHOLE"),
    "want CAMERA_ID MODEL WIDTH HEI": replaced("cameras.txt", "7 PINHOLE", "seven PINHOLE"),
    "want IMAGE_ID QW": replaced("images.txt", " 7 view 2.png", ""),
    "PINHOLE has 4 parameters, got 3": replaced("cameras.txt", f" {CY}", ""),
    "unknown lens model 'PINHOL'": replaced("cameras.txt", "PINHOLE", "PINHOL"),
    "is outside of the folder": replaced("images.txt", "view 0.png", "../../view 0.png"),
    "/etc/passwd is outside": replaced("images.txt", "view 0.png", "../../../../../etc/passwd"),
    "want IMAGE_ID QW QX QY": lambda r: (r / "images.txt").write_bytes(b"\xff\xfe\x00"),
    "says w x h = 20 x 30": replaced("cameras.txt", "20 12", "20 30"),
}
BAD_BINARY = {
    "needs cameras.bin beside it": lambda r: (r / "cameras.bin").unlink(),
    "images.bin is damaged: it ends after 100 bytes": lambda r: cut(r / "images.bin", 100),
    "images.bin is damaged: it ends after 75 bytes": lambda r: cut(r / "images.bin", 75),
    "cameras.bin is damaged: it ends after 40 bytes": lambda r: cut(r / "cameras.bin", 40),
    "images.bin is damaged": lambda r: packed(r / "images.bin", 0, "<Q", 1 << 60),
    "has the unknown lens model 99": lambda r: packed(r / "cameras.bin", 12, "<i", 99),
    "has no pose": lambda r: packed(r / "images.bin", 12, "<d", float("nan")),
    "holds no images": lambda r: packed(r / "images.bin", 0, "<Q", 0),
}


def test_bad_files_of_cameras_are_named_in_one_line(tmp_path):
    pinhole = MODELS["PINHOLE"]
    for place, write, cases in (
        (".", write_opencv, BAD_OPENCV),
        ("sparse/0", lambda root: write_text(root, "PINHOLE", pinhole[1]), BAD_TEXT),
        ("sparse/0", lambda root: write_binary(root, *pinhole), BAD_BINARY),
    ):
        for number, (words, harm) in enumerate(cases.items()):
            root = save_images(tmp_path / f"{write.__name__} {len(cases)} {number}")
            write(root / place)
            assert len(load(root)) == COUNT
            harm(root / place)
            with pytest.raises(ValueError, match=words) as caught:
                load(root)
            assert "\n" not in str(caught.value)


# -- what lies outside, and backgrounds ------------------------------------------------------------


def test_nothing_outside_of_the_folder_is_read(tmp_path):
    outside = save_images(tmp_path / "outside")
    root = save_images(tmp_path / "photos")
    write_opencv(root)
    for name in ("../outside/images/view 1.png", str(outside / "images" / "view 1.png")):
        edit_opencv(root, image={"file": name})
        with pytest.raises(ValueError, match="is outside of the folder"):
            load(root)
        edit_opencv(root, image={"file": "images/view 1.png", "mask": name})
        with pytest.raises(ValueError, match="is outside of the folder"):
            load(root)
    # Names that leave it on the way but end inside, and absolute ones, are names of its files.
    for name in ("../photos/images/view 1.png", str(root / "images" / "view 1.png")):
        edit_opencv(root, image={"file": name, "mask": None})
        assert len(load(root)) == COUNT
    # A folder masks beside the folder of the images is none of its own.
    (tmp_path / "masks").mkdir()
    flat = save_images(tmp_path / "flat", folder=".")
    write_text(flat / "sparse/0", "PINHOLE", MODELS["PINHOLE"][1])
    assert len(load(flat)) == COUNT


def test_no_link_leads_out_of_the_folder(tmp_path):
    """Neither that of an image, a mask or a folder of them, nor that of a file of cameras."""
    outside, matrices, model = (tmp_path / name for name in ("outside", "matrices", "model"))
    for root in (outside, matrices, model):
        save_images(root)
        save_images(root, folder="masks")
        if root != model:
            write_opencv(root)
        if root != matrices:
            write_text(root / "sparse" / "0", "PINHOLE", MODELS["PINHOLE"][1])
    kept = tmp_path / "kept"
    for root, part in (
        *(
            (matrices, part)
            for part in ("images/view 1.png", "images", "masks/view 1.png", "masks")
        ),
        (matrices, "cameras.json"),
        *((model, f"sparse{part}") for part in ("/0/cameras.txt", "/0/images.txt", "/0", "")),
    ):
        assert len(load(root)) == COUNT
        (root / part).rename(kept)
        (root / part).symlink_to(outside / part)
        with pytest.raises(ValueError, match=r"is a link out of the folder .*; copy") as caught:
            load(root)
        assert "\n" not in str(caught.value)
        (root / part).unlink()
        kept.rename(root / part)
    # The folder itself may be reached by a link, and links may stay inside.
    (matrices / "more").symlink_to("images")
    edit_opencv(matrices, image={"file": "more/view 1.png"})
    (tmp_path / "link").symlink_to(matrices)
    assert len(load(tmp_path / "link")) == COUNT


def test_plain_backgrounds(tmp_path):
    rng = np.random.default_rng(2)
    wanted = np.zeros((COUNT, HEIGHT, WIDTH), bool)
    (tmp_path / "images").mkdir()
    colors = []
    for i in range(COUNT):
        rgb = np.array([240, 248, 255]) + rng.integers(-20, 21, (HEIGHT, WIDTH, 3))
        wanted[i, 2:9, 3 + i : 12] = True
        rgb[wanted[i]] = (200, 240, 250)  # off by 40 in one channel only
        rgb = rgb.clip(0, 255).astype(np.uint8)
        colors.append(rgb * wanted[i][..., None])
        Image.fromarray(rgb).save(tmp_path / "images" / f"view {i}.png")
    write_opencv(tmp_path)
    with pytest.raises(ValueError, match=r"no mask: .* or the colour of a plain background"):
        load(tmp_path)
    background = "#f0f8ff"
    views = load(tmp_path, background=background)
    assert torch.equal(views.masks, torch.from_numpy(wanted).double())
    for same in ("aliceblue", (240 / 255, 248 / 255, 1.0)):
        assert torch.equal(load(tmp_path, background=same).masks, views.masks)
    rgb = torch.from_numpy(np.stack(colors)).permute(0, 3, 1, 2) / 255.0
    torch.testing.assert_close(views.rgb, rgb.double(), rtol=0, atol=1e-6)
    half = load(tmp_path, background=background, size=(HEIGHT // 2, WIDTH // 2))
    pooled = torch.nn.functional.avg_pool2d(views.masks, 2)
    torch.testing.assert_close(half.masks, pooled)
    with pytest.raises(ValueError, match=r"no pixel is within 0.1 of the background #000000"):
        load(tmp_path, background="black")
    with pytest.raises(ValueError, match=r"all 3 masks are empty .* the colour of the background"):
        load(tmp_path, background=background, tolerance=0.5)


def test_masks_and_transparency_come_before_the_background(tmp_path):
    save_images(tmp_path)
    write_opencv(tmp_path)
    plain = load(tmp_path)
    with pytest.warns(UserWarning, match="all photos have masks, so that .* #c86400 is"):
        assert torch.equal(load(tmp_path, background="#c86400").masks, plain.masks)
    for i in range(COUNT):
        path = tmp_path / "images" / f"view {i}.png"
        with Image.open(path) as image:
            rgba = np.array(image)
        rgba[..., 3] = 255  # opaque transparency is none
        Image.fromarray(rgba).save(path)
    assert torch.equal(load(tmp_path, background=(0, 0, 0)).masks, plain.masks)


def test_bad_backgrounds(tmp_path):
    save_images(tmp_path)
    write_opencv(tmp_path)
    for options, words in (
        ({"background": "blurple"}, "must be the name of a colour or #rrggbb, got 'blurple'"),
        ({"background": (1.0, 0.0)}, r"RGB, three numbers in \[0, 1\]"),
        ({"background": (255, 0, 0)}, r"RGB, three numbers in \[0, 1\]"),
        ({"background": "white", "tolerance": 0.0}, "tolerance must be"),
    ):
        with pytest.raises(ValueError, match=words):
            load(tmp_path, **options)
