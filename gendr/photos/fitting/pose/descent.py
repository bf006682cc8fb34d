"""The refinement of poses by gradients: soft silhouettes that sharpen, poses that move by Adam."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor
from typing_extensions import Self

from gendr.mesh import Camera, Mesh
from gendr.photos.triangles import face_vertices, hard_silhouette
from gendr.rendering import silhouette

__all__ = ["Descent", "P", "PoseRows", "hard"]

# After so many steps the hard silhouettes are compared, which takes about as long as a step.
_COMPARED_EVERY = 10
# So many images are drawn at once, which bounds the memory.
_AT_ONCE = 50


class PoseRows:
    """What dataclasses of tensors [K, ...], or of such again, have in common: a row for each pose.

    Attributes:
        rotation: [K, 3, 3].
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]
    rotation: Tensor

    def __len__(self) -> int:
        return len(self.parts()[0])

    def __getitem__(self, rows: Tensor | slice) -> Self:
        return self._mapped(lambda part: part[rows])

    def parts(self) -> list[Any]:
        """The fields, in order."""
        return [getattr(self, f.name) for f in fields(self)]

    @classmethod
    def joined(cls, some: Sequence[Self]) -> Self:
        """All poses of some, in order."""
        columns = zip(*(each.parts() for each in some), strict=True)
        return cls(
            *(
                column[0].joined(column) if isinstance(column[0], PoseRows) else torch.cat(column)
                for column in columns
            )
        )

    def detached(self) -> Self:
        """The same poses, without their graph."""
        return self._mapped(Tensor.detach)

    def replaced(self, rows: Tensor, new: Self) -> Self:
        """These poses, but in some rows, indices [N], others [N, ...]."""
        return self._mapped(lambda mine, its: mine.index_copy(0, rows, its), new)

    def where(self, is_mine: Tensor, other: Self) -> Self:
        """These poses in the rows of `is_mine`, bool [K], those of `other` elsewhere."""

        def chosen(mine: Tensor, its: Tensor) -> Tensor:
            return torch.where(is_mine.reshape(-1, *(1,) * (mine.ndim - 1)), mine, its)

        return self._mapped(chosen, other)

    def _mapped(self, change: Callable[..., Any], *others: Self) -> Self:
        columns = zip(*(each.parts() for each in (self, *others)), strict=True)
        return type(self)(*(change(*column) for column in columns))


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
    """

    mesh: Mesh
    masks: Tensor
    camera: Callable[[P], Camera]
    scores: Callable[[P], Tensor]
    dist: str
    tconorm: str

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
                camera = self.camera(now)
                seen = face_vertices(self.mesh.vertices[None], self.mesh.faces, camera)
                scale = pixels[0] * (pixels[1] / pixels[0]) ** part * self.pixel
                alpha = in_photo(silhouette(seen, size, self.dist, self.tconorm, scale), camera)
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
        return best


def hard(mesh: Mesh, camera: Camera, size: int | tuple[int, int]) -> Tensor:
    """Hard silhouettes [K, H, W] of a mesh."""
    parts = [camera[i : i + _AT_ONCE] for i in range(0, len(camera), _AT_ONCE)]
    return torch.cat(
        [
            in_photo(
                hard_silhouette(face_vertices(mesh.vertices[None], mesh.faces, part), size), part
            )
            for part in parts
        ]
    )


def in_photo(alpha: Tensor, camera: Camera) -> Tensor:
    """Images [K, H, W] of K cameras, empty beside the windows that photos fill."""
    photo = camera.photo((alpha.shape[1], alpha.shape[2]))
    return alpha if photo is None else alpha * photo
