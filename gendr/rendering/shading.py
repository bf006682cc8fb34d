"""Stage 4, shading: the colours of fragments, and their softmax over depth.

All backends share this code; they differ in which (pixel, face) pairs they list. A backend may
also compute softmax colours by a fused kernel of its own (`Backend.softmax`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gendr._runtime.ranges import quotient, saturated
from gendr._runtime.tracing import lazy, once
from gendr.rendering.coverage import Coverage
from gendr.rendering.fragments import PixelPairs, interpolation_weights, recomputed
from gendr.rendering.geometry import Geometry, ImageSize, LateGeometry, ScreenFaces, Surfaces
from gendr.tnorms.groups import Segments

if TYPE_CHECKING:
    from gendr.mesh import Camera, Lighting, Mesh
    from gendr.rendering.backends.interface import Backend


@dataclass(frozen=True)
class Blending:
    """How the colours of a pixel are blended: softmax(depth / gamma) with a background at eps.

    Attributes:
        near: depth of the near plane, world units.
        far: depth of the far plane, world units.
        gamma: temperature of the softmax over normalised depth; > 0, may be a tensor.
        eps: normalised depth of the background, in [0, 1].
        background: [3] RGB.
    """

    near: float
    far: float
    gamma: float | Tensor
    eps: float
    background: Tensor

    def without_background(self) -> Blending:
        """The same with a black background whose weight is negligible beside any fragment.

        It is so far behind that its weight underflows in float64.
        """
        gamma = float(torch.as_tensor(self.gamma).detach())
        return replace(self, eps=-2000 * gamma, background=torch.zeros_like(self.background))


@dataclass(frozen=True)
class Texture:
    """The places of the corners of faces in the textures of their images.

    Attributes:
        uvs: [T, 3, 2], u right and v up.
        texels: [N, 3] RGB of all textures, one after the other, row by row from the top.
        place: [B, 3] int64, first texel, height and width of the texture of every image.
    """

    uvs: Tensor
    texels: Tensor
    place: Tensor


@dataclass(frozen=True)
class Gloss:
    """The light of a scene, if it changes over a face.

    Attributes:
        lighting: the light, and how surfaces reflect it.
        normals: [T, 3, 3] of the corners, flipped to the side that is seen if the light is
            two-sided.
        positions: [T, 3, 3] of the corners, world frame.
        directions: [B, 3] unit vectors to the light.
        viewpoints: [B, 3] eyes, or for orthographic cameras unit vectors to them.
        orthographic: whether viewpoints are such unit vectors.
    """

    lighting: Lighting
    normals: Tensor
    positions: Tensor
    directions: Tensor
    viewpoints: Tensor
    orthographic: bool


@dataclass(frozen=True)
class Scene:
    """A batch of projected meshes, with all that shading needs.

    Attributes:
        given_lighting: the light as the renderer has it; `lighting` is as the cameras see it.
    """

    mesh: Mesh
    camera: Camera
    geometry: Geometry | LateGeometry
    size: ImageSize
    backend: Backend
    given_lighting: Lighting | None

    @lazy
    def lighting(self) -> Lighting | None:
        """The light, with its direction in the world."""
        light = self.given_lighting
        return None if light is None else light.seen_by(self.camera)

    @property
    def faces(self) -> ScreenFaces:
        """The faces on the screen."""
        return self.geometry.faces

    @property
    def surfaces(self) -> Surfaces:
        """The faces in space."""
        return self.geometry.surfaces

    def gather(self, values: Tensor, index: Tensor) -> Tensor:
        """values[index], through the backend."""
        return self.backend.gather(values, index)

    def interpolation(self, points: Tensor, face: Tensor) -> tuple[Tensor, Tensor]:
        """Perspective-correct weights [K, 3] of the corners, and depth [K], of fragments."""
        surfaces = self.surfaces
        cut = None if surfaces.was_clipped is None else surfaces.was_clipped[face]
        return interpolation_weights(
            points,
            self.gather(self.faces.corners, face),
            self.gather(surfaces.clip, face),
            self.gather(surfaces.depth, face),
            cut,
        )

    @lazy
    def texels(self) -> tuple[Tensor, Tensor, Tensor]:
        """All textures as one list of texels [N, 3], and start and size of each mesh's texture."""
        textures = self.mesh.textures
        assert textures is not None  # callers test this first
        distinct = {id(t): t for t in textures}
        starts, total = {}, 0
        for key, texture in distinct.items():
            starts[key] = total
            total += texture.shape[0] * texture.shape[1]
        device = self.mesh.device
        flat = torch.cat([t.reshape(-1, 3) for t in distinct.values()])
        start = torch.tensor([starts[id(t)] for t in textures], device=device)
        sizes = torch.tensor([t.shape[:2] for t in textures], device=device)
        return flat, start, sizes

    def _sampled(self, uv: Tensor, mesh_of: Tensor) -> Tensor:
        """Bilinear texture lookup [K, 3]; textures repeat beyond [0, 1], as in OBJ and glTF."""
        texels, starts, sizes = self.texels
        height, width = sizes[mesh_of].unbind(-1)
        # Texel i of n has its centre at (i + 1/2) / n; v counts from the bottom row.
        x = uv[:, 0] * width - 0.5
        y = (1 - uv[:, 1]) * height - 0.5
        x0, y0 = x.detach().floor(), y.detach().floor()
        fx, fy = (x - x0).unsqueeze(-1), (y - y0).unsqueeze(-1)
        column, row, start = x0.to(torch.int64), y0.to(torch.int64), starts[mesh_of]

        def texel(dy: int, dx: int) -> Tensor:
            index = ((row + dy) % height) * width + (column + dx) % width
            return self.gather(texels, start + index)

        top = texel(0, 0) * (1 - fx) + texel(0, 1) * fx
        bottom = texel(1, 0) * (1 - fx) + texel(1, 1) * fx
        return top * (1 - fy) + bottom * fy

    def _at_corners(self, values: Tensor, index: Tensor, weights: Tensor) -> Tensor:
        """Interpolate rows of `values` at the corners `index` [K, 3] -> [K, C]."""
        corners = self.gather(values, index.reshape(-1)).reshape(*index.shape, values.shape[-1])
        return (corners * weights.unsqueeze(-1)).sum(1)

    def albedo(self, source: Tensor, image: Tensor, weights: Tensor) -> Tensor:
        """Colour of the surface [K, 3]: the product of texture, vertex and face colours."""
        mesh = self.mesh
        colour = weights.new_ones(len(source), 3)
        if mesh.vertex_colors is not None:
            corners = mesh.faces[source]
            colour = colour * self._at_corners(mesh.vertex_colors, corners, weights)
        if mesh.face_colors is not None:
            colour = colour * self.gather(mesh.face_colors, source)
        if self.is_textured and mesh.uvs is not None and mesh.face_uvs is not None:
            uv = self._at_corners(mesh.uvs, mesh.face_uvs[source], weights)
            mesh_of = image if len(mesh) > 1 else torch.zeros_like(image)
            colour = colour * self._sampled(uv, mesh_of)
        return colour

    def normals(self, source: Tensor, weights: Tensor) -> Tensor:
        """Unit normals [K, 3] in the world: interpolated vertex normals, or those of faces."""
        smooth = self.lighting is not None and self.lighting.smooth
        if not smooth:
            return self.gather(self.face_normals, source)
        mixed = self._at_corners(self.vertex_normals, self.mesh.faces[source], weights)
        square = (mixed * mixed).sum(-1, keepdim=True)
        return mixed / torch.where(square > 0, square, 1.0).sqrt()

    @lazy
    def face_normals(self) -> Tensor:
        """Unit normals of the faces of the mesh."""
        return self.mesh.face_normals

    @lazy
    def vertex_normals(self) -> Tensor:
        """Unit normals of the vertices of the mesh."""
        return self.mesh.vertex_normals

    @once
    def image(self) -> Tensor:
        """The image [T] of every face."""
        source = self.surfaces.source
        counts = torch.tensor(self.faces.counts, dtype=torch.int64, device=source.device)
        images = torch.arange(self.faces.images, device=source.device)
        return images.repeat_interleave(counts, output_size=len(source))

    @lazy
    def away(self) -> Tensor:
        """[T] bool, whether the eye is behind a face, on the side opposite to its normal."""
        all_normals, viewpoints = self.face_normals, self.viewpoints  # read as others will
        with torch.no_grad():
            source = self.surfaces.source
            normals = all_normals.index_select(0, source)
            first = self.mesh.vertices[self.mesh.faces[source, 0]]
            to_eye = viewpoints.index_select(0, self.image)
            if not self.camera.orthographic:
                to_eye = to_eye - first
            return (normals * to_eye).sum(-1) < 0

    @lazy
    def viewpoints(self) -> Tensor:
        """The eye of every image [B, 3], or for orthographic cameras the direction to it."""
        seen = -self.camera.ahead if self.camera.orthographic else self.camera.eye
        return seen.expand(self.faces.images, 3)

    @property
    def is_textured(self) -> bool:
        """Whether there are textures and UVs."""
        return self.mesh.textures is not None and self.mesh.uvs is not None

    @property
    def is_glossy(self) -> bool:
        """Whether the light changes over a face, as with smooth normals or highlights."""
        light = self.lighting
        return light is not None and (light.smooth or light.specular > 0)

    def _to_eye(self, source: Tensor, image: Tensor, weights: Tensor) -> Tensor:
        """Unit vectors [K, 3] from surface points to the eye."""
        camera = image if len(self.camera) > 1 else torch.zeros_like(image)
        if self.camera.orthographic:
            return -self.gather(self.camera.ahead, camera)
        eye = self.gather(self.camera.eye, camera)
        position = self._at_corners(self.mesh.vertices, self.mesh.faces[source], weights)
        return torch.nn.functional.normalize(eye - position, dim=-1)

    def colours(self, pixels: Tensor, face: Tensor, weights: Tensor) -> Tensor:
        """Lit colours [K, 3] of fragments."""
        image, source = self.size.image_of(pixels), self.surfaces.source[face]
        albedo = self.albedo(source, image, weights)
        if self.lighting is None:
            return albedo
        normals = self.normals(source, weights)
        needs_eye = self.lighting.specular > 0
        to_eye = self._to_eye(source, image, weights) if needs_eye else normals
        away = self.away[face] if self.lighting.two_sided else None
        return self.lighting.shade(albedo, normals, to_eye, image, away)


