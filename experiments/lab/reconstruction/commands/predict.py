"""`predict.py`: a mesh, and a sheet to judge it by, from each image."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from gendr._common.files import write_all
from gendr.jobs.devices import usable_device
from gendr.jobs.folders import writable_folder
from gendr.mesh import Mesh, look_at
from gendr.photos import visual
from gendr.photos.camera_files.photos import output_names
from lab.reconstruction.commands.options import Predict
from lab.reconstruction.inputs import read_image
from lab.reconstruction.pictures import prediction_sheet
from lab.reconstruction.renderings import DISTANCE, ELEVATION, FOV
from lab.reconstruction.training import load_model

FRAMES, SIZE, SECONDS = 36, 256, 2.4  # of a turntable


def run(args: Predict) -> int:
    """Run `predict.py` and return the exit status."""
    from tqdm import tqdm

    device = usable_device(args.device)
    checkpoint = Path(args.checkpoint)
    if not checkpoint.is_file():
        raise ValueError(f"--checkpoint: no file {checkpoint}; train.py writes one")
    paths = [Path(text) for text in args.images]
    names = [Path(name).name for name in output_names(paths)]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two images would write {min(twice)}.obj; give them in two calls")
    model = load_model(checkpoint, device)
    out = writable_folder(Path(args.output))
    for path, name in zip(paths, names, strict=True):
        if (out / f"{name}.png").resolve() == path.resolve():
            raise ValueError(f"the sheet of {path} would replace it; choose another folder with -o")
    each = list(zip(paths, names, strict=True))
    for path, name in tqdm(each, "predict", disable=args.quiet or len(paths) < 3):
        image = read_image(path, model.side, fill=args.fill, max_megapixels=args.max_megapixels)
        with torch.no_grad():
            mesh = model.mesh(image[None].to(device)).to("cpu")
        files = mesh.to_files(out / f"{name}.obj")
        sheet = prediction_sheet(path.name, image, mesh)
        files |= {out / f"{name}.png": visual.picture(sheet)}
        if args.turntable:
            files |= {out / f"{name}.gif": _turntable(mesh)}
        write_all(files)
        if not args.quiet:
            sys.stdout.write(f"{out / name}.obj\n")
    return 0


def _turntable(mesh: Mesh) -> bytes:
    azimuths = torch.arange(FRAMES) * (360.0 / FRAMES)
    frames = visual.shaded(mesh, look_at(DISTANCE, ELEVATION, azimuths, FOV), SIZE, visual.FIT)
    return visual.gif(frames, seconds=SECONDS / FRAMES)
