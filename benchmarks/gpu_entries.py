"""What users call, small, with everything on one device: `gpu_check.py` calls it all on a GPU.

Each function is given a device, does what the documentation shows, forward and backward, and
returns tensors that must be there. Tests call them on the CPU, and on a device that is pretended
and refuses, as a GPU does, to mix its tensors with those of the CPU.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bowl import pattern
from torch import Tensor, nn

import gendr
import gendr.primitives as dr
from gendr.jobs.loop import Progress
from gendr.mesh import icosphere
from gendr.photos.splatting import Photos, SplatSettings, fit_splats, fit_triangles, from_cameras
from gendr.photos.suspicious_masks import suspicious_masks

Device = str | torch.device


def _ball(device: Device, level: int = 1) -> gendr.Mesh:
    return icosphere(level).scaled(0.5).to(device)


def _cameras(device: Device, count: int = 2, distance: float = 2.7) -> gendr.Camera:
    return gendr.look_at(distance, 25.0, torch.arange(count) * 360.0 / count).to(device)


def _coloured(mesh: gendr.Mesh) -> gendr.Mesh:
    return mesh.with_vertex_colors(0.5 + 0.4 * torch.sin(4 * mesh.vertices))


def _slopes(values: Iterable[Tensor], given: Iterable[Tensor]) -> list[Tensor]:
    """The gradients of the sum of squares."""
    total = torch.stack([x.square().sum() for x in values]).sum()
    return list(torch.autograd.grad(total, list(given)))


def _image_step(device: Device, image: str, **options: Any) -> list[Tensor]:
    mesh, size = _coloured(_ball(device)), 16
    vertices = mesh.vertices.clone().requires_grad_()
    renderer = gendr.Renderer(size, scale=2e-2, **options).to(device)
    out = getattr(renderer(mesh.with_vertices(vertices), _cameras(device)), image)
    return [out, *_slopes([out], [vertices, *renderer.parameters()])]


def silhouette(device: Device) -> list[Tensor]:
    """Call the function that takes triangles."""
    faces = torch.rand(2, 5, 3, 3, generator=torch.Generator().manual_seed(0)) + 0.5
    faces = faces.to(device).requires_grad_()
    alpha = gendr.silhouette(faces, 12, "gamma(shape=2).reversed", "dombi(p=2)", "2px")
    return [alpha, *_slopes([alpha], [faces])]


def alpha(device: Device) -> list[Tensor]:
    """Render alpha with everything learnt that can be."""
    learnt = "scale", "shape", "p"
    options = {"dist": "gamma(shape=2).centred", "tconorm": "yager(p=2)", "learnable": learnt}
    return _image_step(device, "alpha", **options)


def own_cdf(device: Device) -> list[Tensor]:
    """Render alpha with a CDF of the user's own."""
    return _image_step(device, "alpha", dist=torch.sigmoid)


def colours(device: Device) -> list[Tensor]:
    """Render colours of vertices, flat, which a GPU does in one fused kernel."""
    return _image_step(device, "rgb", dist="logistic")


def colours_over_alpha(device: Device) -> list[Tensor]:
    """Render highlights, which need lists of pairs, and put the colours over alpha."""
    light = gendr.Lighting(specular=0.5)
    return _image_step(device, "rgb", dist="logistic", lighting=light, composite="alpha")


def hard_images(device: Device) -> list[Tensor]:
    """Render everything but alpha, of two meshes."""
    mesh = gendr.Mesh.batch([_coloured(_ball(device)), _coloured(_ball(device, 0))])
    out = gendr.Renderer(16, shading="hard").to(device)(mesh, _cameras(device))
    return [out.rgb, out.depth, out.normals, out.face_id]


def textures(device: Device) -> list[Tensor]:
    """Render a texture that learns."""
    mesh = gendr.photos.unwrapped(_ball("cpu"), 32).to(device)
    texture = torch.full((32, 32, 3), 0.5, device=device, requires_grad=True)
    renderer = gendr.Renderer(16, "logistic", scale=2e-2).to(device)
    out = renderer(mesh.with_texture(texture), _cameras(device)).rgb
    return [out, *_slopes([out], [texture])]