@dataclass(frozen=True, eq=False)
class Appearance:
    """The looks of all faces as values at their corners, for kernels that fuse shading.

    Everything is interpolated by the perspective-correct weights of a fragment. The colour of a
    fragment is that of the corners, times that of the texture, lit by `gloss`. Each part is
    computed when it is first read.

    Attributes:
        scene: the scene of the faces.
    """

    scene: Scene

    @property
    def is_linear(self) -> bool:
        """Whether the look consists of `colours` alone, without texture and gloss."""
        return not self.scene.is_textured and not self.scene.is_glossy

    @lazy
    def colours(self) -> Tensor:
        """[T, 3, 3] RGB; lit already if the light is constant on a face."""
        scene, source = self.scene, self.scene.surfaces.source
        colours = scene.mesh.corner_colors
        if colours is None:
            colours = scene.mesh.vertices.new_ones(1, 1, 3).expand(len(source), 3, 3)
        else:
            colours = scene.gather(colours.reshape(-1, 9), source).reshape(-1, 3, 3)
        light = scene.lighting
        if light is None or scene.is_glossy:
            return colours
        normals = scene.gather(scene.face_normals, source)
        lit = light.shade(torch.ones_like(normals), normals, normals, scene.image, scene.away)
        return colours * lit.unsqueeze(1)

    @lazy
    def texture(self) -> Texture | None:
        """The places of the corners in textures; None without textures."""
        scene, uvs = self.scene, self.scene.mesh.corner_uvs
        if not scene.is_textured or uvs is None:
            return None
        uvs = scene.gather(uvs.reshape(-1, 6), scene.surfaces.source).reshape(-1, 3, 2)
        texels, starts, sizes = scene.texels
        place = torch.cat([starts.unsqueeze(-1), sizes], -1)
        return Texture(uvs, texels, place.expand(scene.faces.images, 3))

    @lazy
    def gloss(self) -> Gloss | None:
        """The light, if it changes over a face, or None."""
        scene, mesh, light = self.scene, self.scene.mesh, self.scene.lighting
        if light is None or not scene.is_glossy:
            return None
        source = scene.surfaces.source
        if light.smooth:
            corners = mesh.faces[source].reshape(-1)
            normals = scene.gather(scene.vertex_normals, corners).reshape(-1, 3, 3)
        else:
            normals = scene.gather(scene.face_normals, source).unsqueeze(1).expand(-1, 3, 3)
        if light.two_sided:
            normals = torch.where(scene.away[:, None, None], -normals, normals)
        positions = scene.gather(mesh.face_vertices.reshape(-1, 9), source).reshape(-1, 3, 3)
        directions = light.directions(mesh.vertices)
        images = torch.arange(scene.faces.images, device=source.device)
        return Gloss(
            light,
            normals,
            positions,
            directions[images % len(directions)],
            scene.viewpoints,
            scene.camera.orthographic,
        )


