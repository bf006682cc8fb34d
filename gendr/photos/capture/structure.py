"""Structure from motion by pycolmap, as a process of its own: `python structure.py FOLDER`.

Nothing of this package is imported here, nor anything else that reads images: pycolmap brings its
own copies of libraries that others use too, and has been seen to damage the memory of Pillow. A
crash or a hang of it ends this process only.

FOLDER holds job.json, what `gendr.photos.capture.cameras` asks for, images/GROUP/NAME and masks.
Progress goes to stdout, lines of a stage and a number; the result to result.json, points.npy and
tracks.npy.
"""

import json
import os
import shutil
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from itertools import combinations
from operator import itemgetter
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pycolmap
from scipy.spatial import KDTree

# By how much the mean reprojection error must fall for a lens of more parameters.
BETTER = 0.05
# How far the axis of a lens may be from the middle of a photo, of its longer side, if the error
# falls by less than half.
ASKEW, HALVED = 0.15, 0.5
# How many times as long or short as EXIF data say a focal length that is found may be; else it is
# held.
FAR = 2.0
# The first coefficient below which a lens may be a fisheye.
BARREL = -0.1
# By how much more of the verified matches must agree with cameras that are better, and by how many
# pixels these may be off; see `support`.
MORE, WIDE = 0.01, 2.0
# And by how many for each of the images, if each has a lens of its own.
EACH = 15
# How many photos must share each lens; how many points a photo must show that is placed.
SHARED, POINTS = 4, 10
# Features of a photo by which its partners are chosen, the ratio of their distances that makes two
# agree, and how many that follow are its partners anyway.
LARGEST, RATIO, NEXT = 400, 0.8, 3
# The fewest photos that are named as a group of their own.
JOINED = 3
# How far apart, in parts of their distance, two points lie that are not one; the fewest matches of
# a pair that tell; and the part of the images that a model without such pairs must place.
APART, KNOWN, KEPT = 0.05, 15, 0.9
# The part of the matches that agree, and of those of the best pairs, from which on pairs tell; how
# often images are placed anew without what was refuted; and the part of the others of which images
# match fewer features than of the next where photos are in order.
HALF, ROUNDS, ORDERED = 0.5, 4, 0.7
# The angles, in radians, within which two images see points from the same side, and are compared;
# how far a feature may be from where it should be, in pixels, of other size (a logarithm), and
# turned, in radians; how many points of an image are looked for in others, and in how many,
# how many tell; and what is found in unlike images, of what is in others.
BESIDE, ASIDE, RIM, LARGER, ROLLED = 0.2, 0.3, 3.0, 0.3, 0.4
SAMPLE, NEAREST, TOLD, UNLIKE = 1000, 20, 20, 0.75


def main(folder: Path) -> None:
    """Find features, match them, and place the images."""
    job = json.loads((folder / "job.json").read_text())
    pycolmap.logging.minloglevel = pycolmap.logging.ERROR.value
    database, images, cpu = Path(job["features"]), folder / "images", pycolmap.Device.cpu
    # What a run that was stopped has left in it is not found again.
    pycolmap.Database.open(database).close()
    extraction = pycolmap.FeatureExtractionOptions()
    extraction.use_gpu, extraction.num_threads = False, job["threads"]
    for group in job["groups"]:
        reader = pycolmap.ImageReaderOptions()
        reader.camera_model = job["model"]
        if group["focal"]:
            width, height = group["size"]
            reader.camera_params = f"{group['focal']},{width / 2},{height / 2},0"
        if job["masks"]:
            reader.mask_path = folder / "masks"
        names, single = group["names"], pycolmap.CameraMode.SINGLE
        # Else they are numbered as their features are ready, by another thread every time.
        pycolmap.import_images(database, images, single, names, reader)
        pycolmap.extract_features(
            database, images, names, single, reader, extraction_options=extraction, device=cpu
        )
    print("match 0", flush=True)  # noqa: T201
    matching = pycolmap.FeatureMatchingOptions()
    matching.use_gpu, matching.num_threads = False, job["threads"]
    geometry = pycolmap.TwoViewGeometryOptions()
    geometry.ransac.random_seed = 0  # by default another one every time
    count = count_of(job)
    chosen = count > job["all_pairs"]
    pairs = likely_pairs(database, job["partners"]) if chosen else []
    print(f"pairs {len(pairs) or count * (count - 1) // 2}", flush=True)  # noqa: T201
    if chosen:
        pairing = pycolmap.ImportedPairingOptions()
        pairing.match_list_path = folder / "pairs.txt"
        pairing.match_list_path.write_text("".join(f"{a} {b}\n" for a, b in pairs))
        pycolmap.match_image_pairs(
            database, matching, pairing, verification_options=geometry, device=cpu
        )
    else:
        pycolmap.match_exhaustive(database, matching, verification_options=geometry, device=cpu)
    best = mapped(job, database, folder)
    if best is not None and astray(best, job):
        shutil.copy(database, held := folder / "held.db")
        found = mapped(job | {"hold": True}, held, folder, best.num_reg_images())
        least = (1 + MORE) * support(best, database)
        if found is not None and support(found, held) > least:
            best, database, job = found, held, job | {"hold": True}
    against: list[tuple[str, str]] = []
    if best is not None:
        best, database = untangled(best, job, database, folder)
        hold = "hold" in job
        if not hold:  # photos that do not tell one focal length do not tell one each
            best, database = with_own_lenses(best, job, database, folder)
        best = guided(best, job["places"], database, folder, hold=hold)
        best = with_better_lens(best, hold=hold)
        against = doubted(best, database)
    result: dict[str, Any] = described(best, folder)
    apart = groups_apart(database, {image["name"] for image in result["images"]})
    result |= {"turned": turned_share(database), "apart": apart, "against": against}
    result["focal_known"] = best is not None and focal_known(best, job)
    (folder / "result.json").write_text(json.dumps(result))


