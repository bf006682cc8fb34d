"""`Mesh`: one triangle mesh or a batch of different ones, packed without padding."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gendr._common.checks import (
    check_choice,
    check_count,
    check_device,
    check_finite,
    check_float,
    check_like,
    check_number,
    check_shape,
    dtype_name,
)
from gendr._common.files import write_all
from gendr._common.tracing import all_hold, doubled, matmul
from gendr._common.vectors import gathered, length, summed, unit
from gendr.mesh.attributes import Attributes, check_reach, packed
from gendr.mesh.files import formats, pytorch3d_objects, trimesh_objects
from gendr.mesh.files.reports import damage_named, warn_of
from gendr.mesh.images import MAX_MEGAPIXELS
from gendr.mesh.parts import MeshParts
from gendr.mesh.sampling import sample_points
from gendr.mesh.subdivision import split_topology, with_midpoints
from gendr.mesh.topology import Topology, checked_topology, offsets, owners


class Mesh:
    """One triangle mesh, or a batch of B meshes that may differ in everything.

    A mesh is immutable: `with_vertices` and the like return a new one that shares all the rest.
    Tensors keep their autograd graph. Everything is packed, the meshes of a batch one after the
    other: ΣV vertices, ΣF faces, and indices that count from the first vertex of the batch.

    The colour of a surface point is the product of what the mesh has: texture, vertex colours and
    face colours (as in glTF), white if it has none.

    Coordinates count from the `origin`, which is 0 unless the mesh was loaded from far out: where
    float32 is too coarse for its shape, `load` moves it near 0 and remembers from where. Cameras,
    lights, boxes and all that moves a mesh know the coordinates only; `save` adds the origin.

    Args:
        vertices: [V, 3], or [B, V, 3] for B meshes of one topology; float32 or float64; world
            frame, right-handed, y up; within ±1e18 in float32, ±1e153 in float64.
        faces: [F, 3] or [B, F, 3] integers, indices into the V vertices of a mesh; the corners run
            counter-clockwise seen from outside. F = 0 is allowed: such a mesh is not seen.
        uvs: [T, 2] or [B, T, 2]; u to the right and v up over the texture, as in OBJ: (0, 0) is its
            lower left corner.
        face_uvs: [F, 3] or [B, F, 3], indices into the T uvs. Both come together.
        texture: [Ht, Wt, 3] RGB in [0, 1], row 0 the top; for a batch also [B, Ht, Wt, 3] or a
            sequence of B textures of any sizes. Needs uvs.
        vertex_colors: [V, 3] or [B, V, 3], RGB in [0, 1].
        face_colors: [F, 3] or [B, F, 3], RGB in [0, 1].
        face_opacity: [F] or [B, F], in [0, 1]. This and the next two are for a `Renderer` with
            `composite="ordered"`, in the place of its own; no file holds them.
        face_scale: [F] or [B, F], > 0, NDC (NDC^2 for squared distributions).
        face_shape: [F] or [B, F], > 0, of the distribution.

    Colours that require a gradient may have any finite values: keep them in [0, 1] yourself, by a
    clamp after each step or a sigmoid.

    Raises:
        TypeError: for what is no tensor or has the wrong dtype.
        ValueError: for shapes, devices, indices or values that are not allowed, NaN and inf among
            them.
    """

    _topology: Topology
    _vertices: Tensor
    _attributes: Attributes
    _origin: Tensor | None
    _unlit: bool

    def __init__(
        self,
        vertices: Tensor,
        faces: Tensor,
        *,
        uvs: Tensor | None = None,
        face_uvs: Tensor | None = None,
        texture: Tensor | Sequence[Tensor] | None = None,
        vertex_colors: Tensor | None = None,
        face_colors: Tensor | None = None,
        face_opacity: Tensor | None = None,
        face_scale: Tensor | None = None,
        face_shape: Tensor | None = None,
    ) -> None:
        self._topology = checked_topology(vertices, faces)
        check_reach("vertices", check_finite("vertices", vertices), vertices.dtype)
        self._vertices = vertices.reshape(-1, 3)
        self._origin = None
        self._unlit = False
        self._attributes = (
            Attributes()
            .with_uvs(uvs, face_uvs, self._vertices, self.face_counts)
            .with_texture(texture, self._vertices, len(self))
            .with_colors("vertex_colors", vertex_colors, self._vertices, self.vertex_counts)
            .with_colors("face_colors", face_colors, self._vertices, self.face_counts)
            .with_face_value("opacity", face_opacity, self._vertices, self.face_counts)
            .with_face_value("scale", face_scale, self._vertices, self.face_counts)
            .with_face_value("shape", face_shape, self._vertices, self.face_counts)
        )

    # -- what a mesh is made of ------------------------------------------------------------------

    @property
    def vertices(self) -> Tensor:
        """Positions of all vertices, packed: [ΣV, 3]."""
        return self._vertices

    @property
    def faces(self) -> Tensor:
        """Corners of all faces as packed vertex indices: int64 [ΣF, 3]."""
        return self._topology.faces

    @property
    def faces_local(self) -> Tensor | None:
        """int64 [F, 3], counting from the first vertex of each mesh, if all meshes share them."""
        return self._topology.local if self._topology.shared else None

    @property
    def vertex_counts(self) -> tuple[int, ...]:
        """Vertices per mesh."""
        return self._topology.vertex_counts

    @property
    def face_counts(self) -> tuple[int, ...]:
        """Faces per mesh."""
        return self._topology.face_counts

    @property
    def vertex_offsets(self) -> tuple[int, ...]:
        """Packed index of the first vertex of each mesh."""
        return offsets(self.vertex_counts)

    @property
    def face_offsets(self) -> tuple[int, ...]:
        """Packed index of the first face of each mesh."""
        return offsets(self.face_counts)

    @property
    def uvs(self) -> Tensor | None:
        """Texture coordinates, packed: [ΣT, 2], u right, v up."""
        uvs = self._attributes.uvs
        return None if uvs is None else uvs.values

    @property
    def face_uvs(self) -> Tensor | None:
        """Packed indices into `uvs` per face corner: int64 [ΣF, 3]."""
        uvs = self._attributes.uvs
        return None if uvs is None else uvs.faces

    @property
    def textures(self) -> tuple[Tensor, ...] | None:
        """One texture [Ht, Wt, 3] per mesh, row 0 the top; meshes may share the same tensor."""
        return self._attributes.textures

    @property
    def texture(self) -> Tensor | None:
        """The texture [Ht, Wt, 3] of one mesh, or the one that all meshes share.

        Raises:
            ValueError: if the meshes have different textures.
        """
        return self._attributes.common_texture()

    @property
    def vertex_colors(self) -> Tensor | None:
        """RGB per vertex, packed: [ΣV, 3]."""
        return self._attributes.vertex_colors

    @property
    def face_colors(self) -> Tensor | None:
        """RGB per face, packed: [ΣF, 3]."""
        return self._attributes.face_colors

    @property
    def face_opacity(self) -> Tensor | None:
        """Opacity per face, packed: [ΣF]."""
        return self._attributes.face_values.get("opacity")

    @property
    def face_scale(self) -> Tensor | None:
        """Scale per face, packed: [ΣF], NDC (NDC^2 for squared distributions)."""
        return self._attributes.face_values.get("scale")

    @property
    def face_shape(self) -> Tensor | None:
        """Shape of the distribution per face, packed: [ΣF]."""
        return self._attributes.face_values.get("shape")

    @property
    def face_values(self) -> Mapping[str, Tensor]:
        """Those of the three before that there are, by "opacity", "scale" and "shape"."""
        return self._attributes.face_values

    @property
    def origin(self) -> Tensor:
        """Where in the world the coordinates of each mesh count from: float64 [B, 3], on the CPU.

        A vertex of mesh i lies at `vertices.double() + origin[i]`.
        """
        zero = torch.zeros(len(self), 3, dtype=torch.float64, device="cpu")
        return zero if self._origin is None else self._origin

    @property
    def unlit(self) -> bool:
        """Whether the colours hold the light already, as those of photographs do.

        The default lighting of a `Renderer` then leaves them as they are. GLB and OBJ files keep
        it. See `with_unlit`.
        """
        return self._unlit

    @property
    def dtype(self) -> torch.dtype:
        """float32 or float64."""
        return self._vertices.dtype

    @property
    def device(self) -> torch.device:
        """Where the mesh lives."""
        return self._vertices.device

    def __len__(self) -> int:
        return len(self._topology.vertex_counts)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        parts = [f"{len(self)} mesh{'es' if len(self) > 1 else ''}"]
        parts += [f"{sum(self.vertex_counts)} vertices", f"{sum(self.face_counts)} faces"]
        sizes = [f"{t.shape[1]}×{t.shape[0]}" for t in self._attributes.distinct_textures]
        if sizes:
            parts.append(f"texture {', '.join(sizes)}")
        elif self.uvs is not None:
            parts.append("uvs")
        parts += [n for n in ("vertex_colors", "face_colors") if getattr(self, n) is not None]
        parts += [f"face_{name}" for name in self._attributes.face_values]
        parts += ["unlit"] * self._unlit
        if self._origin is not None:
            parts.append(f"origin {self._origin.squeeze(0).tolist()}")
        return f"Mesh({', '.join(parts)}, {dtype_name(self.dtype)}, {self.device})"

    # -- batches ---------------------------------------------------------------------------------

    @classmethod
    def batch(cls, meshes: Sequence[Mesh]) -> Mesh:
        """Join meshes, or batches of them, into one batch.

        What only some of them have (a texture, colours) becomes white for the others.

        Raises:
            TypeError: if something is no mesh, or the dtypes differ.
            ValueError: if there is none, the devices differ, or only some are unlit or have a
                face_opacity, face_scale or face_shape.
        """
        meshes = list(meshes)
        if not meshes:
            raise ValueError("a batch needs at least one mesh, got none")
        for i, mesh in enumerate(meshes):
            if not isinstance(mesh, Mesh):
                raise TypeError(f"mesh {i} of the batch must be a Mesh, got {type(mesh).__name__}")
            check_like(f"mesh {i} of the batch", mesh.vertices, "mesh 0", meshes[0].vertices)
        if len(meshes) == 1:
            return meshes[0]
        if len({m.unlit for m in meshes}) > 1:
            raise ValueError(
                "some of these meshes are unlit, and a batch is as a whole; make them alike by "
                "with_unlit(True) or with_unlit(False)"
            )
        out = copy.copy(meshes[0])
        out._topology = Topology.joined([m._topology for m in meshes])
        out._vertices = torch.cat([m.vertices for m in meshes])
        if any(m._origin is not None for m in meshes):
            out._origin = torch.cat([m.origin for m in meshes])
        parts = [(m._attributes, m._topology) for m in meshes]
        out._attributes = Attributes.joined(parts, out._vertices)
        return out

    def __getitem__(self, index: int | slice) -> Mesh:
        """Mesh `index`, or the batch of a slice.

        Raises:
            IndexError: if there is no such mesh.
            TypeError: if the index is neither int nor slice.
        """
        if isinstance(index, slice):
            chosen = range(len(self))[index]
            if not chosen:
                raise IndexError(f"the slice {index} of {len(self)} meshes holds none")
            return Mesh.batch([self[i] for i in chosen])
        if not isinstance(index, int):
            raise TypeError(f"a mesh index must be an int or a slice, got {type(index).__name__}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"mesh index {index} out of range for {len(self)} meshes")
        if len(self) == 1:
            return self
        i = index % len(self)
        start, first = self.vertex_offsets[i], self.face_offsets[i]
        vertices = slice(start, start + self.vertex_counts[i])
        faces = slice(first, first + self.face_counts[i])
        out = copy.copy(self)
        out._topology = self._topology.of_mesh(i)
        out._vertices = self._vertices[vertices]
        if self._origin is not None:
            out._origin = self._origin[i : i + 1]
        out._attributes = self._attributes.of_mesh(i, vertices, faces)
        return out

    def __iter__(self) -> Iterator[Mesh]:
        return (self[i] for i in range(len(self)))

    def unbind(self) -> tuple[Mesh, ...]:
        """The meshes of the batch, one by one."""
        return tuple(self)

    def repeated(self, count: int) -> Mesh:
        """A batch of `count` copies of one mesh; faces and textures are shared, not copied.

        Raises:
            ValueError: if this is a batch already.
        """
        check_count("count", count)
        if len(self) != 1:
            raise ValueError(f"repeated() takes one mesh, got a batch of {len(self)}; index it")
        return self if count == 1 else Mesh.batch([self] * count)

    # -- other meshes of the same topology -------------------------------------------------------

    def with_vertices(self, vertices: Tensor) -> Mesh:
        """The same mesh with other vertex positions; the hot path of a fit.

        Checks shape, dtype and device, and leaves NaN and inf for the renderer to find.

        Args:
            vertices: [ΣV, 3] packed; or [B, V, 3] if all meshes have V vertices, where a single
                mesh becomes a batch of B.

        Raises:
            TypeError: for what is no float tensor.
            ValueError: for another shape or device.
        """
        now = self._vertices
        if isinstance(vertices, Tensor) and (vertices.shape, vertices.dtype, vertices.device) == (
            now.shape, now.dtype, now.device
        ):  # fmt: skip
            return self._moved(vertices)
        check_float("vertices", vertices)
        check_device("vertices", vertices, "faces", self._topology.local)
        if vertices.ndim == 3 and len(self) == 1 and vertices.shape[0] > 1:
            check_shape("vertices", vertices, "[B, V, 3]", V=self.vertex_counts[0])
            return self.repeated(vertices.shape[0]).with_vertices(vertices.reshape(-1, 3))
        vertices = packed("vertices", vertices, "V", self.vertex_counts)
        out = self._moved(vertices)
        return out if vertices.dtype == self.dtype else out._like(vertices)

    def _moved(self, vertices: Tensor) -> Mesh:
        """The same mesh with other vertices, unchecked."""
        out = object.__new__(type(self))
        if torch.compiler.is_compiling():  # PyTorch 2.11 cannot trace an update of `__dict__`
            out._topology, out._attributes = self._topology, self._attributes
            out._origin, out._unlit = self._origin, self._unlit
        else:
            out.__dict__.update(self.__dict__)
        out._vertices = vertices
        return out

    def with_origin(self, origin: Tensor) -> Mesh:
        """The same coordinates, counted from elsewhere in the world: the mesh moves there.

        For a mesh that was made in the coordinates of another: `made.with_origin(other.origin)`.

        Args:
            origin: Float tensor, [3] for all meshes or [B, 3].

        Raises:
            TypeError: for what is no float tensor.
            ValueError: for another shape, NaN or inf.
        """
        check_shape("origin", check_float("origin", origin), "[3] or [B, 3]", B=len(self))
        check_finite("origin", origin)
        origin = origin.detach().to("cpu", torch.float64).expand(len(self), 3)
        out = copy.copy(self)
        out._origin = origin if bool(origin.any()) else None
        return out

    def relative_to(self, origin: Tensor) -> Mesh:
        """The same mesh in the same place of the world, its coordinates counted from elsewhere.

        Computed in float64. It brings two meshes together: `a.relative_to(b.origin)` has the
        coordinates of `b`.

        Args:
            origin: Float tensor, [3] for all meshes or [B, 3].

        Raises:
            TypeError: for what is no float tensor.
            ValueError: for another shape, NaN or inf.
        """
        out = self.with_origin(origin)
        shift = self._per_vertex((self.origin - out.origin).to(self.device))
        return out.with_vertices((self._vertices.double() + shift).to(self.dtype))

    def with_vertex_colors(self, vertex_colors: Tensor | None) -> Mesh:
        """The same mesh with other colours per vertex: [ΣV, 3], [B, V, 3] or None."""
        arguments = ("vertex_colors", vertex_colors, self._vertices, self.vertex_counts)
        return self._with(self._attributes.with_colors(*arguments))

    def with_face_colors(self, face_colors: Tensor | None) -> Mesh:
        """The same mesh with other colours per face: [ΣF, 3], [B, F, 3] or None."""
        arguments = ("face_colors", face_colors, self._vertices, self.face_counts)
        return self._with(self._attributes.with_colors(*arguments))

    def with_face_opacity(self, face_opacity: Tensor | None) -> Mesh:
        """The same mesh with other opacities in [0, 1]: [ΣF], [B, F] or None."""
        return self._with_face_value("opacity", face_opacity)

    def with_face_scale(self, face_scale: Tensor | None) -> Mesh:
        """The same mesh with other scales > 0 of its faces: [ΣF], [B, F] or None."""
        return self._with_face_value("scale", face_scale)

    def with_face_shape(self, face_shape: Tensor | None) -> Mesh:
        """The same mesh with other shapes > 0 of the distribution: [ΣF], [B, F] or None."""
        return self._with_face_value("shape", face_shape)

    def _with_face_value(self, name: str, values: Tensor | None) -> Mesh:
        arguments = (name, values, self._vertices, self.face_counts)
        return self._with(self._attributes.with_face_value(*arguments))

    def with_texture(self, texture: Tensor | Sequence[Tensor] | None) -> Mesh:
        """The same mesh with another texture: [Ht, Wt, 3], [B, Ht, Wt, 3], a sequence or None."""
        return self._with(self._attributes.with_texture(texture, self._vertices, len(self)))

    def with_uvs(self, uvs: Tensor | None, face_uvs: Tensor | None = None) -> Mesh:
        """The same mesh with other UVs: [T, 2] per mesh and indices [F, 3]; None removes them.

        Without `face_uvs` the indices stay. A texture needs UVs and goes with them.
        """
        arguments = (uvs, face_uvs, self._vertices, self.face_counts)
        return self._with(self._attributes.with_uvs(*arguments))

    def with_unlit(self, unlit: bool = True) -> Mesh:
        """The same mesh, whose colours hold the light already, or do not; see `unlit`."""
        out = copy.copy(self)
        out._unlit = bool(unlit)
        return out

    def _with(self, attributes: Attributes) -> Mesh:
        """The same mesh with other attributes, unchecked."""
        out = copy.copy(self)
        out._attributes = attributes
        return out

    # -- moving, copying -------------------------------------------------------------------------

    def _map(self, function: Any) -> Mesh:
        """Apply `function` to every floating tensor, to shared textures once."""
        out = self._with(self._attributes.map(function))
        out._vertices = function(self._vertices)
        return out

    def _like(self, vertices: Tensor) -> Mesh:
        """All attributes in the dtype of `vertices`, which are taken as they are."""
        out = self._map(lambda t: t.to(vertices.dtype))
        out._vertices = vertices
        return out

    def to(
        self,
        device: torch.device | str | torch.dtype | None = None,
        dtype: torch.dtype | None = None,
    ) -> Mesh:
        """The mesh on another device, or in float32 or float64; gradients flow back.

        Raises:
            TypeError: for any other dtype.
            ValueError: for coordinates that are too large for float32.
        """
        if isinstance(device, torch.dtype):
            device, dtype = None, device
        dtype = self.dtype if dtype is None else dtype
        if dtype not in (torch.float32, torch.float64):
            raise TypeError(f"a mesh is float32 or float64, not {dtype_name(dtype)}")
        target = self.device if device is None else torch.device(device)
        if target == self.device and dtype == self.dtype:
            return self
        if dtype != self.dtype:
            check_reach("vertices", self._vertices, dtype)
        out = self._map(lambda t: t.to(device=target, dtype=dtype))
        if out.device != self.device:
            out._topology = self._topology.to(out.device)
            out._attributes = out._attributes.indices_to(out.device)
        return out

    def detach(self) -> Mesh:
        """The same mesh, cut off from the autograd graph."""
        return self._map(lambda t: t.detach())

    # -- what follows from it --------------------------------------------------------------------

    @property
    def face_vertices(self) -> Tensor:
        """Positions of the corners of all faces: [ΣF, 3, 3] (face, corner, xyz)."""
        return gathered(self._vertices, self.faces.reshape(-1)).reshape(-1, 3, 3)

    @property
    def corner_uvs(self) -> Tensor | None:
        """UVs of the corners of all faces: [ΣF, 3, 2]."""
        uvs = self._attributes.uvs
        return None if uvs is None else uvs.corners()

    @property
    def corner_colors(self) -> Tensor | None:
        """Vertex colours times face colours at the corners of all faces: [ΣF, 3, 3]."""
        return self._attributes.corner_colors(self.faces)

    @property
    def _face_sides(self) -> tuple[Tensor, Tensor]:
        """From the first corner of every face to the others: two of [ΣF, 3]."""
        a, b, c = self.face_vertices.unbind(1)
        return b - a, c - a

    @property
    def _face_cross(self) -> Tensor:
        """Cross product of two edges of every face, twice its area long: [ΣF, 3]."""
        return torch.linalg.cross(*self._face_sides)

    @property
    def _reliable_cross(self) -> Tensor:
        """`_face_cross` where float32 can tell its direction, 0 with gradient 0 elsewhere.

        The bound is that of float32 in float64 too: rounding of the corners of a face without area
        would else choose its normal, another one in each precision.
        """
        u, v = self._face_sides
        cross = torch.linalg.cross(u, v)
        reach = torch.maximum(u.detach().abs(), v.detach().abs()).amax(-1)
        thin = cross.detach().abs().amax(-1) <= 1e-5 * reach * reach
        return cross.masked_fill(thin.unsqueeze(-1), 0)

    @property
    def face_normals(self) -> Tensor:
        """Outward unit normals: [ΣF, 3].

        0 with gradient 0 for faces of no area, which are those narrower than 1e-5 of their length.
        """
        return unit(self._reliable_cross)

    @property
    def face_areas(self) -> Tensor:
        """Areas: [ΣF]; gradient 0 for faces of no area."""
        return length(self._face_cross) / 2

    @property
    def vertex_normals(self) -> Tensor:
        """Unit means of the normals round a vertex, weighted by area: [ΣV, 3].

        0 with gradient 0 where there is none (no face, only faces of no area, or cancellation).
        """
        cross = self._reliable_cross[:, None].expand(-1, 3, -1).reshape(-1, 3)
        return unit(summed(cross, self.faces.reshape(-1), len(self._vertices)))

    @property
    def edges(self) -> Tensor:
        """Unique undirected edges as packed vertex indices, the smaller first: int64 [ΣE, 2].

        Found once per topology and shared by all meshes made by `with_vertices`.
        """
        return self._topology.edges

    @property
    def vertex_corners(self) -> tuple[Tensor, Tensor]:
        """The corners of faces that are each vertex: starts [ΣV + 1] and entries [3 ΣF], int32.

        Those of vertex v are entries[starts[v] : starts[v + 1]], each 3 · face + corner, in the
        order of the faces. Found once per topology, as `edges`.
        """
        return self._topology.vertex_corners

    @property
    def is_watertight(self) -> bool:
        """Whether every mesh is closed: each edge is run through once in either direction."""
        return self._topology.closed and all(self.face_counts)

    @property
    def volumes(self) -> Tensor:
        """Signed volume enclosed by each mesh: [B], > 0 if oriented outwards.

        Means something for closed meshes only.
        """
        # From the first corner of each mesh, in float64: counted from a distant origin the parts
        # are far larger than their sum, and nearly cancel.
        corners, which = doubled(self.face_vertices), owners(self.face_counts, self.device)
        starts = torch.searchsorted(which, which)  # the first face of the mesh of each face
        a, b, c = (corners - gathered(corners[:, :1], starts)).unbind(1)
        each = (a * torch.linalg.cross(b, c)).sum(-1) / 6
        return summed(each, which, len(self)).to(self.dtype)

    def bounding_box(self) -> tuple[Tensor, Tensor]:
        """Lowest and highest coordinates of the vertices of each mesh: [B, 3] and [B, 3].

        Raises:
            ValueError: for a mesh without vertices.
        """
        if 0 in self.vertex_counts:
            empty = self.vertex_counts.index(0)
            raise ValueError(f"mesh {empty} has no vertices, so it has no bounding box")
        parts = self._vertices.split(list(self.vertex_counts))
        return torch.stack([p.amin(0) for p in parts]), torch.stack([p.amax(0) for p in parts])

    def _per_vertex(self, values: Tensor) -> Tensor:
        """Values per mesh [B, ...] for each of its vertices: [ΣV, ...]."""
        if len(self) == 1:
            return values.expand(self.vertex_counts[0], *values.shape[1:])
        return gathered(values, owners(self.vertex_counts, values.device))

    def _checked(self, name: str, values: Tensor, shape: str) -> Tensor:
        """A finite tensor of the dtype of the vertices, by which they are moved."""
        check_like(name, check_float(name, values), "vertices", self._vertices)
        check_shape(name, values, shape, B=len(self))
        return check_finite(name, values)

    def scaled(self, factor: float | Tensor) -> Mesh:
        """Every mesh times a factor > 0, a number or one per mesh [B], about its origin.

        Raises:
            TypeError: for a factor that is neither.
            ValueError: for a factor that is not positive, or another shape.
        """
        if not isinstance(factor, Tensor):
            return self.with_vertices(self._vertices * check_number("factor", factor, above=0))
        self._checked("factor", factor, "[] or [B]")
        if not bool((factor > 0).all()):
            raise ValueError(f"factor must be > 0, got {factor.min().item()}")
        return self.with_vertices(
            self._vertices * self._per_vertex(factor.expand(len(self))[:, None])
        )

    def translated(self, offset: Tensor) -> Mesh:
        """Every mesh moved by [3], or by one offset per mesh [B, 3].

        Raises:
            TypeError: for what is no float tensor.
            ValueError: for another shape, NaN or inf.
        """
        self._checked("offset", offset, "[3] or [B, 3]")
        return self.with_vertices(self._vertices + self._per_vertex(offset.expand(len(self), 3)))

    def transformed(self, matrix: Tensor) -> Mesh:
        """Every vertex as a column p turned into M·p; a mirror image turns the faces inside out.

        p counts from the `origin`, which stays.

        Args:
            matrix: [3, 3], [4, 4] (affine: last row 0 0 0 1) or one per mesh, [B, 3, 3], [B, 4, 4].

        Raises:
            TypeError: for what is no float tensor.
            ValueError: for another shape, NaN, inf, or a last row that is not 0 0 0 1.
        """
        self._checked("matrix", matrix, "[3, 3] or [4, 4] or [B, 3, 3] or [B, 4, 4]")
        size = matrix.shape[-1]
        last = matrix.new_tensor([0.0, 0.0, 0.0, 1.0])
        if size == 4 and not bool((matrix[..., 3, :] == last).all()):
            raise ValueError("matrix must be affine, its last row 0 0 0 1; divide by w yourself")
        matrix = self._per_vertex(matrix.expand(len(self), size, size))
        moved = matmul(matrix[:, :3, :3], self._vertices[:, :, None]).squeeze(-1)
        return self.with_vertices(moved + matrix[:, :3, 3] if size == 4 else moved)

    def normalized(self, fit: str = "sphere") -> Mesh:
        """Every mesh with the centre of its bounding box at 0, and of unit size.

        It has left its place in the world, so its `origin` is 0.

        Args:
            fit: "sphere": the farthest vertex lies on the unit sphere; "cube": the longest side of
                the bounding box is 1, so the mesh fits [−½, ½]³.

        Raises:
            ValueError: for another `fit`, or a mesh of no extent.
        """
        check_choice("fit", fit, ("sphere", "cube"))
        low, high = self.bounding_box()
        centred = self._vertices - self._per_vertex((low + high) / 2)
        if fit == "cube":
            size = (high - low).amax(-1)
        else:
            parts = centred.split(list(self.vertex_counts))
            size = torch.stack([length(p).amax() for p in parts])
        if not all_hold((size > 0) & size.isfinite()):
            check_reach("vertices", check_finite("vertices", self._vertices), self.dtype)
            point = int((size <= 0).nonzero()[0])
            raise ValueError(f"mesh {point} has no extent, all its vertices coincide")
        out = self.with_vertices(centred / self._per_vertex(size[:, None]))
        out._origin = None
        return out

    def subdivided(self, times: int = 1) -> Mesh:
        """Every face split in four at the midpoints of its edges, `times` times.

        Colours and UVs are interpolated. The vertices of a mesh keep their place and are followed
        by the midpoints in the order of its edges; face i becomes faces 4i .. 4i + 3.
        """
        check_count("times", times, least=0)
        mesh = self
        for _ in range(times):
            mesh = mesh._split_once()
        return mesh

    def _split_once(self) -> Mesh:
        """Every face split in four."""
        if not self._topology.shared:
            return Mesh.batch([m._split_once() for m in self])
        batch, edges = len(self), self._topology.local_edges[0]
        out = self._with(self._attributes.split(edges, batch))
        out._topology = split_topology(self._topology)
        out._vertices = with_midpoints(self._vertices, edges, batch)
        return out

    def sample_points(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Points spread evenly over the surface, by area: [B, count, 3].

        The gradient to the vertices holds the barycentric place of each point fixed.

        Args:
            count: Points per mesh, >= 1.
            generator: Where the random numbers come from; the seeded default if None.

        Raises:
            ValueError: for a mesh without area.
        """
        check_count("count", count)
        return sample_points(
            self.face_vertices, self.face_areas, self.face_counts, count, generator
        )

    # -- files -----------------------------------------------------------------------------------

    @staticmethod
    def load(
        path: str | Path,
        *,
        max_megapixels: float = MAX_MEGAPIXELS,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Mesh:
        """Read one mesh from an OBJ, PLY, OFF, STL or glTF (GLB) file.

        Polygons, concave ones too, are cut into triangles that cover them. The objects of a scene
        are placed by their transforms and joined. Several texture images are put into one. Material
        colours become face colours. What a `Mesh` cannot hold (transparency) or what is not there
        (a texture) is named in one warning; docs/formats.md lists what is read of each format. A
        mesh for which float32 is too coarse gets an `origin`, also with a warning.

        Args:
            path: The file. The path of an mtl is relative to the folder of its OBJ; the paths of
                images are relative to the folder of the mtl or of the OBJ. What a glTF names lies
                in its folder or below.
            max_megapixels: The largest texture image that is read, in million pixels; what is
                larger is refused before it is decoded.
            dtype: float32 or float64; float64 leaves all coordinates as they are.
            device: Where the mesh lives.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: for a folder, an unknown extension, a file that is no mesh or is damaged, a
                mesh without faces, coordinates too large for the dtype, a texture that is too
                large, and a file that claims far more than it holds: a face with more corners than
                twice the vertices (and 1,000), or a glTF that becomes more than 512 MB and 20 times
                its size once its meshes are in all their places.
        """
        path, notes = Path(path), list[str]()
        parts = formats.read(path, dtype, max_megapixels, notes)
        with damage_named(path):
            mesh = Mesh._of(parts).to(device, dtype)
        warn_of(path.name, notes)
        return mesh

    def save(self, path: str | Path) -> None:
        """Write one mesh to an OBJ, PLY, OFF, STL or glTF (GLB) file.

        | format | texture and UVs | vertex colours | face colours                    | origin |
        |--------|-----------------|----------------|---------------------------------|--------|
        | obj    | yes (mtl, png)  | yes            | as materials, if no texture     | yes    |
        | ply    | read only       | 8 bits         | 8 bits, if no vertex colours    | yes    |
        | off    | no              | no             | no                              | yes    |
        | stl    | no              | no             | no                              | no     |
        | glb, gltf | yes          | yes            | as vertex colours; vertices repeat | yes |

        glTF and OBJ also keep whether the mesh is `unlit`. OBJ, PLY and OFF keep every digit; the
        others store positions as float32, and glTF stores the origin beside them. Colours are sRGB
        here, as in images, and linear in glTF: they are converted. A `.gltf` has its buffer and
        image within.

        An OBJ with a texture or face colours comes with an mtl and a png of the same name, or of
        that name and a number if such a file is there already and the OBJ that is replaced does not
        name it. What the format cannot keep is dropped with one warning that names it. Colours are
        clamped to [0, 1]. All files are first written under temporary names: if the disk is full,
        the old files are kept.

        Raises:
            ValueError: for a batch, a mesh without faces, or an unknown extension.
            FileNotFoundError: for a folder that does not exist.
            OSError: if the files cannot be written.
        """
        write_all(self.to_files(path))

    def to_files(self, path: str | Path, *, normals: bool = False) -> dict[Path, bytes]:
        """The files that `save` writes, for who writes them together with others.

        Args:
            path: of the mesh.
            normals: whether a glTF holds the normals of vertices, so that programs draw it smooth;
                without them they draw faces flat.

        Raises:
            ValueError: as `save`.
            FileNotFoundError: as `save`.
        """
        path = Path(path)
        formats.kind_of(path)
        if len(self) != 1:
            raise ValueError(f"a file holds one mesh, got a batch of {len(self)}; save mesh[i]")
        return formats.encoded(self.detach().to("cpu")._parts(), path, normals=normals)

    # -- other libraries -------------------------------------------------------------------------

    @staticmethod
    def from_trimesh(
        geometry: Any,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Mesh:
        """The mesh of a `trimesh.Trimesh`, or of all meshes in a `trimesh.Scene`.

        Vertices and faces keep their order and number, but for meshes with UVs: trimesh repeats
        their vertices along the seams of the texture, and those of equal position and colour are
        made one. Factors of PBR materials are linear, as in glTF, other colours sRGB. The mesh is
        lit, as trimesh does not know of meshes that are not (`with_unlit`). What a `Mesh` cannot
        hold (transparency) is dropped with a warning. Coordinates too far from 0 for float32 get an
        `origin`, as those of a file do (`load`).

        Args:
            geometry: A `trimesh.Trimesh` or `trimesh.Scene`.
            dtype: float32 or float64.
            device: Where the mesh lives.

        Raises:
            TypeError: for anything else.
            ValueError: for a mesh without faces, and for values that no `Mesh` may hold.
        """
        notes: list[str] = []
        parts = trimesh_objects.from_trimesh(geometry, dtype, notes)
        mesh = Mesh._of(parts).to(device, dtype)
        warn_of("the trimesh", notes)
        return mesh

    def to_trimesh(self) -> Any:
        """One mesh as a `trimesh.Trimesh`, in world coordinates (`origin` added), float64.

        trimesh has one UV per vertex and either vertex or face colours. So vertices are repeated
        along the seams of a texture, and each face gets vertices of its own where face colours meet
        a texture or vertex colours; else vertices and faces keep their order and number. Colours
        are rounded to 8 bits.

        Raises:
            ValueError: for a batch.
        """
        if len(self) != 1:
            raise ValueError(f"a trimesh is one mesh, got a batch of {len(self)}; convert mesh[i]")
        return trimesh_objects.to_trimesh(self.detach().to("cpu")._parts())

    @staticmethod
    def from_pytorch3d(meshes: Any) -> Mesh:
        """The batch of a `pytorch3d.structures.Meshes`, with gradients.

        TexturesVertex of 3 features become vertex colours, TexturesUV textures and TexturesAtlas of
        one texel face colours; other textures are dropped with a warning. UVs and texels stay as
        they are: both sides have v up and row 0 at the top. `gendr` repeats a texture beyond [0, 1]
        and has the outer edges of its outermost texels at 0 and 1; PyTorch3D has their centres
        there unless `align_corners=False`.

        Args:
            meshes: Meshes, or what has `verts_list()`, `faces_list()` and `textures`.

        Raises:
            TypeError: for anything else.
            ValueError: for an empty batch, and for values that no `Mesh` may hold.
        """
        return Mesh.batch([Mesh._of(parts) for parts in pytorch3d_objects.from_pytorch3d(meshes)])

    def to_pytorch3d(self) -> Any:
        """The batch as a `pytorch3d.structures.Meshes`, with gradients.

        PyTorch3D holds one kind of colours: the texture as TexturesUV, or else vertex colours as
        TexturesVertex, or else face colours as TexturesAtlas; the rest is dropped with a warning.
        The `origin` is not added to the coordinates.

        Raises:
            ImportError: if PyTorch3D is not installed.
        """
        return pytorch3d_objects.to_pytorch3d([mesh._parts() for mesh in self])

    @staticmethod
    def _of(parts: MeshParts) -> Mesh:
        """One mesh of its parts."""
        arguments = {field.name: getattr(parts, field.name) for field in fields(parts)}
        origin, unlit = arguments.pop("origin"), arguments.pop("unlit")
        mesh = Mesh(**arguments).with_unlit(unlit)
        return mesh if origin is None else mesh.with_origin(origin)

    def _parts(self) -> MeshParts:
        """The parts of a single mesh."""
        values: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(MeshParts)}
        values["origin"] = self.origin[0]
        return MeshParts(**values)