def softmax_rgb(scene: Scene, coverage: Coverage, blending: Blending, limit: int) -> Tensor:
    """Colours [B, H, W, 3]: (sum a e^(zeta/gamma) c + e^(eps/gamma) c_bg) / (same without c).

    zeta = (far - z) / (far - near) is 1 at the near plane and 0 at the far plane. Source: the
    contract, stage 4; Liu et al., Soft Rasterizer (2019), the softmax over depth.
    """
    fused = None if coverage.has_own_cdf else _fused_softmax(scene, coverage, blending)
    if fused is not None:
        return fused
    faces, size, blend = scene.faces, scene.size, blending
    _prepare(scene)

    def run(listing: Callable[[], PixelPairs]) -> Tensor:
        pixels, face, first, last = listing()
        scale = scene.gather(coverage.scale, size.image_of(pixels))
        a, _ = coverage.of(scene.backend.distance(faces, size, pixels, face), scale)
        kept = (a.detach() > 0).nonzero().squeeze(-1)
        if len(kept) < len(a):
            a, pixels, face = a[kept], pixels[kept], face[kept]
        weights, z = scene.interpolation(size.centres(pixels, a.dtype), face)
        colours = scene.colours(pixels, face, weights)
        zeta = (blend.far - z) / (blend.far - blend.near)
        group = Segments(pixels - first, last - first)
        top = group.max(zeta.detach()).clamp(min=blend.eps)
        top = torch.where(group.count(zeta) > 0, top, blend.eps)
        exponent, behind = (zeta - group.expand(top)) / blend.gamma, (blend.eps - top) / blend.gamma
        height, background = torch.exp(exponent), torch.exp(behind)
        lift = _lift(group.sum(a.detach() * height.detach()) + background)
        if bool(lift.any()):
            height = torch.exp(exponent + group.expand(lift))
            background = torch.exp(behind + lift)
        share, background = saturated(a) * height, background.unsqueeze(-1)
        weighted = group.sum(share.unsqueeze(-1) * colours) + background * blend.background
        return quotient(weighted, group.sum(share).unsqueeze(-1) + background)

    runs = scene.backend.pairs(faces, size, coverage.radius(), limit)
    none = faces.corners.reshape(-1)[:0].reshape(0, 3)  # what a batch of 0 images is made of
    rgb = torch.cat([none, *recomputed(run, runs)])
    return rgb.reshape(faces.images, size.height, size.width, 3)