def astray(model: "pycolmap.Reconstruction", job: "dict[str, Any]") -> bool:
    """Whether a focal length has left what EXIF data say of it.

    Photos of a flat field straight down do not tell it: it ends where COLMAP lets it.
    """
    said = said_focals(job)
    return any(
        said[image.name] and not 1 / FAR < image.camera.params[0] / said[image.name] < FAR
        for image in model.images.values()
    )


def focal_known(model: "pycolmap.Reconstruction", job: "dict[str, Any]") -> bool:
    """Whether EXIF data say the focal length of most placed images, and none has left that."""
    said = said_focals(job)
    known = [bool(said[image.name]) for image in model.images.values() if image.has_pose]
    return sum(known) > HALF * len(known) and not astray(model, job)


def said_focals(job: "dict[str, Any]") -> "dict[str, float]":
    """The focal lengths that EXIF data say, in pixels, of names of images; 0 if they do not."""
    return {name: group["focal"] for group in job["groups"] for name in group["names"]}


def count_of(job: "dict[str, Any]") -> int:
    """How many images there are."""
    return sum(len(group["names"]) for group in job["groups"])


def placing(*, hold: bool = False) -> "pycolmap.IncrementalPipelineOptions":
    """How images are placed: on one thread and with one seed, and so with equal bits every time.

    With two threads 36 photos of a dinosaur had two outcomes, cameras 0.1 % apart, in hardly less
    time; features and matches, which take most of it, are the same with any number of threads.
    """
    options = pycolmap.IncrementalPipelineOptions()
    options.num_threads, options.random_seed = 1, 0
    options.ba_refine_focal_length = not hold
    return options


def adjusting(*, hold: bool = False) -> "pycolmap.BundleAdjustmentOptions":
    """How cameras and points are adjusted; see `placing`."""
    options = pycolmap.BundleAdjustmentOptions()
    options.print_summary, options.ceres.solver_options.num_threads = False, 1
    options.refine_focal_length = not hold
    return options


def mapped(
    job: "dict[str, Any]", database: Path, folder: Path, done: int = 0
) -> "pycolmap.Reconstruction | None":
    """The model of most images, which counts those that are placed from `done` on; None if none."""

    def next_image() -> None:
        nonlocal done
        done += 1
        print(f"place {done}", flush=True)  # noqa: T201

    print(f"place {done}", flush=True)  # noqa: T201
    options = placing(hold="hold" in job)
    options.extract_colors = True
    best: pycolmap.Reconstruction | None = None
    for k, (angle, forward) in enumerate(job["first_pairs"]):
        options.mapper.init_min_tri_angle, options.mapper.init_max_forward_motion = angle, forward
        (models := folder / f"models_{database.stem}{k}").mkdir()
        found = pycolmap.incremental_mapping(
            database, folder / "images", models, options=options, next_image_callback=next_image
        )
        for model in found.values():
            if best is None or model.num_reg_images() > best.num_reg_images():
                best = model
        if best is not None and best.num_reg_images() >= job["part"] * count_of(job):
            break
    return best


def untangled(
    model: "pycolmap.Reconstruction", job: "dict[str, Any]", database: Path, folder: Path
) -> "tuple[pycolmap.Reconstruction, Path]":
    """The model found anew without pairs that are refuted, and its database.

    Where things look alike, such as the two sides of a vehicle, some photos match others that show
    something else, and a model can follow these. What supports a place that is refuted is left out,
    and images are placed anew, a few times.

    Where equal things stand in a row, such as windows, a photo a step farther is matched as if it
    showed what the first shows, in more of its features than the right ones, and cameras of a long
    front come to stand before a part of it. Photos that follow each other are the most alike, so
    pairs that contradict these are left out. One pair alone, such as the end of a walk and the
    start of another, tells nothing of the model.
    """

    def tried(gone: int, chosen: Path) -> None:
        nonlocal best, source, least, placed
        found = mapped(job, chosen, folder, placed) if gone else None
        if found is None:
            return
        count, own = found.num_reg_images(), len(doubted(found, chosen))
        if own <= least and (count > placed or (own < least and count >= KEPT * placed)):
            best, source, least, placed = found, chosen, own, count

    best, source, placed = model, database, model.num_reg_images()
    few, least = job["part"] * count_of(job), len(doubted(model, database))
    for k in range(ROUNDS if least > 1 else 0):
        before, chosen = best, folder / f"refuted{k}.db"
        tried(leave_out_refuted(best, source, chosen), chosen)
        if not least or best is before:
            break
    against = len(contradicted(best, source)) > 1 or placed < few
    if against and follow_each_other(database):
        chosen = folder / "order.db"
        tried(leave_out(database, chosen), chosen)
    return best, source


