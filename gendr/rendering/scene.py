"""What is seen: a batch of projected meshes, and the looks of their faces."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import normalize

from gendr._common.tracing import lazy, once
from gendr.primitives import texture, texture_construct_mip
from gendr.rendering.fragments import interpolation_weights
from gendr.rendering.geometry import Gather, Geometry, ImageSize, ScreenFaces, Surfaces

if TYPE_CHECKING:
    from gendr.mesh import Camera, Lighting, Mesh
    from gendr.primitives.texture import Mipmaps


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
        gather: values[index] for values [N, ...] and index [K], with the gradients of a backend.
        given_lighting: the light as the renderer has it; `lighting` is as the cameras see it.
        mipmaps: whether textures are sampled by mipmaps.
        backend: the name of what samples them.
    """

    mesh: Mesh
    camera: Camera
    geometry: Geometry
    size: ImageSize
    gather: Gather
    given_lighting: Lighting | None
    mipmaps: bool = False
    backend: str = "auto"

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
        source = self.geometry.source
        counts = torch.tensor(self.faces.counts, dtype=torch.int64, device=source.device)
        images = torch.arange(self.faces.images, device=source.device)
        return images.repeat_interleave(counts, output_size=len(source))

    @lazy
    def away(self) -> Tensor:
        """[T] bool, whether the eye is behind a face, on the side opposite to its normal."""
        all_normals, viewpoints = self.face_normals, self.viewpoints  # read as others will
        with torch.no_grad():
            normals, first = all_normals, self.mesh.vertices[self.mesh.faces[:, 0]]
            if len(self.mesh) == 1 and self.geometry.is_whole:  # images have all faces
                to_eye = viewpoints.unsqueeze(1)
            else:
                source = self.geometry.source
                normals, first = normals.index_select(0, source), first.index_select(0, source)
                to_eye = viewpoints.index_select(0, self.image)
            if not self.camera.orthographic:
                to_eye = to_eye - first
            return ((normals * to_eye).sum(-1) < 0).flatten()

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
        source, colours, light = self.geometry.source, self.mesh.corner_colors, self.lighting
        if colours is None:
            colours = self.mesh.vertices.new_ones(1, 1, 3).expand(len(self.mesh.faces), 3, 3)
        if light is None or self.is_glossy:
            return self.gather(colours.reshape(-1, 9), source).reshape(-1, 3, 3)
        normals = self.face_normals
        if len(light.directions(normals)) > 1:
            colours = self.gather(colours.reshape(-1, 9), source).reshape(-1, 3, 3)
            normals = self.gather(normals, source)
            white = normals.new_ones(len(normals), 1)
            lit = light.shade(white, normals, normals, self.image, self.away)
            return colours * lit.unsqueeze(1)
        # The light is the same for all images: the sides of faces are lit before they are seen.
        if light.two_sided:
            source = source + self.away * len(normals)
            colours, normals = torch.cat([colours, colours]), torch.cat([normals, -normals])
        lit = replace(light, two_sided=False).shade(
            normals.new_ones(len(normals), 1), normals, normals, source
        )
        return self.gather((colours * lit.unsqueeze(1)).reshape(-1, 9), source).reshape(-1, 3, 3)

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
            stacks.append((tex, texture_construct_mip(tex, most, backend=self.backend)))
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
                found = texture(tex, *places, mip=mip, backend=self.backend)
                result = result.index_copy(0, here, found[0, 0])
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
