"""The refinement of poses by gradients: soft silhouettes that sharpen, poses that move by Adam."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor
from typing_extensions import Self

from gendr.mesh import Camera, Mesh
from gendr.rendering import silhouette
from gendr.rendering.triangles import face_vertices

__all__ = ["Descent", "P", "PoseRows"]

# After so many steps the hard silhouettes are compared, which takes about as long as a step.
_COMPARED_EVERY = 10


class PoseRows:
    """What dataclasses of tensors [K, ...], a row for each pose, have in common."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __len__(self) -> int:
        return len(self.tensors()[0])

    def __getitem__(self, rows: Tensor) -> Self:
        return type(self)(*(tensor[rows] for tensor in self.tensors()))

    def tensors(self) -> list[Tensor]:
        """The fields, in order."""
        return [getattr(self, f.name) for f in fields(self)]

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """All poses of some, in order."""
        return cls(*map(torch.cat, zip(*(part.tensors() for part in parts), strict=True)))

    def detached(self) -> Self:
        """The same poses, without their graph."""
        return type(self)(*(tensor.detach() for tensor in self.tensors()))

    def replaced(self, rows: Tensor, new: Self) -> Self:
        """These poses, but in some rows, indices [N], others [N, ...]."""
        return type(self)(
            *(
                mine.index_copy(0, rows, its)
                for mine, its in zip(self.tensors(), new.tensors(), strict=True)
            )
        )

    def where(self, is_mine: Tensor, other: Self) -> Self:
        """These poses in the rows of `is_mine`, bool [K], those of `other` elsewhere."""
        return type(self)(
            *(
                torch.where(is_mine.reshape(-1, *(1,) * (mine.ndim - 1)), mine, its)
                for mine, its in zip(self.tensors(), other.tensors(), strict=True)
            )
        )


P = TypeVar("P", bound=PoseRows)


@dataclass(frozen=True, eq=False)
class Descent(Generic[P]):
    """K poses of a mesh, each moved towards the masks of the same B cameras.

    Attributes:
        mesh: what is seen.
        masks: [B, H, W] in [0, 1].
        camera: the cameras [K * B] of K poses, those of one pose together.
        scores: the hard IoUs [K] of K poses, each the mean over the masks.
        dist, tconorm: of the soft silhouettes.
        way: takes the B cameras of the best pose each time that hard silhouettes are compared.
    """

    mesh: Mesh
    masks: Tensor
    camera: Callable[[P], Camera]
    scores: Callable[[P], Tensor]
    dist: str
    tconorm: str
    way: list[Camera]

    @property
    def pixel(self) -> float:
        """Side of a pixel of the masks, NDC."""
        return 2 / min(self.masks.shape[1:])

    def descended(
        self, start: P, moved: Callable[..., P], moves: Sequence[tuple[Tensor, float]], steps: int,
        pixels: tuple[float, float], tell: Callable[[float], None],
    ) -> P:  # fmt: skip
        """For each pose the one with the best hard silhouettes on the way.

        The loss of a pose is 1 - IoU of its soft silhouettes, the mean over the masks.

        Args:
            start: K poses.
            moved: of the values of `moves`: `start`, moved by them.
            moves: tensors [K, ...] and the rates of Adam for them, which fall to a tenth; the
                tensors are where the descent begins, and are not changed.
            steps: of Adam, >= 1.
            pixels: the first and the last scale of the silhouettes, in pixels.
            tell: called with the part of the steps that is done.
        """
        size = (self.masks.shape[1], self.masks.shape[2])
        wanted = self.masks.repeat(len(start), 1, 1)
        best, best_scores = start, self.scores(start)
        self._note(best, best_scores)
        rates = [rate for _, rate in moves]
        with torch.enable_grad():
            values = [value.detach().clone().requires_grad_() for value, _ in moves]
            optimizer = torch.optim.Adam(
                [{"params": [v], "lr": rate} for v, rate in zip(values, rates, strict=True)],
                betas=(0.8, 0.95),
            )
            for step in range(steps):
                part = step / steps
                for group, rate in zip(optimizer.param_groups, rates, strict=True):
                    group["lr"] = rate * 0.1**part
                now = moved(*values)
                seen = face_vertices(self.mesh.vertices[None], self.mesh.faces, self.camera(now))
                scale = pixels[0] * (pixels[1] / pixels[0]) ** part * self.pixel
                alpha = silhouette(seen, size, self.dist, self.tconorm, scale)
                both = alpha * wanted
                union = (alpha + wanted - both).sum((1, 2))
                loss = (1 - both.sum((1, 2)) / union).sum() / len(self.masks)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                tell((step + 1) / steps)
                if (step + 1) % _COMPARED_EVERY == 0 or step + 1 == steps:
                    with torch.no_grad():
                        now = now.detached()
                        scores = self.scores(now)
                        best = now.where(scores > best_scores, best)
                        best_scores = torch.maximum(scores, best_scores)
                        self._note(best, best_scores)
        return best

    def _note(self, poses: P, scores: Tensor) -> None:
        self.way.append(self.camera(poses[scores.argmax()[None]]))
