"""Stage 4, shading: the colours of fragments, and their softmax over depth.

All backends share this code; they differ in which (pixel, face) pairs they list. A backend may
also compute softmax colours by a fused kernel of its own (`Backend.softmax`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import normalize

from gendr._common.ranges import quotient, saturated
from gendr._common.tracing import lazy, once
from gendr.primitives import texture, texture_construct_mip
from gendr.rendering.coverage import Coverage
from gendr.rendering.fragments import PixelPairs, interpolation_weights, recomputed
from gendr.rendering.geometry import (
    Geometry,
    ImageSize,
    ScreenFaces,
    Surfaces,
    raster_positions,
)
from gendr.tnorms.groups import Segments

if TYPE_CHECKING:
    from gendr.mesh import Camera, Lighting, Mesh
    from gendr.primitives.texture import Mipmaps
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
        gamma = float(torch.as_tensor(self.gamma, device="cpu").detach())
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
        mipmaps: whether textures are sampled by mipmaps.
    """

    mesh: Mesh
    camera: Camera
    geometry: Geometry
    size: ImageSize
    backend: Backend
    given_lighting: Lighting | None
    mipmaps: bool = False

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

    @property
    def is_smooth(self) -> bool:
        """Whether normals are those of vertices, interpolated."""
        return self.lighting is not None and self.lighting.smooth

    def normals_at(self, face: Tensor, weights: Tensor) -> Tensor:
        """Unit normals [K, 3] of fragments in the world: interpolated, or those of faces."""
        if not self.is_smooth:
            return self.gather(self.face_normals, self.surfaces.source[face])
        return _unit(self._mixed(self.corner_normals, face, weights))

    @lazy
    def corner_normals(self) -> Tensor:
        """Unit normals [T, 3, 3] of the corners of the faces: of vertices, or of the face."""
        source = self.surfaces.source
        if not self.is_smooth:
            return self.gather(self.face_normals, source).unsqueeze(1).expand(-1, 3, 3)
        corners = self.mesh.faces[source].reshape(-1)
        return self.gather(self.mesh.vertex_normals, corners).reshape(-1, 3, 3)

    @lazy
    def face_normals(self) -> Tensor:
        """Unit normals of the faces of the mesh."""
        return self.mesh.face_normals

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

    # The looks of all faces as values at their corners. Everything is interpolated by the
    # perspective-correct weights of a fragment: its colour is that of the corners, times that of
    # the texture, lit by `gloss`.

    @property
    def is_linear(self) -> bool:
        """Whether the look consists of `colours` alone, without texture and gloss."""
        return not self.is_textured and not self.is_glossy

    @property
    def is_flat(self) -> bool:
        """Whether every face has one colour, so that nothing is interpolated."""
        return self.is_linear and self.mesh.vertex_colors is None

    @lazy
    def colours(self) -> Tensor:
        """[T, 3, 3] RGB; lit already if the light is constant on a face."""
        source = self.surfaces.source
        colours = self.mesh.corner_colors
        if colours is None:
            colours = self.mesh.vertices.new_ones(1, 1, 3).expand(len(source), 3, 3)
        else:
            colours = self.gather(colours.reshape(-1, 9), source).reshape(-1, 3, 3)
        light = self.lighting
        if light is None or self.is_glossy:
            return colours
        normals = self.gather(self.face_normals, source)
        lit = light.shade(torch.ones_like(normals), normals, normals, self.image, self.away)
        return colours * lit.unsqueeze(1)

    @lazy
    def texture(self) -> Texture | None:
        """The places of the corners in textures; None without textures."""
        uvs = self.mesh.corner_uvs
        if not self.is_textured or uvs is None:
            return None
        uvs = self.gather(uvs.reshape(-1, 6), self.surfaces.source).reshape(-1, 3, 2)
        textures = self.mesh.textures
        assert textures is not None  # it is textured
        # A texture of several meshes is stored once.
        distinct = {id(x): x for x in textures}
        firsts = accumulate((x.shape[0] * x.shape[1] for x in distinct.values()), initial=0)
        starts = dict(zip(distinct, firsts, strict=False))
        texels = torch.cat([x.reshape(-1, 3) for x in distinct.values()])
        place = [(starts[id(x)], *x.shape[:2]) for x in textures]
        place = torch.tensor(place, device=texels.device).reshape(-1, 3)
        return Texture(uvs, texels, place.expand(self.faces.images, 3))

    @lazy
    def stacks(self) -> tuple[list[tuple[Tensor, Mipmaps]], Tensor]:
        """The distinct textures [1, H, W, 3] with their mipmaps, and which of them images have.

        Levels are made as long as both sides are even or 1.
        """
        textures = self.mesh.textures
        assert textures is not None  # it is textured
        distinct = {id(x): x for x in textures}
        numbers = {key: k for k, key in enumerate(distinct)}
        stacks = []
        for x in distinct.values():
            tex, size, most = x.unsqueeze(0), [*x.shape[:2]], 0
            while max(size) > 1 and all(side == 1 or side % 2 == 0 for side in size):
                size, most = [max(side // 2, 1) for side in size], most + 1
            stacks.append((tex, texture_construct_mip(tex, most)))
        own = torch.tensor([numbers[id(x)] for x in textures], device=self.mesh.device)
        return stacks, own.expand(self.faces.images)

    @lazy
    def slopes(self) -> Tensor:
        """[T, 3, 2] how far a step of a pixel to the right, or up, goes past each corner.

        With w of a place of a face, the weights m of its corners there, and their slopes s, the
        steps of the weights are w (s - m sum s): the homogeneous coordinates of the place, divided
        by the volume of the face and the eye, are m / w.
        """
        clip = self.surfaces.clip
        sides = torch.linalg.cross(clip.roll(-1, 1), clip.roll(-2, 1))
        volume = (sides[:, 0] * clip[:, 0]).sum(-1)[:, None, None]
        tiny = torch.finfo(clip.dtype).tiny
        flat = volume.abs() <= tiny  # seen from its side: no pixel of it is covered
        step = 2 / self.size.side
        return torch.where(flat, 0.0, step * sides[..., :2] / torch.where(flat, 1.0, volume))

    @lazy
    def gloss(self) -> Gloss | None:
        """The light, if it changes over a face, or None."""
        mesh, light = self.mesh, self.lighting
        if light is None or not self.is_glossy:
            return None
        source = self.surfaces.source
        normals = self.corner_normals
        if light.two_sided:
            normals = torch.where(self.away[:, None, None], -normals, normals)
        positions = self.gather(mesh.face_vertices.reshape(-1, 9), source).reshape(-1, 3, 3)
        directions = light.directions(mesh.vertices)
        images = torch.arange(self.faces.images, device=source.device)
        return Gloss(
            light,
            normals,
            positions,
            directions[images % len(directions)],
            self.viewpoints,
            self.camera.orthographic,
        )

    def prepare(self) -> None:
        """Compute what all runs of fragments share, before the first of them is checkpointed."""
        _ = self.colours, self.texture, self.gloss
        if self.mipmaps and self.is_textured:
            _ = self.stacks, self.slopes

    def colours_at(self, pixels: Tensor, face: Tensor, weights: Tensor) -> Tensor:
        """Lit colours [K, 3] of fragments.

        Args:
            pixels: [K], of the batch.
            face: [K], packed indices.
            weights: [K, 3], of the corners.
        """
        image = self.size.image_of(pixels)
        colour = self._mixed(self.colours, face, weights)
        if self.texture is not None:
            uv = self._mixed(self.texture.uvs, face, weights)
            if self.mipmaps:
                colour = colour * self._filtered(self.texture.uvs, uv, image, face, weights)
            else:
                colour = colour * self._sampled(self.texture, uv, image)
        gloss = self.gloss
        if gloss is None:
            return colour
        normals = _unit(self._mixed(gloss.normals, face, weights))
        to_eye = self.gather(gloss.viewpoints, image)
        if not gloss.orthographic:
            to_eye = normalize(to_eye - self._mixed(gloss.positions, face, weights), dim=-1)
        turned = torch.zeros_like(image, dtype=torch.bool)  # normals are turned already
        return gloss.lighting.shade(colour, normals, to_eye, image, turned)

    def _mixed(self, values: Tensor, face: Tensor, weights: Tensor) -> Tensor:
        """Interpolate values [T, 3, C] of corners -> [K, C]; those of equal corners exactly."""
        corners = self.gather(values.flatten(1), face).reshape(len(face), *values.shape[1:])
        first = corners[:, 0]
        steps = (corners[:, 1:] - first.unsqueeze(1)) * weights[:, 1:].unsqueeze(-1)
        return first + steps.sum(1)

    def _filtered(
        self, uvs: Tensor, uv: Tensor, image: Tensor, face: Tensor, weights: Tensor
    ) -> Tensor:
        """Trilinear texture lookup [K, 3], as wide as a pixel is on the face.

        Beyond a face, where soft edges show the colour of its nearest place, a pixel is as wide as
        it is there.
        """
        slopes = self.gather(self.slopes.flatten(1), face).reshape(-1, 3, 2)
        corners = self.gather(self.surfaces.clip.flatten(1), face).reshape(-1, 3, 3)
        w = (weights * corners[..., 2]).sum(-1)[:, None, None]
        steps = w * (slopes - weights.unsqueeze(-1) * slopes.sum(1, keepdim=True))
        found = self.gather(uvs.flatten(1), face).reshape(-1, 3, 2)
        across = (found.unsqueeze(-1) * steps.unsqueeze(-2)).sum(1).flatten(1)  # [K, 4]
        uv = torch.stack([uv[:, 0], 1 - uv[:, 1]], -1)  # rows count from the top
        stacks, own = self.stacks
        kinds = own[image]
        result = uv.new_zeros(len(uv), 3)
        for kind, (tex, mip) in enumerate(stacks):
            here = (kinds == kind).nonzero().squeeze(-1)
            if len(here):
                places = uv[here][None, None], across[here][None, None]
                result = result.index_copy(0, here, texture(tex, *places, mip=mip)[0, 0])
        return result

    def _sampled(self, texture: Texture, uv: Tensor, image: Tensor) -> Tensor:
        """Bilinear texture lookup [K, 3]; textures repeat beyond [0, 1], as in OBJ and glTF."""
        start, height, width = texture.place[image].unbind(-1)
        # Texel i of n has its centre at (i + 1/2) / n; v counts from the bottom row.
        x = uv[:, 0] * width - 0.5
        y = (1 - uv[:, 1]) * height - 0.5
        x0, y0 = x.detach().floor(), y.detach().floor()
        fx, fy = (x - x0).unsqueeze(-1), (y - y0).unsqueeze(-1)
        column, row = x0.to(torch.int64), y0.to(torch.int64)

        def texel(dy: int, dx: int) -> Tensor:
            index = ((row + dy) % height) * width + (column + dx) % width
            return self.gather(texture.texels, start + index)

        top = texel(0, 0) * (1 - fx) + texel(0, 1) * fx
        bottom = texel(1, 0) * (1 - fx) + texel(1, 1) * fx
        return top * (1 - fy) + bottom * fy


def _unit(vectors: Tensor) -> Tensor:
    """Vectors scaled to length 1; 0 stays 0."""
    square = (vectors * vectors).sum(-1, keepdim=True)
    return vectors / torch.where(square > 0, square, 1.0).sqrt()


def softmax_rgb(scene: Scene, coverage: Coverage, blending: Blending, limit: int) -> Tensor:
    """Colours [B, H, W, 3]: (sum a e^(zeta/gamma) c + e^(eps/gamma) c_bg) / (same without c).

    zeta = (far - z) / (far - near) is 1 at the near plane and 0 at the far plane. Source:
    Liu et al., Soft Rasterizer (2019), the softmax over depth.
    """
    filtered = scene.mipmaps and scene.is_textured  # which fused kernels do not
    fused = None if coverage.has_own_cdf or filtered else _fused_softmax(scene, coverage, blending)
    if fused is not None:
        return fused
    faces, size, blend = scene.faces, scene.size, blending
    scene.prepare()

    def run(listing: Callable[[], PixelPairs]) -> Tensor:
        pixels, face, first, last = listing()
        scale = scene.gather(coverage.scale, size.image_of(pixels))
        a, _ = coverage.of(scene.backend.distance(faces, size, pixels, face), scale)
        kept = (a.detach() > 0).nonzero().squeeze(-1)
        if len(kept) < len(a):
            a, pixels, face = a[kept], pixels[kept], face[kept]
        weights, z = scene.interpolation(size.centres(pixels, a.dtype), face)
        colours = scene.colours_at(pixels, face, weights)
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
    found = scene.backend.softmax(scene, coverage, rate, blend.far - blend.eps * depth)
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


def nearest_faces(scene: Scene, near: float, far: float) -> Tensor:
    """The nearest face that covers each pixel, int64 [B, H, W]; -1 if there is none.

    It is what `gendr.primitives.rasterize` sees: pixels on an edge that two faces share belong to
    one of them, and of equal depths the first face is seen.
    """
    geometry, planes = scene.geometry, (near, far)
    with torch.no_grad():
        whole = geometry.is_whole
        points = geometry.space if whole else geometry.surfaces
        clip = raster_positions(
            points.clip, points.depth, scene.camera.orthographic, planes, scene.size
        )
        index = geometry.space.faces if whole else None
        return scene.backend.nearest(scene.faces, scene.size, clip, index)


def depth_planes(scene: Scene, near: float, far: float) -> tuple[Tensor, Tensor]:
    """The depth keys p x + q y + r of faces, as (p, q, r) [T, 3]; keys grow towards the camera.

    For perspective cameras the key is 1/z, which is affine on the screen, for orthographic ones -z.
    All is float64. The second result [T, 2] holds the least and the greatest key of each face.
    """
    faces = scene.surfaces
    with torch.no_grad():
        clip, z = faces.clip.double(), faces.depth.double().clamp(near, far)
        if scene.camera.orthographic:
            xyz = torch.stack([clip[..., 0], clip[..., 1], faces.depth.double()], -1)
            n, c = _plane(xyz)
            steep = n[:, 2:] == 0
            plane = torch.cat([n[:, :2], -c], -1) / torch.where(steep, 1.0, n[:, 2:])
            keys = -z
        else:
            n, c = _plane(clip)
            plane = n / torch.where(c == 0, 1.0, c)
            keys = 1 / z
    return plane, torch.stack([keys.amin(-1), keys.amax(-1)], -1)


def _plane(corners: Tensor) -> tuple[Tensor, Tensor]:
    """Normal [T, 3] and offset [T, 1] of the planes through the corners [T, 3, 3]."""
    a, b, c = corners.unbind(1)
    normal = torch.linalg.cross(b - a, c - a)
    return normal, (normal * a).sum(-1, keepdim=True)