def compiled(device: Device) -> list[Tensor]:
    """Call a compiled renderer often enough for a graph."""
    mesh, renderer = _ball(device), gendr.Renderer(16, scale=2e-2).to(device)
    vertices, found = mesh.vertices.clone().requires_grad_(), []
    fast = renderer.compiled()
    for _ in range(4):
        out = fast(mesh.with_vertices(vertices), _cameras(device)).alpha
        found = [out, *_slopes([out], [vertices])]
    return found


def scale_suggested(device: Device) -> list[Tensor]:
    """Ask for a scale by `suggest_scale`."""
    gendr.suggest_scale(_ball(device), _cameras(device), 16, "logistic")
    return []


def meshes(device: Device) -> list[Tensor]:
    """Read what meshes know of themselves, and change them."""
    mesh = _ball(device)
    fine = mesh.subdivided()
    return [
        fine.vertices, mesh.vertex_normals, mesh.face_areas, mesh.volumes, mesh.edges,
        mesh.sample_points(10), *mesh.bounding_box(), mesh.normalized().vertices,
        gendr.photos.remesh(mesh, 0.3).mesh.vertices, mesh[0].vertices,
        gendr.Mesh.batch([mesh, fine]).faces, mesh.repeated(2).vertices,
    ]  # fmt: skip


def losses(device: Device) -> list[Tensor]:
    """Compute the losses of images and of meshes."""
    from gendr import losses as of

    mesh = _ball(device)
    vertices = mesh.vertices.clone().requires_grad_()
    moved = mesh.with_vertices(vertices)
    a, b = (torch.rand(2, 8, 8, device=device) for _ in range(2))
    found = [
        of.flatten_loss(moved), of.laplacian_loss(moved), of.edge_length_loss(moved),
        of.normal_consistency_loss(moved),
    ]  # fmt: skip
    found = [x.mean() for x in found]
    return [*found, *_slopes(found, [vertices]), of.iou_loss(a, b), of.mse_loss(a, b), of.iou(a, b)]


def surfaces(device: Device) -> list[Tensor]:
    """Compare surfaces by points that are drawn on the device."""
    mesh = _ball(device)
    vertices = mesh.vertices.clone().requires_grad_()
    found = gendr.losses.chamfer(mesh.with_vertices(vertices), mesh.scaled(1.1), 50)
    return [found, *_slopes([found], [vertices])]


def _masks(device: Device, size: int, count: int) -> tuple[Tensor, Tensor, gendr.Camera]:
    mesh, camera = _coloured(_ball(device, 2)), _cameras(device, count)
    renderer = gendr.Renderer(size, "heaviside", "max", shading="hard", lighting="none").to(device)
    out = renderer(mesh, camera)
    return out.alpha, out.rgb, camera


def fit_from_a_sphere(device: Device) -> list[Tensor]:
    """Fit a sphere to masks, and once more from a state on the way."""
    masks, _, camera = _masks(device, 24, 4)
    states: list[Any] = []
    settings = gendr.FitSettings(steps=3, subdivisions=1)
    gendr.fit(masks, camera, settings, callback=states.append)
    found = gendr.fit(masks, camera, settings, resume=states[1])
    return [found.mesh.vertices]


def fit_from_the_hull(device: Device) -> list[Tensor]:
    """Fit the visual hull to masks, with remeshing."""
    masks, _, camera = _masks(device, 24, 4)
    return [gendr.fit(masks, camera, init="hull", steps=2).mesh.vertices]


def fit_colours(device: Device) -> list[Tensor]:
    """Fit colours of vertices, and a texture."""
    masks, rgb, camera = _masks(device, 24, 4)
    mesh = _ball(device, 1)
    by = [
        gendr.fit_colors(mesh, rgb, camera, masks, kind="vertex"),
        gendr.fit_colors(mesh, rgb, camera, kind="texture", texture_size=32, exposure=True),
    ]
    return [x for found in by for x in (found.mesh.vertices, found.psnr)]


def refine(device: Device) -> list[Tensor]:
    """Refine a shape after photos: by stereo and steps, and once more from the last state kept."""
    ball = _ball(device, 2)
    painted = ball.with_vertex_colors(pattern(ball.vertices.cpu(), 0).to(device))
    camera = gendr.look_at(4.0, 20.0, 60.0 * torch.arange(6, device=device))
    photos = gendr.Renderer(24, "heaviside", "max", shading="hard", lighting="none").to(device)
    out, told = photos(painted, camera), list[Progress]()
    given = ball.scaled(0.9), out.rgb, camera, out.alpha
    found = gendr.refine_shape(*given, steps=1, callback=told.append)
    again = gendr.refine_shape(*given, steps=1, resume=told[-1].state)
    if not found.improved:
        raise ValueError("photos of a pattern have not moved the surface")
    return [x for part in (found, again) for x in (part.mesh.vertices, part.mesh.faces)]


