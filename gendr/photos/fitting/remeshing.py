"""`RemeshingAdam`: an optimiser of a mesh that remeshes it as it steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import torch
from torch import Tensor, nn

from gendr._common.checks import check_count, check_number
from gendr.mesh import Mesh
from gendr.optim import UniformAdam
from gendr.photos import remesh
from gendr.photos.fitting.parametrization import SmoothParametrization, check_single
from gendr.photos.meshing.remeshing import Remeshed, without_cuts

__all__ = ["RemeshingAdam", "interpolated_moments"]

# Iterations of a remeshing on the way; the surface is near to even already.
ITERATIONS = 3


def interpolated_moments(found: Remeshed, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Adam's averages [V, 3] of the gradient and of its square, on the vertices of a new mesh.

    A vertex has the gradient of the surface around it, so that more vertices have less each.
    """
    part = len(first) / len(found.corners)
    return found.interpolated(first) * part, found.interpolated(second) * part**2


class RemeshingAdam(UniformAdam):
    """An optimiser of the vertices of a mesh, and of its vertex colours, that keeps its faces even.

    Vertices are a `SmoothParametrization`, whose parameter takes steps of `UniformAdam`. After
    every few steps the mesh is remeshed, and vertex colours and the averages of the optimiser are
    carried over to the new vertices: the surface may grow and bend without faces that are long, or
    that cut each other.

    >>> optimizer = gendr.RemeshingAdam(sphere, lr=0.03, edge_length=0.05)
    >>> loss = iou_loss(renderer(optimizer.mesh(), camera).alpha, masks)
    >>> optimizer.zero_grad(); loss.backward(); optimizer.step()
    >>> optimizer.result().save("fit.obj")

    A remeshing puts new parameters into `param_groups`, so take the mesh from `mesh()` in every
    step. Schedulers of learning rates work, and `edge_length` may be set between steps. The state
    dict holds the mesh too: a loop goes on from it with the same bits.

    Args:
        mesh: One mesh to start from, with vertex colours or none. UVs are refused: they would be
            lost.
        lr: Step length, > 0, world units: so far moves about the vertex with the largest gradient.
        edge_length: > 0, world units, of the edges after the next remeshing; by default the mean of
            the start.
        every: Steps between two remeshings, >= 1.
        smoothness: See `SmoothParametrization`.
        color_lr: Step length of vertex colours, > 0.
        betas: See `UniformAdam`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If it is a batch, has UVs or no faces, or if a number is out of range.

    Source: Palfinger, Continuous Remeshing for Inverse Rendering, 2022, whose remeshing follows
    each step; Nicolet, Jacobson, Jakob, Large Steps in Inverse Rendering of Geometry, 2021.
    """

    def __init__(
        self,
        mesh: Mesh,
        lr: float = 0.03,
        *,
        edge_length: float | None = None,
        every: int = 10,
        smoothness: float = 2.0,
        color_lr: float = 0.03,
        betas: tuple[float, float] = (0.9, 0.99),
    ) -> None:
        check_single("mesh", mesh)
        if mesh.uvs is not None:
            raise ValueError(
                "mesh has UVs, which remeshing would lose; give it vertex_colors instead, or fit "
                "its shape without a texture and unwrap the result (gendr.mesh.unwrap)"
            )
        a, b = mesh.vertices.detach()[mesh.edges.T]
        mean = float((b - a).norm(dim=-1).mean())
        self.edge_length = check_number(
            "edge_length", mean if edge_length is None else edge_length, above=0
        )
        self.every = check_count("every", every, least=1)
        self.steps = 0
        self._shape, self._smoothness = SmoothParametrization(mesh, smoothness), smoothness
        groups: list[dict[str, Any]] = [{"params": [self._shape.u], "lr": lr}]
        self._colors: nn.Parameter | None = None
        if mesh.vertex_colors is not None:
            self._colors = nn.Parameter(mesh.vertex_colors.detach().clone())
            groups.append({"params": [self._colors], "lr": check_number("color_lr", color_lr)})
        super().__init__(groups, lr, betas)

    def mesh(self) -> Mesh:
        """The mesh as it is, differentiable in the parameters."""
        mesh = self._shape.mesh()
        return mesh if self._colors is None else mesh.with_vertex_colors(self._colors)

    @torch.no_grad()
    def result(self) -> Mesh:
        """The mesh remeshed once more, and smoothed where faces cut each other, detached."""
        found = remesh(self._plain(), self.edge_length, iterations=ITERATIONS)
        mesh = without_cuts(found.mesh)
        if self._colors is None:
            return mesh
        return mesh.with_vertex_colors(found.interpolated(self._colors.detach()).clamp(0, 1))

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Do one step, and remesh if it is time to.

        Args:
            closure: Computes the loss and its gradients again, and returns the loss.

        Returns:
            What the closure returned, or None.
        """
        loss = super().step(closure)  # pyright: ignore[reportCallIssue, reportArgumentType]
        self.steps += 1
        if self.steps % self.every == 0:
            self.remesh()
        return loss

    @torch.no_grad()
    def remesh(self) -> None:
        """Make the faces even now."""
        found = remesh(self._plain(), self.edge_length, iterations=ITERATIONS)
        old, shape = self._shape.u, SmoothParametrization(found.mesh, self._smoothness)
        self._shape = shape
        self._exchange(0, old, shape.u, lambda both: interpolated_moments(found, *both))
        if self._colors is not None:
            old, self._colors = (
                self._colors,
                nn.Parameter(found.interpolated(self._colors.detach())),
            )
            self._exchange(1, old, self._colors, lambda both: tuple(map(found.interpolated, both)))

    def _exchange(
        self, group: int, old: Tensor, new: Tensor, carry: Callable[[tuple[Tensor, Tensor]], Any]
    ) -> None:
        """Put a new parameter in the place of another, with its averages carried over.

        A new object: graphs that hold the old one, as that of the last loss, stay as they are.
        """
        self.param_groups[group]["params"] = [new]
        if state := self.state.pop(old, None):
            state["first"], state["second"] = carry((state["first"], state["second"]))
            self.state[new] = state

    def _plain(self) -> Mesh:
        """The shape, without colours."""
        start = self._shape.start
        return Mesh(self._shape().detach(), start.faces).with_origin(start.origin[0])

    def __getstate__(self) -> dict[str, Any]:
        """All of it: that of torch's optimisers has nothing of their own."""
        own = ("edge_length", "every", "steps", "_shape", "_smoothness", "_colors")
        return {**super().__getstate__(), **{name: getattr(self, name) for name in own}}

    def state_dict(self) -> dict[str, Any]:
        """The state, the mesh, and when it was remeshed last."""
        mesh = {
            "u": self._shape.u.detach(),
            "vertices": self._shape().detach(),
            "faces": self._shape.start.faces,
            "colors": None if self._colors is None else self._colors.detach(),
        }
        loop = {"steps": self.steps, "edge_length": self.edge_length}
        return {**super().state_dict(), "mesh": mesh, "loop": loop}

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state, whatever mesh this optimiser was made with.

        Raises:
            ValueError: If only one of both has colours, or the state is none of this optimiser.
        """
        if not {"mesh", "loop"} <= state_dict.keys():
            raise ValueError("state_dict is of another optimiser; it holds no mesh")
        kept, loop = state_dict["mesh"], state_dict["loop"]
        if (kept["colors"] is None) != (self._colors is None):
            one = "none" if kept["colors"] is None else "vertex colours"
            raise ValueError(f"the mesh of the state dict has {one}, that of this optimiser not so")
        old, start = self._shape.u, self._shape.start
        mesh = Mesh(kept["vertices"].to(old), kept["faces"].to(start.faces))
        self._shape = SmoothParametrization(mesh.with_origin(start.origin[0]), self._smoothness)
        self._shape.u.copy_(kept["u"])  # as it was, with all digits
        self._exchange(0, old, self._shape.u, tuple)
        if self._colors is not None:
            old, self._colors = self._colors, nn.Parameter(kept["colors"].to(self._colors).clone())
            self._exchange(1, old, self._colors, tuple)
        self.steps, self.edge_length = loop["steps"], loop["edge_length"]
        super().load_state_dict({k: v for k, v in state_dict.items() if k not in ("mesh", "loop")})
