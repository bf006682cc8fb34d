"""`SmoothParametrization`: vertices as a smooth function of parameters that an optimiser moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import Self

from gendr._common.checks import check_number
from gendr.mesh import Mesh
from gendr.photos.fitting.graph import factorised, laplacian

__all__ = ["SmoothParametrization", "check_single"]


class _Solve(torch.autograd.Function):
    """x -> A^-1 x for a symmetric, factorised A; its backward pass is the same solve."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Any) -> Tensor:
        ctx.factor = factor
        solved = factor.solve(x.detach().double().cpu().numpy())
        return torch.from_numpy(solved).to(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None]:
        return _Solve.apply(grads[0], ctx.factor), None  # pyright: ignore[reportReturnType]


class SmoothParametrization(nn.Module):
    """Vertices as v = (I + smoothness L)^-1 u, with L the graph Laplacian of the mesh.

    An optimiser that changes the parameter `u` moves regions that are about sqrt(smoothness) edges
    wide, however it scales the entries of the gradient, so that the surface stays smooth even if
    steps are large.

    >>> shape = SmoothParametrization(icosphere(3))
    >>> optimizer = torch.optim.Adam(shape.parameters(), lr=0.03, betas=(0.9, 0.99))
    >>> loss = iou_loss(renderer(shape.mesh(), camera).alpha, masks)

    The matrix is factorised once, in float64, by SciPy; a solve takes time in proportion to the
    number of vertices. It runs on the CPU, wherever `u` is. Twice differentiable.

    The state dict holds `u` and what gives it its meaning, the faces and the smoothness: a
    parametrization with others refuses to load it.

    Args:
        mesh: One mesh to start from; it is reproduced up to rounding.
        smoothness: lambda >= 0; 0 makes u the vertices themselves.

    Raises:
        TypeError: If `mesh` is no `Mesh`.
        ValueError: If it is a batch or has no faces, or if smoothness is negative.

    Source: Nicolet, Jacobson, Jakob, Large Steps in Inverse Rendering of Geometry, 2021, (12).
    """

    u: nn.Parameter

    def __init__(self, mesh: Mesh, smoothness: float = 2.0) -> None:
        super().__init__()
        check_single("mesh", mesh)
        if check_number("smoothness", smoothness) < 0:
            raise ValueError(f"smoothness must be >= 0, got {smoothness!r}")
        self.start, self._smoothness = mesh.detach(), float(smoothness)
        matrix = self._matrix()
        self._factor: Any = factorised(matrix)
        vertices = mesh.vertices.detach()
        u = torch.from_numpy(matrix @ vertices.double().cpu().numpy()).to(vertices)
        self.u = nn.Parameter(u)

    def _matrix(self) -> Any:
        """I + smoothness L, a sparse matrix of SciPy."""
        from scipy.sparse import identity

        edges = self.start.edges.cpu().numpy()
        edges, count = edges[edges[:, 0] != edges[:, 1]], self.start.vertex_counts[0]
        return identity(count) + self._smoothness * laplacian(edges, count)

    def forward(self, u: Tensor | None = None) -> Tensor:
        """The vertices [V, 3] of the parameter, or of another `u` [V, 3]."""
        if self._factor is None:
            self._factor = factorised(self._matrix())
        solved = _Solve.apply(self.u if u is None else u, self._factor)
        assert isinstance(solved, Tensor)  # for the type checker
        return solved

    def mesh(self) -> Mesh:
        """The mesh of the current vertices, differentiable in `u`."""
        return self.start.with_vertices(self())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move the mesh along with `u`."""
        super()._apply(fn, recurse)
        self.start = self.start.to(self.u.device, self.u.dtype)
        return self

    def __getstate__(self) -> dict[str, object]:
        """The attributes without the factors, which are found again when they are needed."""
        return {**self.__dict__, "_factor": None}

    def get_extra_state(self) -> dict[str, Any]:
        """What `u` means nothing without."""
        return {"faces": self.start.faces.cpu(), "smoothness": self._smoothness}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Look whether a state dict is of these faces and this smoothness.

        Raises:
            ValueError: If it is of others.
        """
        if not torch.equal(state["faces"].cpu(), self.start.faces.cpu()):
            raise ValueError(
                "the state dict is of a mesh with other faces; load it into a "
                "SmoothParametrization of the mesh that it was made of"
            )
        if state["smoothness"] != self._smoothness:
            raise ValueError(
                f"the state dict is of smoothness {state['smoothness']:g}, this parametrization "
                f"has {self._smoothness:g}; make it with the other"
            )


def check_single(name: str, mesh: Mesh) -> None:
    """Raise unless `mesh` is a single mesh with faces."""
    if not isinstance(mesh, Mesh):
        raise TypeError(f"{name} must be a gendr.Mesh, got {type(mesh).__name__}")
    if len(mesh) != 1:
        raise ValueError(f"{name} must be one mesh, got a batch of {len(mesh)}")
    if mesh.face_counts[0] == 0:
        raise ValueError(f"{name} has no faces, so there is nothing to render")