def hull(device: Device) -> list[Tensor]:
    """The visual hull of masks, and which masks contradict the others."""
    masks, _, camera = _masks(device, 24, 8)
    masks[3] = 0
    if suspicious_masks(camera, masks) != [3]:
        raise ValueError("the mask that is empty is not the one that is doubted")
    return [gendr.photos.visual_hull(camera[:3], masks[:3]).vertices]


def cameras(device: Device) -> list[Tensor]:
    """Put poses right, by outlines and by colours."""
    masks, rgb, camera = _masks(device, 32, 8)
    found = gendr.refine_cameras(masks, camera, rgb)
    return [found.camera.rotation, found.camera.translation]


def primitives(device: Device) -> list[Tensor]:
    """Rasterize, interpolate, texture, antialias, and a second layer, forward and backward."""
    pos = torch.tensor([[-0.8, -0.8, 0.0, 1], [0.8, -0.8, 0.1, 1], [0.0, 0.8, 0.2, 1]])
    pos = pos[None].to(device).requires_grad_()
    tri = torch.tensor([[0, 1, 2]], dtype=torch.int32, device=device)
    uvs = pos[0, :, :2].detach() / 2 + 0.5
    texture = torch.rand(1, 8, 8, 3, generator=torch.Generator().manual_seed(0)).to(device)
    texture.requires_grad_()
    context = dr.RasterizeCudaContext()
    rast, rast_db = dr.rasterize(context, pos, tri, resolution=[16, 16])
    uv, uv_da = dr.interpolate(uvs[None], rast, tri, rast_db=rast_db, diff_attrs="all")
    color = dr.texture(texture, uv, uv_da, filter_mode="linear-mipmap-linear")
    color = dr.antialias(color, rast, pos, tri)
    with dr.DepthPeeler(context, pos, tri, [16, 16]) as peeler:
        layers = [peeler.rasterize_next_layer()[0] for _ in range(2)]
    return [color, *layers, *_slopes([color], [pos, texture])]


def splatting(device: Device) -> list[Tensor]:
    """Train splats on photos, from the hull and from cameras, then opaque triangles."""
    masks, rgb, camera = _masks(device, 24, 4)
    white = torch.ones(3, device=device)
    photos = Photos(rgb + 1 - masks[:, None], masks, camera, tuple("abcd"), white)
    settings = SplatSettings(steps=2, triangles=40, renew_every=1)
    training = fit_splats(photos, settings, held_out=photos[[0]])
    with tempfile.TemporaryDirectory() as folder:
        training.save(Path(folder) / "a.pt")
        more = replace(settings, steps=3)
        training = fit_splats(photos, more, held_out=photos[[0]], resume=Path(folder) / "a.pt")
    found = [*training.splats().render(camera, 24), from_cameras(photos, 20).vertices]
    return [*found, fit_triangles(photos, settings, training.splats()).mesh().vertices]


# Poses are searched for among few.
_FEW: dict[str, Any] = {
    "starts": 2, "finalists": 2, "steps": 1, "track_steps": 1, "directions": 16, "turns": 4,
    "alike": 1e-4, "polish_steps": 1,
}  # fmt: skip


def _brick(device: Device) -> gendr.Mesh:
    """A box of 12 faces, none of whose sides is as long as another."""
    mesh = gendr.mesh.cube().to(device)
    return mesh.with_vertices(mesh.vertices * torch.tensor([1.0, 0.6, 0.3], device=device))


def pose(device: Device) -> list[Tensor]:
    """Find the pose of a mask."""
    mesh, camera = _brick(device), gendr.look_at(8.0, 25.0, 40.0, device=device)
    mask = gendr.Renderer(24, "heaviside", "max", near=1e-2)(mesh, camera).alpha
    found = gendr.fit_pose(mesh, mask, **_FEW)
    return [found.camera.rotation, found.iou]