def doubted(model: "pycolmap.Reconstruction", database: Path) -> "list[tuple[str, str]]":
    """Names of pairs of images that match or look otherwise than they are placed."""
    return sorted({*contradicted(model, database), *unlike(model, database)})


def contradicted(model: "pycolmap.Reconstruction", database: Path) -> "list[tuple[str, str]]":
    """Names of images that the model contradicts: of most matches it knows.

    Those next to each other, and in any order those with half as many matches as the best pairs of
    both that it agrees with.
    """
    pairs = agreement(model, database)
    best: Counter[int] = Counter()
    for i, j, _, count, _, share in pairs:
        if share >= HALF:
            best |= Counter({i: count, j: count})
    return [
        (model.images[i].name, model.images[j].name)
        for i, j, steps, count, known, share in pairs
        if known >= KNOWN and share < HALF and (steps == 1 or count >= HALF * max(best[i], best[j]))
    ]


def agreement(
    model: "pycolmap.Reconstruction", database: Path
) -> "list[tuple[int, int, int, int, int, float]]":
    """What a model says of each pair of images that match.

    Returns: their numbers, how many steps apart they are in order, the matches, those that the
    model knows, and the share of these that it agrees with.

    It knows a match of which a feature shows a point, and agrees if the other shows one near it.
    """
    shown = {i: image for i, image in model.images.items() if image.has_pose}
    places = {i: np.full((image.num_points2D(), 3), np.nan) for i, image in shown.items()}
    for point in model.points3D.values():
        for seen in point.track.elements:
            places[seen.image_id][seen.point2D_idx] = point.xyz
    found: list[tuple[int, int, int, int, int, float]] = []
    for i, j, matches, steps in matched(database):
        if {i, j} <= shown.keys():
            one, other = places[i][matches[:, 0]], places[j][matches[:, 1]]
            known = np.where(np.isfinite(one), one, other)
            far = APART * np.linalg.norm(known - shown[i].projection_center(), axis=1)
            agree = np.linalg.norm(one - other, axis=1) < far
            count = int(np.isfinite(known[:, 0]).sum())
            found.append((i, j, steps, len(matches), count, float(agree.sum() / max(count, 1))))
    return found


def leave_out_refuted(model: "pycolmap.Reconstruction", database: Path, target: Path) -> int:
    """Copy a database without the pairs that support what is refuted in a model.

    Images are joined to groups by the pairs that it agrees with, of most matches first, but not two
    groups of which images are unlike, or match in more of their features otherwise: then all that
    puts these groups where they are goes. What contradicts that stays, as it may be right.

    Source: Heinly, Dunn & Frahm, Correcting for Duplicate Scene Structure in Sparse 3D
    Reconstruction, ECCV 2014, who split a model where images conflict, and join it otherwise.

    Returns: how many pairs these are; 0 if the rest would fall apart.
    """
    shutil.copy(database, target)
    numbers = {image.name: i for i, image in model.images.items()}
    pairs = sorted(agreement(model, database), key=lambda pair: -pair[3])
    # Pairs of images that are not to be joined, by fewer matches than this.
    apart = [(numbers[a], numbers[b], np.inf) for a, b in unlike(model, database)]
    apart += [(i, j, count) for i, j, _, count, known, share in pairs
              if known >= KNOWN and share < HALF]  # fmt: skip
    group = {i: i for i in model.images}
    gone: set[tuple[int, int]] = set()
    for i, j, _, count, _, share in pairs:
        both = {group[i], group[j]}
        if share < HALF or len(both) == 1 or (i, j) in gone:
            continue
        if any({group[a], group[b]} == both and count < most for a, b, most in apart):
            gone |= {(a, b) for a, b, _, _, _, s in pairs
                     if s >= HALF and {group[a], group[b]} == both}  # fmt: skip
        else:
            group = {a: group[i] if own == group[j] else own for a, own in group.items()}
    group = {i: i for i in model.images}
    for i, j, _, count, _, _ in pairs:
        if count and (i, j) not in gone and group[i] != group[j]:
            group = {a: group[i] if own == group[j] else own for a, own in group.items()}
    if max(Counter(group.values()).values()) < KEPT * len(group):
        return 0  # nothing else would hold the model together
    with closing(pycolmap.Database.open(target)) as base:
        for i, j in sorted(gone):
            base.delete_two_view_geometry(i, j)
    return len(gone)


