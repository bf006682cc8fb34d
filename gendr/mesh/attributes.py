"""What the vertices and faces of meshes carry, checked and packed: UVs, textures, colours, …."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from gendr._common.checks import (
    check_device,
    check_finite,
    check_float,
    check_index,
    check_integer,
    check_like,
    check_shape,
    check_tensor,
    dtype_name,
)
from gendr._common.tracing import is_traced
from gendr._common.vectors import gathered
from gendr.mesh.subdivision import split_uvs, with_midpoints
from gendr.mesh.topology import Topology, owners
from gendr.mesh.uvs import UVs

# Colours lie in [0, 1]. Optimised colours may lie a little outside; 8-bit values lie far outside.
_LARGEST_COLOR = 2.0
# What a face may have for the renderer, one number each.
FACE_VALUES = ("opacity", "scale", "shape")


def check_reach(name: str, vertices: Tensor, dtype: torch.dtype) -> None:
    """Check that finite coordinates are small enough for lengths and areas not to overflow.

    Raises:
        ValueError: if they are.
    """
    if is_traced() or vertices.numel() == 0 or vertices.is_meta:
        return
    largest = float(vertices.detach().abs().max())
    if _reach(dtype) < largest < math.inf:
        wide = _reach(torch.float64)
        other = f" (float64 would reach to ±{wide:.0e})" if largest <= wide else ""
        raise ValueError(
            f"{name} must lie within ±{_reach(dtype):.0e} in {dtype_name(dtype)}, "
            f"got {largest:.3g}; scale them down{other}"
        )


def _reach(dtype: torch.dtype) -> float:
    """The power of ten up to which the area of a triangle, 8 x², does not overflow."""
    return 10.0 ** math.floor(math.log10(torch.finfo(dtype).max / 8) / 2)


@dataclass(frozen=True, eq=False)
class Attributes:
    """What a batch of meshes has besides positions and faces, each of it or None.

    Attributes:
        uvs: Texture coordinates, packed.
        textures: One [Ht, Wt, 3] per mesh; meshes may share the same tensor.
        vertex_colors: [ΣV, 3].
        face_colors: [ΣF, 3].
        face_values: [ΣF] each, by their names in `FACE_VALUES`; those that there are.
    """

    uvs: UVs | None = None
    textures: tuple[Tensor, ...] | None = None
    vertex_colors: Tensor | None = None
    face_colors: Tensor | None = None
    face_values: dict[str, Tensor] = field(default_factory=dict)

    @property
    def distinct_textures(self) -> list[Tensor]:
        """The textures, each tensor once."""
        return list({id(t): t for t in self.textures or ()}.values())

    def common_texture(self) -> Tensor | None:
        """The texture that all meshes share, if they have one.

        Raises:
            ValueError: if the meshes have different textures.
        """
        distinct = self.distinct_textures
        if len(distinct) > 1:
            raise ValueError("the meshes of this batch have different textures; read .textures")
        return distinct[0] if distinct else None

    def with_uvs(
        self,
        uvs: Tensor | None,
        face_uvs: Tensor | None,
        vertices: Tensor,
        face_counts: Sequence[int],
    ) -> Attributes:
        """The attributes with other UVs, or with none, then without textures too.

        The arguments are those of `_packed_uvs`. Without `face_uvs`, the indices stay if there are
        any, and the UVs are packed, [ΣT, 2].
        """
        if uvs is not None and face_uvs is None and self.uvs is not None:
            check_like("uvs", check_float("uvs", uvs), "vertices", vertices)
            check_shape("uvs", uvs, "[T, 2]", T=len(self.uvs.values))
            mapped = replace(self.uvs, values=check_finite("uvs", uvs))
        else:
            mapped = _packed_uvs(uvs, face_uvs, vertices, face_counts)
        return replace(self, uvs=mapped, textures=None if mapped is None else self.textures)

    def with_texture(
        self, texture: Tensor | Sequence[Tensor] | None, vertices: Tensor, count: int
    ) -> Attributes:
        """The attributes with other textures, or none; meshes that share one get the same tensor.

        Args:
            texture: [Ht, Wt, 3], [B, Ht, Wt, 3] or a sequence of B textures.
            vertices: The vertices of the meshes, which give the dtype and device.
            count: B.

        Raises:
            TypeError: for what is no tensor or has a wrong dtype.
            ValueError: for textures without UVs, a wrong number, shape, device or value.
        """
        if texture is None:
            return replace(self, textures=None)
        if self.uvs is None:
            raise ValueError("a texture needs uvs and face_uvs, got none")
        if isinstance(texture, Tensor):
            textures = tuple(texture) if texture.ndim == 4 else (texture,) * count
        elif isinstance(texture, Sequence):
            textures = tuple(texture)
        else:
            textures = (check_tensor("texture", texture),)  # raises
        if len(textures) != count:
            raise ValueError(f"there must be one texture per mesh, {count}, got {len(textures)}")
        for t in {id(t): t for t in textures}.values():
            check_like("texture", check_float("texture", t), "vertices", vertices)
            check_shape("texture", t, "[Ht, Wt, 3]")
            if t.numel() == 0:
                raise ValueError("texture must have at least one texel, got none")
            _check_range("texture", t)
        return replace(self, textures=textures)

    def with_colors(
        self, name: str, colors: Tensor | None, vertices: Tensor, counts: Sequence[int]
    ) -> Attributes:
        """The attributes with other colours per vertex or per face, or with none.

        Args:
            name: "vertex_colors" or "face_colors".
            colors: [N, 3] or [B, N, 3], for N vertices or faces of each mesh; or packed.
            vertices: The vertices of the meshes, which give the dtype and device.
            counts: N of each mesh.

        Raises:
            TypeError: for a wrong dtype.
            ValueError: for a wrong shape, device or value.
        """
        if colors is not None:
            check_like(name, check_float(name, colors), "vertices", vertices)
            letter = "V" if name == "vertex_colors" else "F"
            common = len(set(counts)) == 1 < len(counts)
            if common and colors.ndim == 2 and colors.shape[0] != sum(counts):
                check_shape(name, colors, f"[{letter}, 3]", **{letter: counts[0]})
                colors = colors.repeat(len(counts), 1)
            colors = packed(name, colors, letter, counts)
            _check_range(name, colors)
        return replace(self, **{name: colors})

    def with_face_value(
        self, name: str, values: Tensor | None, vertices: Tensor, counts: Sequence[int]
    ) -> Attributes:
        """The attributes with another number for each face, or with none.

        Args:
            name: One of `FACE_VALUES`.
            values: [F] or [B, F], or packed [ΣF].
            vertices: The vertices of the meshes, which give the dtype and device.
            counts: F of each mesh.

        Raises:
            TypeError: for a wrong dtype.
            ValueError: for a wrong shape, device or value.
        """
        others = {key: x for key, x in self.face_values.items() if key != name}
        if values is None:
            return replace(self, face_values=others)
        full = f"face_{name}"
        check_like(full, check_float(full, values), "vertices", vertices)
        if len(set(counts)) == 1 < len(counts) and values.shape == (counts[0],):
            values = values.repeat(len(counts))
        if values.ndim == 2 and len(set(counts)) == 1:
            check_shape(full, values, "[B, F]", B=len(counts), F=counts[0])
            values = values.reshape(-1)
        check_shape(full, values, "[F]", F=sum(counts))
        check_finite(full, values)
        if not is_traced() and values.numel():
            low, high = (float(x) for x in torch.aminmax(values.detach()))
            if name == "opacity" and not 0 <= low <= high <= 1:
                raise ValueError(f"{full} must lie in [0, 1], got {low:g} .. {high:g}")
            if name != "opacity" and low <= 0:
                raise ValueError(f"{full} must be > 0, got a tensor with minimum {low:g}")
        return replace(self, face_values={**others, name: values})

    @staticmethod
    def joined(parts: Sequence[tuple[Attributes, Topology]], vertices: Tensor) -> Attributes:
        """The attributes of several batches as one; what only some have is white for the others.

        Args:
            parts: Of each batch.
            vertices: Of the meshes, for their dtype and device.

        Raises:
            ValueError: if only some have a value for each face.
        """
        values: dict[str, Tensor] = {}
        for name in FACE_VALUES:
            found = [a.face_values[name] for a, _ in parts if name in a.face_values]
            if found and len(found) < len(parts):
                raise ValueError(f"only some of these meshes have a face_{name}")
            if found:
                values[name] = torch.cat(found)
        uvs = textures = None
        if any(a.uvs is not None for a, _ in parts):
            uvs = UVs.joined([_some_uvs(a.uvs, t.face_counts, vertices) for a, t in parts])
        if any(a.textures is not None for a, _ in parts):
            white = vertices.new_ones(1, 1, 3)
            each = (a.textures or (white,) * len(t.face_counts) for a, t in parts)
            textures = tuple(texture for some in each for texture in some)

        def colors(values: Sequence[Tensor | None], counts: Sequence[Sequence[int]]) -> Any:
            if all(value is None for value in values):
                return None
            filled = zip(values, counts, strict=True)
            return torch.cat([vertices.new_ones(sum(n), 3) if v is None else v for v, n in filled])

        of_vertices = colors(
            [a.vertex_colors for a, _ in parts], [t.vertex_counts for _, t in parts]
        )
        of_faces = colors([a.face_colors for a, _ in parts], [t.face_counts for _, t in parts])
        return Attributes(uvs, textures, of_vertices, of_faces, values)

    def of_mesh(self, i: int, vertices: slice, faces: slice) -> Attributes:
        """The attributes of mesh i, which has these vertices and faces."""
        return Attributes(
            None if self.uvs is None else self.uvs.of_mesh(i, faces),
            None if self.textures is None else (self.textures[i],),
            None if self.vertex_colors is None else self.vertex_colors[vertices],
            None if self.face_colors is None else self.face_colors[faces],
            {name: x[faces] for name, x in self.face_values.items()},
        )

    def map(self, function: Callable[[Tensor], Tensor]) -> Attributes:
        """The attributes with `function` applied to floating tensors, to shared textures once."""
        textures = None
        if self.textures is not None:
            done = {id(t): function(t) for t in self.distinct_textures}
            textures = tuple(done[id(t)] for t in self.textures)
        return Attributes(
            None if self.uvs is None else self.uvs.map(function),
            textures,
            None if self.vertex_colors is None else function(self.vertex_colors),
            None if self.face_colors is None else function(self.face_colors),
            {name: function(x) for name, x in self.face_values.items()},
        )

    def indices_to(self, device: torch.device) -> Attributes:
        """The attributes with the indices on another device, where `map` has moved the rest."""
        return self if self.uvs is None else replace(self, uvs=self.uvs.to(device))

    def split(self, edges: Tensor, batch: int) -> Attributes:
        """The attributes when all faces are split in four at the midpoints of `edges`."""
        colors = self.vertex_colors
        return Attributes(
            None if self.uvs is None else split_uvs(self.uvs),
            self.textures,
            None if colors is None else with_midpoints(colors, edges, batch),
            None if self.face_colors is None else self.face_colors.repeat_interleave(4, dim=0),
            {name: x.repeat_interleave(4) for name, x in self.face_values.items()},
        )

    def corner_colors(self, faces: Tensor) -> Tensor | None:
        """Vertex colours times face colours at the corners of all faces [ΣF, 3]: [ΣF, 3, 3]."""
        if self.vertex_colors is None:
            colors = self.face_colors
            return None if colors is None else colors[:, None].expand(-1, 3, -1)
        corners = gathered(self.vertex_colors, faces.reshape(-1)).reshape(-1, 3, 3)
        return corners if self.face_colors is None else corners * self.face_colors[:, None]


def _some_uvs(uvs: UVs | None, face_counts: Sequence[int], vertices: Tensor) -> UVs:
    """The UVs; one (0, 0) per mesh if there are none."""
    if uvs is not None:
        return uvs
    batch = len(face_counts)
    faces = owners(face_counts, vertices.device)[:, None].expand(-1, 3)
    return UVs(vertices.new_zeros(batch, 2), faces, (1,) * batch)


def _packed_uvs(
    uvs: Tensor | None, face_uvs: Tensor | None, vertices: Tensor, face_counts: Sequence[int]
) -> UVs | None:
    """UVs given per mesh or for all meshes, packed; None if none are given.

    Args:
        uvs: [T, 2] or [B, T, 2].
        face_uvs: [F, 3] or [B, F, 3]. Both come together.
        vertices: Of the meshes, for their dtype and device.
        face_counts: Faces per mesh.

    Raises:
        TypeError: for a wrong dtype.
        ValueError: for a wrong shape, device, index or value, or one without the other.
    """
    if uvs is None and face_uvs is None:
        return None
    if uvs is None or face_uvs is None:
        missing = "uvs" if uvs is None else "face_uvs"
        raise ValueError(f"uvs and face_uvs must come together, got no {missing}")
    check_like("uvs", check_float("uvs", uvs), "vertices", vertices)
    face_uvs = check_integer("face_uvs", face_uvs)
    check_device("face_uvs", face_uvs, "vertices", vertices)
    batch = len(face_counts)
    if len(set(face_counts)) > 1:
        raise ValueError(
            "meshes with different numbers of faces must get their uvs before Mesh.batch"
        )
    known = {"B": batch, "F": face_counts[0]}
    size = check_shape("uvs", uvs, "[T, 2] or [B, T, 2]", **known)["T"]
    check_shape("face_uvs", face_uvs, "[F, 3] or [B, F, 3]", **known)
    check_index("face_uvs", face_uvs, size, "uvs")
    check_finite("uvs", uvs)
    start = size * torch.arange(batch, device=face_uvs.device)  # each mesh gets uvs of its own
    face_uvs = (face_uvs + start[:, None, None]).reshape(-1, 3)
    return UVs(uvs.expand(batch, size, 2).reshape(-1, 2), face_uvs, (size,) * batch)


def packed(name: str, values: Tensor, letter: str, counts: Sequence[int]) -> Tensor:
    """Three values for each vertex or face, given packed or per mesh, packed: [ΣN, 3].

    Args:
        name: What errors call them.
        values: [ΣN, 3], or [B, N, 3] if all meshes have N vertices or faces.
        letter: "V" or "F", for N in errors.
        counts: N of each mesh.

    Raises:
        ValueError: for another shape.
    """
    if values.ndim == 3 and len(set(counts)) == 1:
        check_shape(name, values, f"[B, {letter}, 3]", B=len(counts), **{letter: counts[0]})
        values = values.reshape(-1, 3)
    check_shape(name, values, f"[{letter}, 3]", **{letter: sum(counts)})
    return values


def _check_range(name: str, colors: Tensor) -> None:
    """Check that colours are finite and roughly within [0, 1], not 8-bit values.

    The range of colours that require a gradient is not checked, since an optimiser may move them
    anywhere.
    """
    check_finite(name, colors)
    if colors.requires_grad or colors.numel() == 0:
        return
    low, high = (float(x) for x in torch.aminmax(colors))
    if high > _LARGEST_COLOR or low < 1 - _LARGEST_COLOR:
        raise ValueError(
            f"{name} must lie in [0, 1], got {low:g} .. {high:g}; divide 8-bit values by 255, "
            "clamp what was learnt with .clamp(0, 1)"
        )