def pose_of_a_video(device: Device) -> list[Tensor]:
    """Find the poses of a video, whose angle of view is unknown, and of a rig."""
    mesh, turns = _brick(device), torch.tensor([40.0, 42.0], device=device)
    camera = gendr.look_at(8.0, 25.0, turns, device=device)
    masks = gendr.Renderer(24, "heaviside", "max", near=1e-2)(mesh, camera).alpha
    found = gendr.fit_pose(mesh, masks, track=True, fov=None, **_FEW)
    rig = gendr.fit_pose(mesh, masks, rig=camera, find_scale=True, **_FEW)
    return [found.camera.rotation, found.iou, rig.camera.rotation, rig.iou]


def sorting(device: Device) -> list[Tensor]:
    """Sort by every method."""
    found: list[Tensor] = []
    for name in gendr.sorting.names():
        if name == "network":  # one of the user's, which there is none of
            continue
        x = torch.rand(3, 5, generator=torch.Generator().manual_seed(0)).to(device).requires_grad_()
        options = {} if name in ("fast_soft_rank", "permutahedron") else {"steepness": 5.0}
        out = gendr.sorting.get(name, **options).values(x)
        found += [out, *_slopes([out], [x])]
    return found


def topk(device: Device) -> list[Tensor]:
    """Select by every method, and compute the mask and the losses."""
    from gendr import topk as of

    x = torch.rand(3, 20, generator=torch.Generator().manual_seed(0)).to(device).requires_grad_()
    labels = torch.arange(3, device=device)
    mask = of.soft_topk_mask(x, 5, scale=0.1)
    found = [mask]
    for name in of.names():
        out = of.soft_topk(x, 3, name, steepness=5.0)
        found += [out.values] if name == "permutahedron" else [out.values, out.attribution]
    for method in ("splitter", "neuralsort"):
        found.append(of.TopKCrossEntropy([0.5, 0.5], method).to(device)(x, labels))
    found.append(of.SmoothTopKSVM(2)(x, labels))
    return [*found, *_slopes(found, [x])]


@gendr.relax
def thermostat(temperature: Any, target: Any, steps: Any = 3) -> Any:
    """Heat or cool for some steps; the program of the documentation."""
    minutes = 0
    for _ in range(steps):
        if temperature < target:
            temperature = temperature + 1.0
            minutes += 1
        else:
            temperature = temperature - 0.4
    return temperature, minutes


def programs(device: Device) -> list[Tensor]:
    """Run a relaxed program, and one of a textbook."""
    from gendr.relaxed import programs as of

    start = torch.tensor([14.0, 18.5], device=device, requires_grad=True)
    costs = torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(0)).to(device)
    costs.requires_grad_()
    found = [*thermostat(start, 20.0, scale=0.3), of.shortest_path(costs, scale=0.1)]
    return [*found, *_slopes(found, [start, costs])]


def algorithms(device: Device) -> list[Tensor]:
    """Run the textbook programs, each as one operation."""
    from gendr import relaxed as of

    generator = torch.Generator().manual_seed(0)
    costs, a, b = (torch.rand(2, 3, n, generator=generator).to(device) for n in (3, 2, 2))
    costs.requires_grad_()
    a.requires_grad_()
    words = torch.softmax(torch.rand(2, 4, 3, generator=generator), -1).to(device)
    x = torch.rand(2, 4, generator=generator).to(device).requires_grad_()
    found = [
        of.shortest_path(costs), of.dynamic_time_warping(a, b), of.bubble_sort(x)[0],
        of.levenshtein(words, words.flip(1)),
    ]  # fmt: skip
    found = [x[0] if isinstance(x, tuple) else x for x in found]
    return [*found, *_slopes(found, [costs, a, x])]