def _lift(total: Tensor) -> Tensor:
    """What to add to the exponents of a pixel so that their sum of weights is not tiny; 0 for most.

    Where faces cover a pixel hardly at all and the background is far behind, 1 / sum overflows.
    """
    power = 100 if total.dtype == torch.float32 else 900
    return torch.where(total < 2.0**-power, power * math.log(2), torch.zeros_like(total))


def _fused_softmax(scene: Scene, coverage: Coverage, blending: Blending) -> Tensor | None:
    """`softmax_rgb` by the backend's fused kernel; None if it has none for this scene."""
    blend, size, faces = blending, scene.size, scene.faces
    depth = blend.far - blend.near
    corners = faces.corners
    gamma = torch.as_tensor(blend.gamma, dtype=corners.dtype, device=corners.device)
    rate = 1 / (depth * gamma)
    found = scene.backend.softmax(
        faces,
        scene.surfaces,
        Appearance(scene),
        size,
        coverage,
        rate,
        blend.far - blend.eps * depth,
    )
    if found is None:
        return None
    colours, share = found
    rgb = colours + share.unsqueeze(-1) * blend.background
    return rgb.reshape(faces.images, size.height, size.width, 3)


def closest_faces(
    scene: Scene, coverage: Coverage, wanted: Tensor, limit: int
) -> tuple[Tensor, Tensor]:
    """For pixels that no face covers, find the face that is nearest to them in the image.

    If several faces are equally near, as at a common edge, faces towards the camera come first, and
    then the order of the faces decides.

    Args:
        scene: the scene.
        coverage: how far faces reach.
        wanted: [P] bool, the pixels for which to look.
        limit: how many pairs are listed at a time.

    Returns:
        Those of the pixels [K] that a face reaches, and the packed indices of these faces [K].
    """
    faces, size = scene.faces, scene.size
    count = len(faces.corners)
    found: list[tuple[Tensor, Tensor]] = []
    with torch.no_grad():
        a, b, c = faces.corners[:, :3].unbind(1)
        ahead = b - a, c - a
        turned = ahead[0][:, 0] * ahead[1][:, 1] < ahead[0][:, 1] * ahead[1][:, 0]
        rank = torch.arange(count, device=turned.device) + turned * count
        for listing in scene.backend.pairs(faces, size, coverage.radius(), limit):
            pixels, face, first, last = listing()
            kept = wanted[pixels].nonzero().squeeze(-1)
            pixels, face = pixels[kept], face[kept]
            d = scene.backend.distance(faces, size, pixels, face)
            group = Segments(pixels - first, last - first)
            nearest = d.new_full((last - first,), -torch.inf)
            nearest = nearest.scatter_reduce(0, group.index, d, "amax")
            tied = (d == group.expand(nearest)).nonzero().squeeze(-1)
            best = rank.new_full((last - first,), 2 * count)
            best = best.scatter_reduce(0, group.index[tied], rank[face[tied]], "amin")
            some = (best < 2 * count).nonzero().squeeze(-1)
            found.append((some + first, best[some] % count))
    if not found:
        none = torch.zeros(0, dtype=torch.int64, device=faces.corners.device)
        return none, none
    return torch.cat([p for p, _ in found]), torch.cat([f for _, f in found])