def unlike(model: "pycolmap.Reconstruction", database: Path) -> "list[tuple[str, str]]":
    """Names of images that see the same points from the same side, by the model, and are unlike.

    Where things look alike, such as the two sides of a vehicle or windows in a row, photos come to
    stand beside others that show something else. Of the points of one the other has hardly a
    feature of that size and direction where they should be, which needs no match: from nearly the
    same place three of four features are found again, and the order of the photos tells nothing.
    Each is compared with those nearest in direction, seen from the middle of its points.

    Source: Zach, Irschara & Bischof, What Can Missing Correspondences Tell Us about 3D Structure
    and Motion?, CVPR 2008.
    """
    shown = {i: image for i, image in model.images.items() if image.has_pose}
    # Affine shapes [x, y, a11, a12, a21, a22] as places, scales and directions.
    trees: dict[int, KDTree] = {}
    sizes, ways = dict[int, np.ndarray](), dict[int, np.ndarray]()
    with closing(pycolmap.Database.open(database)) as base:
        for i in shown:
            x, y, *shape = base.read_keypoints(i).T
            trees[i] = KDTree(np.stack([x, y], 1).astype(float))
            sizes[i] = np.abs(shape[0] * shape[3] - shape[1] * shape[2]) ** 0.5
            ways[i] = shape[0] + 1j * shape[2]
    eyes = np.array([image.projection_center() for image in shown.values()])
    numbers = np.array(list(shown))
    again: dict[tuple[int, int], tuple[float, float]] = {}  # the angle, and the share found
    for i, image in shown.items():
        rows = np.array([k for k, p in enumerate(image.points2D) if p.has_point3D()], np.int64)
        rows = rows[:: 1 + len(rows) // SAMPLE]
        points = [model.points3D[image.points2D[k].point3D_id].xyz for k in rows.tolist()]
        places = np.array(points).reshape(-1, 3)
        before = places - image.projection_center()
        rays = np.median(places, 0) - eyes if len(places) else eyes
        along = rays @ (rays[numbers == i][0]) / np.linalg.norm(rays, axis=1)
        for j in numbers[np.argsort(-along, kind="stable")[: NEAREST + 1]].tolist():
            other = shown[j]
            seen = other.cam_from_world() * places
            rays = places - other.projection_center()
            far = np.linalg.norm(before, axis=1), np.linalg.norm(rays, axis=1)
            apart = (before * rays).sum(1) / (far[0] * far[1])
            near = (seen[:, 2] > 0) & (apart > np.cos(ASIDE))
            near &= abs(np.log(far[0] / far[1])) < LARGER
            if i == j or near.sum() < TOLD:
                continue
            spots = other.camera.img_from_cam(seen[near])
            size = np.array([other.camera.width, other.camera.height])
            inside = ((spots > RIM) & (spots < size - RIM)).all(1)
            spots, these = spots[inside], rows[near][inside]
            off, marked = trees[j].query(spots, 5, distance_upper_bound=RIM)
            marked = np.where(np.isfinite(off), marked, 0)
            turn = (other.cam_from_world() * image.cam_from_world().inverse()).rotation.matrix()
            scale = sizes[i][these] * (far[0] / far[1])[near][inside]
            same = abs(np.log(np.maximum(sizes[j][marked], 1e-9) / scale[:, None])) < LARGER
            roll = turn[0, 0] + 1j * turn[1, 0]
            same &= abs(np.angle(ways[j][marked] / (ways[i][these] * roll)[:, None])) < ROLLED
            if len(these) >= TOLD:
                angle = float(np.arccos(np.median(apart[near][inside]).clip(-1, 1)))
                again[i, j] = angle, float((same & np.isfinite(off)).any(1).mean())
    # In a blurred image features of sharp ones are missing, but not its own in these.
    both = {
        (i, j): (min(angle, again[j, i][0]), max(share, again[j, i][1]))
        for (i, j), (angle, share) in again.items() if (j, i) in again
    }  # fmt: skip
    others: dict[int, dict[int, tuple[float, float]]] = {}
    for (i, j), told in both.items():
        others.setdefault(i, {})[j] = told
    everywhere = np.array(list(both.values())).reshape(-1, 2)
    pairs: list[tuple[str, str]] = []
    for (i, j), (angle, share) in both.items():
        if i < j and angle < BESIDE:
            # Noise hides features, too, but the more of those that are seen from farther aside. An
            # image beside no other is told by what is usual of all.
            of_all = [np.median(everywhere[everywhere[:, 0] >= angle, 1])]
            usual = [
                [s for k, (far, s) in others[one].items() if k != other and far >= angle] or of_all
                for one, other in ((i, j), (j, i))
            ]
            if share < UNLIKE * min(map(max, usual)):
                pairs.append((shown[i].name, shown[j].name))
    return pairs


def matched(database: Path) -> "list[tuple[int, int, np.ndarray, int]]":
    """Of each pair of images their numbers, matches, and how many steps apart they are in order."""
    with closing(pycolmap.Database.open(database)) as base:
        images = sorted(base.read_all_images(), key=lambda image: Path(image.name).stem)
        place = {image.image_id: k for k, image in enumerate(images)}
        pairs, geometries = base.read_two_view_geometries()
    both = [pycolmap.pair_id_to_image_pair(pair) for pair in pairs]
    return [
        (i, j, found.inlier_matches, abs(place[i] - place[j]))
        for (i, j), found in zip(both, geometries, strict=True)
    ]


def follow_each_other(database: Path) -> bool:
    """Whether images next to each other match in more features than most others do.

    Of photos in any order as many match in fewer as in more; what these confirm is anything.
    """
    pairs = matched(database)
    with closing(pycolmap.Database.open(database)) as base:
        place = {image.image_id: k for k, image in enumerate(base.read_all_images())}
    counts, last = np.zeros((len(place), len(place))), len(place) - 1
    for i, j, matches, _ in pairs:
        counts[place[i], place[j]] = counts[place[j], place[i]] = len(matches)
    fewer = [
        ((counts[place[k]] < len(matches)).sum() - 1) / last  # but for the image itself
        for i, j, matches, steps in pairs if steps == 1 and len(matches) for k in (i, j)
    ]  # fmt: skip
    return sum(fewer) >= ORDERED * 2 * last


def leave_out(database: Path, target: Path) -> int:
    """Copy a database without the pairs that contradict those of images nearer in order.

    Matches of pairs are joined to tracks, of neighbours first. A match contradicts these if both of
    its features are in tracks of their own that some image shows in two places.

    Source: Zach, Irschara & Bischof, What Can Missing Correspondences Tell Us about 3D Structure
    and Motion?, CVPR 2008, whose triplets of images are tracks here.

    Returns: how many pairs these are.
    """
    shutil.copy(database, target)
    tracks: dict[tuple[int, int], dict[int, int]] = {}  # of a feature, those of images; shared
    gone: list[tuple[int, int]] = []
    for i, j, rows, _ in sorted(matched(database), key=itemgetter(3)):
        matches = rows.tolist()
        both = [
            (tracks.setdefault((i, a), {i: a}), tracks.setdefault((j, b), {j: b}))
            for a, b in matches
        ]
        same = sum(one is other for one, other in both)
        clash = sum(one is not other and not one.keys().isdisjoint(other) for one, other in both)
        if clash > same:
            gone.append((i, j))
            continue
        for a, b in matches:
            one, other = tracks[i, a], tracks[j, b]
            if one.keys().isdisjoint(other):
                one |= other
                tracks |= dict.fromkeys(other.items(), one)
    with closing(pycolmap.Database.open(target)) as base:
        for i, j in gone:
            base.delete_two_view_geometry(i, j)
    return len(gone)


def with_own_lenses(
    model: "pycolmap.Reconstruction", job: "dict[str, Any]", database: Path, folder: Path
) -> "tuple[pycolmap.Reconstruction, Path]":
    """The model found anew with a lens for each image, if it is better, and its database.

    EXIF data do not tell all: programs that send photos remove them, those that crop them leave the
    focal length as it was, and with the focus of a phone it changes by some hundredths. One lens
    for all then bends what it shows by pixels, or keeps photos out. It is tried where a lens each
    agrees with more of the matches, or images without a focal length in EXIF were not placed; and
    kept if more of the matches agree then.
    """
    placed = {image.name for image in model.images.values() if image.has_pose}
    unknown = {name for group in job["groups"] if not group["focal"] for name in group["names"]}
    if all(len(group["names"]) == 1 for group in job["groups"]):
        return model, database
    tried, before = with_lens_each(model), support(model, database)
    # Few matches agree better with many lenses by chance.
    least = max((1 + MORE) * before, before + EACH * len(placed))
    if support(tried, database) < least and not unknown - placed:
        return model, database
    own = folder / "own.db"
    shutil.copy(database, own)
    with closing(pycolmap.Database.open(own)) as base:
        numbered = [(image, base.read_camera(image.camera_id)) for image in base.read_all_images()]
        base.clear_frames()
        base.clear_rigs()
        for image, lens in numbered:
            if image.image_id in tried.cameras:
                lens.params = tried.cameras[image.image_id].params.tolist()
                lens.has_prior_focal_length = True
            lens.camera_id = base.write_camera(lens)
            rig = pycolmap.Rig()
            rig.add_ref_sensor(lens.sensor_id)
            frame, image.camera_id = pycolmap.Frame(), lens.camera_id
            frame.frame_id, frame.rig_id = image.frame_id, base.write_rig(rig)
            frame.add_data_id(image.data_id)
            base.write_frame(frame, use_frame_id=True)
            base.update_image(image)
    found = mapped(job, own, folder, len(placed))
    if found is None or found.num_reg_images() < len(placed):
        return model, database
    if len(contradicted(found, own)) > len(contradicted(model, database)):
        return model, database
    return (found, own) if support(found, own) > least else (model, database)


def with_lens_each(model: "pycolmap.Reconstruction") -> "pycolmap.Reconstruction":
    """The model after bundle adjustment with a lens for each image, numbered as the images are."""
    found = pycolmap.Reconstruction()
    for number, image in model.images.items():
        if image.has_pose:
            lens = pycolmap.Camera(image.camera.todict())
            lens.camera_id = number
            found.add_camera_with_trivial_rig(lens)
            places = np.array([point.xy for point in image.points2D]).reshape(-1, 2)
            copy = pycolmap.Image(image.name, places, number, number)
            found.add_image_with_trivial_frame(copy, image.cam_from_world())
    for point in model.points3D.values():
        found.add_point3D(point.xyz, point.track, point.color)
    pycolmap.bundle_adjustment(found, adjusting())
    return found


def likely_pairs(database: Path, partners: int) -> "list[tuple[str, str]]":
    """Names of pairs of images worth to be matched.

    Those next to each other in the order of the photos, and of each photo so many with which most
    of its largest features agree, which costs a thousandth of matching all features of all pairs.

    Source: Wu, Towards Linear-Time Incremental Structure from Motion, 3DV 2013, section 2.
    """
    with closing(pycolmap.Database.open(database)) as base:
        images = sorted(base.read_all_images(), key=lambda image: int(Path(image.name).stem))
        count = len(images)
        table = np.zeros((count, LARGEST, 128), np.float32)
        for i, image in enumerate(images):
            # Affine shapes [x, y, a11, a12, a21, a22], whose determinants are squared scales.
            a, b, c, d = base.read_keypoints(image.image_id)[:, 2:].T
            largest = np.argsort(-np.abs(a * d - b * c), kind="stable")[:LARGEST]
            found = base.read_descriptors(image.image_id).data[largest].astype(np.float32)
            table[i, : len(found)] = found / np.linalg.norm(found, axis=1, keepdims=True)
    agree = np.full((count, count), -1)
    for i, j in combinations(range(count), 2):
        alike = table[i] @ table[j].T
        best = alike.argmax(1)
        nearest = alike[np.arange(LARGEST), best]
        alike[np.arange(LARGEST), best] = -1
        # The squared distance of unit vectors is 2 less twice their product; Lowe's ratio test.
        clear = 1 - nearest < RATIO**2 * (1 - alike.max(1))
        agree[i, j] = agree[j, i] = np.count_nonzero(clear)
    found = {(i, j) for i in range(count) for j in range(i + 1, min(i + 1 + NEXT, count))}
    for i, row in enumerate(np.argsort(-agree, 1, kind="stable")[:, :partners].tolist()):
        found |= {(min(i, j), max(i, j)) for j in row if j != i}
    return [(images[i].name, images[j].name) for i, j in sorted(found)]


def turned_share(database: Path) -> float:
    """The share of pairs that look as if the camera had been turned on the spot.

    So do those of one plane; COLMAP does not tell them apart before it knows poses.
    """
    kinds = pycolmap.TwoViewGeometryConfiguration
    turned = int(kinds.PANORAMIC), int(kinds.PLANAR_OR_PANORAMIC)
    with closing(sqlite3.connect(database)) as base:
        found = Counter(base.execute("SELECT config FROM two_view_geometries WHERE rows > 0"))
    return sum(found[kind,] for kind in turned) / max(found.total(), 1)


def groups_apart(database: Path, placed: "set[str]") -> "list[list[str]]":
    """Names of images that were not placed and match each other but none of those that were.

    Groups of at least three, as of another place, or from the other side of something.
    """
    with closing(pycolmap.Database.open(database)) as base:
        names = {image.image_id: image.name for image in base.read_all_images()}
        pairs, counts = base.read_two_view_geometry_num_inliers()
    group = {name: name for name in names.values()}  # of each, the first that it is joined to
    group |= dict.fromkeys(placed, "")
    for pair, count in zip(pairs, counts, strict=True):
        if count > 0:
            both = {group[names[i]] for i in pycolmap.pair_id_to_image_pair(pair)}
            group = {name: min(both) if own in both else own for name, own in group.items()}
    found = [[name for name in group if group[name] == one] for one in sorted(set(group.values()))]
    return [names for names in found if group[names[0]] and len(names) >= JOINED]


@dataclass(frozen=True)
class Guidance:
    """How GPS fixes lead cameras; see `guided`.

    Attributes:
        nearness: how far cameras may stay off fixes while these lead, in deviations of the fixes;
            each is tried.
        rounds: how often points are triangulated anew, led and let go.
        least: photos with fixes.
        agreeing: the part of these that must agree.
        off: how far off a fix may be that agrees, in the spread of the fixes.
        wild: how many times as far away as half of all a fix is that is left out.
        exact: the least deviation of fixes, in their spread.
    """

    nearness: tuple[float, ...] = (0.08, 0.12)
    rounds: int = 3
    least: int = 6
    agreeing: float = 0.75
    off: float = 0.1
    wild: float = 20.0
    exact: float = 1e-3


GUIDANCE = Guidance()


def guided(
    model: "pycolmap.Reconstruction", places: "dict[str, list[float]]", database: Path,
    folder: Path, *, hold: bool = False,
) -> "pycolmap.Reconstruction":  # fmt: skip
    """The model after its cameras were drawn to GPS fixes and let go, if it is better then.

    Where things repeat, such as houses in a row, the first photos that are placed by the wrong ones
    keep others off by metres: errors have another minimum there. Fixes lead past it, and do not
    count in the end.

    Args:
        model: as it was found.
        places: of names of images, in metres.
        database: with the matches.
        folder: for what is triangulated.
        hold: whether focal lengths stay.
    """
    images = [i for i in model.images.values() if i.has_pose and i.name in places]
    if len(images) < GUIDANCE.least:
        return model
    wanted = np.array([places[image.name] for image in images])
    away = np.linalg.norm(wanted - np.median(wanted, 0), axis=1)
    # One wild fix would let all others agree; phones give many photos the same one.
    near = away <= GUIDANCE.wild * np.median(away)
    images, wanted = [image for image, one in zip(images, near, strict=True) if one], wanted[near]
    if len(images) < GUIDANCE.least or not np.ptp(wanted, 0).any():
        return model
    spread = float(np.square(wanted - wanted.mean(0)).sum(1).mean() ** 0.5)
    ransac = pycolmap.RANSACOptions()
    ransac.max_error, ransac.random_seed = GUIDANCE.off * spread, 0
    names = [image.name for image in images]
    moved = pycolmap.align_reconstruction_to_locations(model, names, wanted, GUIDANCE.least, ransac)
    if moved is None:
        return model
    found = pycolmap.Reconstruction(model)
    found.transform(moved)
    off = np.linalg.norm(
        [found.images[i.image_id].projection_center() for i in images] - wanted, axis=1
    )
    good = off < GUIDANCE.off * spread
    if good.sum() < max(GUIDANCE.least, GUIDANCE.agreeing * len(images)):
        return model
    deviation = max(float(np.square(off[good]).mean() ** 0.5), GUIDANCE.exact * spread)
    best, most = model, (1 + MORE) * support(model, database)
    for k, near in enumerate(GUIDANCE.nearness):
        (place := folder / f"guided{k}").mkdir(exist_ok=True)
        fixes: list[pycolmap.PosePrior] = []
        for image, where, kept in zip(images, wanted, good, strict=True):
            if kept:
                fix = pycolmap.PosePrior()
                fix.corr_data_id, fix.position = image.data_id, where
                fix.position_covariance = (near * deviation) ** 2 * np.eye(3)
                fix.coordinate_system = pycolmap.PosePriorCoordinateSystem.CARTESIAN
                fixes.append(fix)
        tried = led(found, fixes, database, folder / "images", place, hold=hold)
        tried = joined(tried, database, place, hold=hold)
        if tried.num_reg_images() < model.num_reg_images():
            continue
        if (own := support(tried, database)) > most:
            best, most = tried, own
    return best


def led(
    model: "pycolmap.Reconstruction", fixes: "list[pycolmap.PosePrior]", database: Path,
    images: Path, place: Path, *, hold: bool,
) -> "pycolmap.Reconstruction":  # fmt: skip
    """The model, drawn to fixes a few times with points triangulated anew, and let go."""
    found, config = pycolmap.Reconstruction(model), pycolmap.BundleAdjustmentConfig()
    for image in model.images.values():
        if image.has_pose:
            config.add_image(image.image_id)
    options = adjusting(hold=hold)
    options.ceres.loss_function_type = pycolmap.LossFunctionType.CAUCHY
    guide = pycolmap.PosePriorBundleAdjustmentOptions()
    guide.alignment_ransac.random_seed = 0
    for k in range(2 * GUIDANCE.rounds):
        if k < GUIDANCE.rounds:
            pycolmap.create_pose_prior_bundle_adjuster(options, guide, config, fixes, found).solve()
        else:
            options.ceres.loss_function_type = pycolmap.LossFunctionType.TRIVIAL
            pycolmap.bundle_adjustment(found, options)
        if k < 2 * GUIDANCE.rounds - 1:
            found = pycolmap.triangulate_points(
                found, database, images, place, clear_points=True, options=placing()
            )
    return found


def joined(
    model: "pycolmap.Reconstruction", database: Path, place: Path, *, hold: bool
) -> "pycolmap.Reconstruction":
    """The model with images placed anew that show none of its points any more.

    Fixes say nothing of how cameras are turned: those drawn back with points of their own may look
    past what the others see.
    """
    lost = [i for i in model.images.values() if i.has_pose and i.num_points3D < POINTS]
    if not lost:
        return model
    for image in lost:
        model.deregister_frame(image.frame_id)
    for folder in (given := place / "given", out := place / "joined"):
        folder.mkdir(exist_ok=True)
    model.write(given)
    options = placing(hold=hold)
    options.multiple_models = False
    found = pycolmap.incremental_mapping(
        database, place.parent / "images", out, options=options, input_path=given
    )
    return max(found.values(), key=lambda each: each.num_reg_images(), default=model)


def support(model: "pycolmap.Reconstruction", database: Path) -> float:
    """How many of the verified matches of all pairs agree with where the photos stand.

    A match counts as 1, and the less the farther off the lines are on which its features should be.
    What only the points of a model tell is no measure: where photos are torn apart each part has
    points of its own, with small errors.
    """
    total = 0.0
    with closing(pycolmap.Database.open(database)) as base:
        rays: dict[int, np.ndarray] = {}
        for i, image in model.images.items():
            if image.has_pose:
                places = base.read_keypoints(i)[:, :2].astype(float)
                rays[i] = np.pad(
                    image.camera.cam_from_img(places), ((0, 0), (0, 1)), constant_values=1
                )
        for number, found in zip(*base.read_two_view_geometries(), strict=True):
            pair = pycolmap.pair_id_to_image_pair(number)
            if not all(i in rays for i in pair):
                continue
            a, b = (model.images[i] for i in pair)
            way = b.cam_from_world() * a.cam_from_world().inverse()
            essential = np.cross(way.translation, way.rotation.matrix(), axisb=0, axisc=0)
            x, y = (rays[i][found.inlier_matches[:, k]] for k, i in enumerate(pair))
            lines = np.c_[(x @ essential.T)[:, :2], (y @ essential)[:, :2]]
            off = ((x @ essential.T) * y).sum(1) ** 2 / np.maximum((lines**2).sum(1), 1e-300)
            wide = WIDE / min(model.cameras[each.camera_id].mean_focal_length() for each in (a, b))
            total += float((1 - off / wide**2).clip(0).sum())
    return total


def with_better_lens(
    model: "pycolmap.Reconstruction", *, hold: bool = False
) -> "pycolmap.Reconstruction":
    """The model with a second radial coefficient and free principal points, if that is better.

    One coefficient keeps the search for the first pair of images safe, but bends what lenses of
    compact cameras show by pixels towards the corners: of the castle of docs/results/photos.md the
    mean reprojection error falls from 0.42 to 0.36 pixels, and stereo matches more. Of a lens that
    bends much a fisheye is tried, too, as action cameras have it. A lens that few photos share
    would rather fit their noise, and stays. An axis far off the middle is that of cropped photos if
    errors halve, and else of cameras that hardly moved, which tell little of a lens.

    Args:
        model: as it was found.
        hold: whether focal lengths stay, and axes with them: photos that do not tell the one, as of
            a field straight down, do not tell the other.

    Sources of the lenses: Brown, Close-Range Camera Calibration, 1971; Kannala & Brandt, A Generic
    Camera Model and Calibration Method for Conventional, Wide-Angle and Fish-Eye Lenses, 2006.
    """
    photos = Counter(image.camera_id for image in model.images.values() if image.has_pose)
    shared = {lens for lens, count in photos.items() if count >= SHARED}
    if not shared:
        return model
    kinds = ["RADIAL"]
    if min(model.cameras[lens].params[3] for lens in shared) < BARREL:
        kinds.append("RADIAL_FISHEYE")
    best, error = model, model.compute_mean_reprojection_error()
    for kind in kinds:
        found = with_lens(model, shared, kind, hold=hold)
        after, lenses = found.compute_mean_reprojection_error(), [found.cameras[i] for i in shared]
        least = 1 - BETTER if all(map(is_straight, lenses)) else HALVED
        if after < least * error and not any(map(folds, lenses)):
            best, error = found, after
    return best


def with_lens(
    model: "pycolmap.Reconstruction", lenses: "set[int]", kind: str, *, hold: bool
) -> "pycolmap.Reconstruction":
    """The model after bundle adjustment with some lenses of a kind with two coefficients.

    Focal lengths stay if they are held, and principal points with them.
    """
    found = pycolmap.Reconstruction(model)
    config, options = pycolmap.BundleAdjustmentConfig(), adjusting(hold=hold)
    config.fix_gauge(pycolmap.BundleAdjustmentGauge.TWO_CAMS_FROM_WORLD)
    for image in found.images.values():
        if image.has_pose:
            config.add_image(image.image_id)
    for number, lens in found.cameras.items():
        if number in lenses:
            *pinhole, bend = lens.params
            # tan a + k tan³ a = a + (k + 1/3) a³ + (k + 2/15) a⁵ + …
            fish = kind == "RADIAL_FISHEYE"
            bends = [bend + 1 / 3, bend + 2 / 15] if fish else [bend, 0.0]
            lens.model = getattr(pycolmap.CameraModelId, kind)
            lens.params = [*pinhole, *bends]
        else:
            config.set_constant_cam_intrinsics(number)
    options.refine_principal_point = not hold
    pycolmap.create_default_bundle_adjuster(options, config, found).solve()
    found.update_point_3d_errors()
    return found


def is_straight(lens: "pycolmap.Camera") -> bool:
    """Whether the axis of a lens is near the middle of its photos."""
    middle = lens.width / 2, lens.height / 2
    aside = np.abs([lens.principal_point_x - middle[0], lens.principal_point_y - middle[1]])
    return bool(aside.max() <= ASKEW * max(lens.width, lens.height))


def folds(lens: "pycolmap.Camera") -> bool:
    """Whether a lens of two coefficients bends so much that what is farther out comes back."""
    focal, cx, cy, k1, k2 = lens.params
    half = np.array([lens.width, lens.height]) / 2
    corner = float(np.linalg.norm(half + np.abs(half - [cx, cy]))) / focal
    # Outwards until the farthest corner is met, which a lens that folds before never meets.
    r = np.linspace(0, 2 * corner, 200)
    bent = r * (1 + k1 * r**2 + k2 * r**4)
    met = int(np.argmax(bent >= corner))
    return met == 0 or bool((np.diff(bent[: met + 1]) <= 0).any())


def described(model: "pycolmap.Reconstruction | None", folder: Path) -> "dict[str, Any]":
    """The cameras of a model as plain values; its points go to a file."""
    if model is None:
        return {"images": []}
    points = [np.r_[p.xyz, p.color] for p in model.points3D.values()]
    np.save(folder / "points.npy", np.array(points).reshape(-1, 6))
    # Rows of a point and the number of an image, by its name, that sees it.
    number = {image.image_id: int(Path(image.name).stem) for image in model.images.values()}
    tracks = [
        (k, number[element.image_id])
        for k, point in enumerate(model.points3D.values())
        for element in point.track.elements
    ]
    np.save(folder / "tracks.npy", np.array(tracks, np.int64).reshape(-1, 2))
    images = []
    for image in model.images.values():
        # Photos that were only turned get poses, too, but their points are at no angle and go.
        if not image.has_pose or image.num_points3D < POINTS:
            continue
        pose, lens = image.cam_from_world(), image.camera
        places = [model.points3D[p.point3D_id].xyz for p in image.points2D if p.has_point3D()]
        images.append({
            "name": image.name, "R": pose.rotation.matrix().tolist(),
            "t": pose.translation.tolist(), "model": lens.model.name,
            "params": lens.params.tolist(), "size": [lens.width, lens.height],
            "depth": float(np.median((pose * np.array(places))[:, 2])),
        })  # fmt: skip
    return {"images": images, "error": model.compute_mean_reprojection_error()}


def end_with_parent() -> None:
    """End when the process that reads the progress does, which holds the other end of stdin.

    Else it would go on, killed as that may have been, and write beside the process of a next run.
    """
    os.read(0, 1)  # not of sys.stdin, whose lock Python wants at its end
    os._exit(1)


if __name__ == "__main__":
    Thread(target=end_with_parent, daemon=True).start()
    main(Path(sys.argv[1]))