def estimators(device: Device) -> list[Tensor]:
    """Estimate gradients of a function of NumPy, and compute second-order losses of them."""
    from gendr.optim import RESGRO, NewtonLoss
    from gendr.relaxed.estimators import FenchelYoungLoss, SmoothedLoss

    def order(x: np.ndarray) -> np.ndarray:
        return x.argsort(-1).argsort(-1).astype(x.dtype)

    def apart(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.square(order(x) - y).mean(-1)

    x = torch.rand(4, 3, generator=torch.Generator().manual_seed(0)).to(device).requires_grad_()
    target = torch.tensor([0.0, 2.0, 1.0], device=device).expand(4, 3)
    smoothed = SmoothedLoss(apart, samples=4, scale=0.5, batched=True)
    perturbed = FenchelYoungLoss(order, minimize=False, samples=4, scale=0.5, batched=True)
    found = [
        NewtonLoss(smoothed, "fisher")(x, target), NewtonLoss(perturbed, "hessian")(x, target),
        RESGRO(apart, k=2, m=6, scale=0.3, batched=True)(x, target),
    ]  # fmt: skip
    return [*found, *_slopes(found, [x])]


def optimisers(device: Device) -> list[Tensor]:
    """Make a split step, a Newton loss and a step of Adam with equal steps."""
    from gendr.optim import (
        NewtonLoss,
        NewtonStep,
        SoftmaxCrossEntropy,
        SplitOptimizer,
        SplitPoint,
        UniformAdam,
    )

    torch.manual_seed(0)
    middle = SplitPoint(NewtonStep("fisher"))
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), middle, nn.Linear(8, 3)).to(device)
    adam = torch.optim.Adam(model.parameters())
    split = SplitOptimizer(adam, NewtonStep("hessian"))
    x, labels = torch.randn(6, 4).to(device), torch.arange(6, device=device) % 3
    split.zero_grad()
    value = split.backward(model(x), SoftmaxCrossEntropy(), labels)
    split.step()
    parameter = nn.Parameter(torch.ones(3, 3, device=device))
    loss = NewtonLoss(SoftmaxCrossEntropy(), "hessian")(parameter, labels[:3])
    loss.backward()
    UniformAdam([parameter], lr=0.1).step()
    return [torch.as_tensor(value, device=device), loss, parameter]


def gates(device: Device) -> list[Tensor]:
    """Train logic layers for tables and images by a step, and compare them with their circuits."""
    from gendr import logic as of

    torch.manual_seed(0)
    flat = nn.Sequential(
        of.Binarize(0.5), of.LogicLayer(4, 12), of.LogicLayer(12, 12, wiring="learnable"),
        of.GroupSum(2, tau=2.0),
    ).to(device)  # fmt: skip
    image = nn.Sequential(
        of.Thermometer([0.3, 0.6], dim=-3), of.LogicConv2d(2, 4, kernel_size=3, padding=1),
        of.OrPool2d(2), nn.Flatten(), of.LogicLayer(16, 12), of.GroupSum(2),
    ).to(device)  # fmt: skip
    found: list[Tensor] = []
    for model, shape in ((flat, (4,)), (image, (1, 4, 4))):
        x, labels = torch.rand(5, *shape).to(device), torch.arange(5, device=device) % 2
        parameters = list(model.parameters())
        adam = torch.optim.Adam(parameters, 0.1)
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        adam.step()
        found += [loss, *parameters]
        circuit = of.harden(model, input_shape=shape if len(shape) > 1 else None)
        found.append(torch.as_tensor(circuit(x.flatten(1))).to(device) - model.eval()(x))
        if bool(found[-1].any()):
            raise ValueError("a circuit differs from its network")
    return found


def reconstruction(device: Device) -> list[Tensor]:
    """Reconstruct meshes by the network, and render them, with gradients."""
    from lab.reconstruction import Reconstructor, camera_of_view

    torch.manual_seed(0)
    model = Reconstructor().to(device)
    mesh = model(torch.rand(2, 4, 64, 64).to(device))
    mesh = mesh if isinstance(mesh, gendr.Mesh) else model.mesh(torch.rand(2, 4, 64, 64).to(device))
    camera = camera_of_view(torch.arange(2)).to(device)
    out = gendr.Renderer(16, scale=1e-2).to(device)(mesh, camera).alpha
    return [out, *_slopes([out], [next(model.parameters())])]


ENTRIES: dict[str, Callable[[Device], list[Tensor]]] = {
    x.__name__: x
    for x in (
        silhouette, alpha, own_cdf, colours, colours_over_alpha, hard_images, textures, compiled,
        scale_suggested, meshes, losses, surfaces, fit_from_a_sphere, fit_from_the_hull,
        fit_colours, refine, hull, cameras, primitives, splatting, pose, pose_of_a_video, sorting,
        topk, programs, algorithms, estimators, optimisers, gates, reconstruction,
    )
}  # fmt: skip


def wrong_with(found: Iterable[Tensor], device: torch.device) -> str:
    """What is wrong with the tensors of an entry, "" if nothing is."""
    for i, x in enumerate(found):
        if x.device.type != device.type:
            return f"result {i} is on {x.device}"
        if bool(torch.isnan(x).any()):
            return f"result {i} has NaN"
    return ""