def _prepare(scene: Scene) -> None:
    """Compute what all runs share before the first of them is checkpointed."""
    if scene.is_textured:
        _ = scene.texels
    if scene.lighting is not None:
        _ = scene.vertex_normals if scene.lighting.smooth else scene.face_normals
        _ = scene.away


def depth_planes(scene: Scene, near: float, far: float) -> tuple[Tensor, Tensor]:
    """The depth keys p x + q y + r of faces, as (p, q, r) [T, 3]; keys grow towards the camera.

    For perspective cameras the key is 1/z, which is affine on the screen, for orthographic ones -z.
    All is float64. The second result [T, 3] holds the least and the greatest key of each face, and
    the key of the far plane.
    """
    faces = scene.surfaces
    with torch.no_grad():
        clip, z = faces.clip.double(), faces.depth.double().clamp(near, far)
        if scene.camera.orthographic:
            xyz = torch.stack([clip[..., 0], clip[..., 1], faces.depth.double()], -1)
            n, c = _plane(xyz)
            steep = n[:, 2:] == 0
            plane = torch.cat([n[:, :2], -c], -1) / torch.where(steep, 1.0, n[:, 2:])
            keys, end = -z, -far
        else:
            n, c = _plane(clip)
            plane = n / torch.where(c == 0, 1.0, c)
            keys, end = 1 / z, 1 / far
        limits = torch.stack([keys.amin(-1), keys.amax(-1), torch.full_like(z[:, 0], end)], -1)
    return plane, limits


def _plane(corners: Tensor) -> tuple[Tensor, Tensor]:
    """Normal [T, 3] and offset [T, 1] of the planes through the corners [T, 3, 3]."""
    a, b, c = corners.unbind(1)
    normal = torch.linalg.cross(b - a, c - a)
    return normal, (normal * a).sum(-1, keepdim=True)
