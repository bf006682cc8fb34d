"""Training from silhouettes: two views of a shape, two meshes, each seen in both views.

    >>> training = Training(ShapeNetRenderings(folder), TrainingSettings(steps=20_000))
    >>> for _ in range(20_000):
    ...     losses = training.advance()
    >>> training.save("out/checkpoint.pt")

Source: Kato, Ushiku, Harada, Neural 3D Mesh Renderer, 2018; Liu et al., Soft Rasterizer, 2019;
thesis section 5.4.3 (schedule).
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gendr.jobs.checkpoint import load_checkpoint
from gendr.jobs.loop import Work
from gendr.losses import FlattenLoss, LaplacianLoss, iou_loss
from gendr.rendering import Renderer
from gendr.rendering.api import parse_scale
from lab.reconstruction.model import Reconstructor
from lab.reconstruction.ranks import Ranks, with_global_batch_norm
from lab.reconstruction.renderings import (
    Pairs,
    ShapeNetRenderings,
    camera_of_view,
    seen_images,
)
from lab.reconstruction.settings import TrainingSettings

__all__ = ["Losses", "Training", "load_model"]


class Losses(NamedTuple):
    """The losses of a step; what is minimised is their sum with the weights of the settings.

    Attributes:
        silhouette: `iou_loss` of rendered and true silhouettes.
        laplacian: `LaplacianLoss`, the mean over the batch.
        flatten: `FlattenLoss`, the mean over the batch.
    """

    silhouette: float
    laplacian: float
    flatten: float


class _StoredBatch(NamedTuple):
    """A batch as the files hold it, and the state of the generator after its draw."""

    stored: Tensor  # uint8 [2 B, 4, H, W]
    views: Tensor  # [2, B]
    shapes: Tensor  # [B]
    after: Tensor


class _ReadAhead:
    """Reads one batch, or a share of it, in a thread while another one is trained on.

    The thread reads bytes and nothing else: work of torch there would take the cores from training.
    """

    def __init__(self, data: ShapeNetRenderings, batch: int, share: slice, *, pinned: bool) -> None:
        self._data, self._batch, self._share, self._pinned = data, batch, share, pinned
        self._pool = ThreadPoolExecutor(1, "gendr-batch")
        self._begun: tuple[Tensor, Future[_StoredBatch]] | None = None

    def begin(self, state: Tensor) -> None:
        """Start to read the batch that a generator in this state draws."""
        self._begun = state, self._pool.submit(self._read, state)

    def take(self, state: Tensor) -> _StoredBatch:
        """The batch that a generator in this state draws, whether it was begun or not."""
        begun, self._begun = self._begun, None
        if begun is not None and torch.equal(begun[0], state):
            return begun[1].result()
        return self._read(state)

    def _read(self, state: Tensor) -> _StoredBatch:
        generator = torch.Generator()
        generator.set_state(state)
        shapes, views = self._data.choose(self._batch, generator)
        shapes, views = shapes[self._share], views[:, self._share]
        stored = self._data.stored_images(shapes.repeat(2), views.flatten())
        if self._pinned:
            stored = stored.pin_memory()  # so that the copy to the GPU waits for nothing
        return _StoredBatch(stored, views, shapes, generator.get_state())


class Training(Work):
    """A model, its optimiser and the state of its draws, at some step.

    Args:
        data: what is drawn from.
        settings: see there.
        device: where the model is trained.
        ranks: the processes that train together, see `lab.reconstruction.ranks`; by default this
            one alone. The batch of the settings is that of all of them.

    Attributes:
        model: the `Reconstructor`.
        step: how many steps there have been.
        seconds: how long they took, also before a checkpoint that was loaded.
        history: what the caller noted on the way, plain values; a checkpoint keeps it.
        data: as given.
        settings: as given.
        ranks: as given.

    Raises:
        ValueError: for a batch that the processes cannot share evenly.
    """

    kind = "a reconstruction"

    def __init__(
        self,
        data: ShapeNetRenderings,
        settings: TrainingSettings | None = None,
        device: torch.device | str = "cpu",
        ranks: Ranks | None = None,
    ) -> None:
        self.data, self.settings = data, settings or TrainingSettings()
        self.ranks = ranks or Ranks(device)
        self.device = torch.device(device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.settings.seed)
            model = Reconstructor(self.settings.encoder, side=data.side)
        self.model = model.to(self.device)
        # What a step calls: the model, or the same with gradients that are means over processes.
        self._network: nn.Module = self.model
        if self.ranks.size > 1:
            with_global_batch_norm(self.model, self.ranks)
            self._network = DistributedDataParallel(self.model)
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), self.settings.learning_rate, betas=(0.9, 0.99), fused=True
        )
        self.generator = torch.Generator().manual_seed(self.settings.seed)
        self._ahead = _ReadAhead(
            data,
            self.settings.batch,
            self.ranks.share(self.settings.batch),
            pinned=self.device.type == "cuda",
        )
        self.step = 0
        self.seconds = 0.0
        self.history: list[dict[str, Any]] = []
        faces, count = model.sphere.faces, len(model.sphere.vertices)
        self._laplacian = LaplacianLoss(faces, count).to(self.device)
        self._flatten = FlattenLoss(faces, count).to(self.device)
        self._renderer = Renderer(
            data.side,
            self.settings.dist,
            self.settings.tconorm,
            cutoff=self.settings.cutoff,
            near=0.1,
            far=10.0,
            check=False,
        ).to(self.device)
        size, squared = self._renderer.size, self._renderer.dist.is_squared
        self._scale = float(parse_scale(self.settings.scale, size, squared))

    @property
    def progress(self) -> float:
        """The part of the steps that is done, in [0, 1]."""
        return min(1.0, self.step / self.settings.steps)

    @property
    def has_dropped(self) -> bool:
        """Whether learning rate and scale of the next step are the smaller ones."""
        return self.step >= self.settings.drop_after * self.settings.steps

    @property
    def scale(self) -> float:
        """The scale of the next step, in NDC (NDC² for squared distributions)."""
        return self._scale * (self.settings.drop if self.has_dropped else 1.0)

    def advance(self) -> Losses:
        """Draw a batch, and move the weights once; of several processes, all at the same time.

        Returns:
            The losses of the whole batch, in all processes the same.
        """
        start = time.perf_counter()
        pairs = self.next_pairs()
        rate = self.settings.learning_rate * (self.settings.drop if self.has_dropped else 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.train()
        parts = self.losses(pairs)
        weights = (1.0, self.settings.laplacian, self.settings.flatten)
        total = sum(weight * part for weight, part in zip(weights, parts, strict=True))
        self.optimizer.zero_grad(set_to_none=True)
        torch.as_tensor(total).backward()
        self.optimizer.step()
        losses = Losses(*self.ranks.mean(torch.stack(parts).detach()).tolist())
        self.step += 1
        self.seconds += time.perf_counter() - start
        return losses

    def next_pairs(self) -> Pairs:
        """Draw the batch of the next step; that of the step after it is read meanwhile.

        Of several processes each gets its share of the same draw.

        What is drawn depends on the state of `generator` and nothing else, and that state is the
        one after this draw: a checkpoint knows nothing of what was read ahead.
        """
        found = self._ahead.take(self.generator.get_state())
        self.generator.set_state(found.after)
        if self.step + 1 < self.settings.steps:
            self._ahead.begin(found.after)
        stored = found.stored.to(self.device, non_blocking=True)
        images = seen_images(stored).unflatten(0, tuple(found.views.shape))
        return Pairs(images, found.views.to(self.device), found.shapes.to(self.device))

    def losses(self, pairs: Pairs) -> list[Tensor]:
        """Silhouette, Laplacian and flatten loss of two views of each of B shapes; scalars."""
        vertices = self.vertices(pairs)
        return [self.silhouette(vertices, pairs), *self.regularisers(vertices)]

    def vertices(self, pairs: Pairs) -> Tensor:
        """The vertices [2 B, V, 3] predicted from the 2 B images, those of first views first."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.bfloat16):
            return self._network(pairs.images.flatten(0, 1))

    def silhouette(self, vertices: Tensor, pairs: Pairs) -> Tensor:
        """The silhouette loss: each mesh of vertices [2 B, V, 3] is seen in both of its views."""
        # Shapes in the order (first, first), (second, first), (first, second), (second, second):
        # (the image that a mesh is from, the view it is seen in).
        meshes = self.model.meshes(vertices.repeat(2, 1, 1))
        views, masks = pairs.views, pairs.images[:, :, 3]
        camera = camera_of_view(views.repeat(1, 2).flatten())
        alpha = self._renderer(meshes, camera, scale=self.scale).alpha
        return iou_loss(alpha, masks.repeat(1, 2, 1, 1).flatten(0, 1))

    def regularisers(self, vertices: Tensor) -> list[Tensor]:
        """The Laplacian and the flatten loss of vertices [B, V, 3]."""
        return [self._laplacian(vertices), self._flatten(vertices)]

    # -- checkpoints

    def signature(self) -> dict[str, Any]:
        """The settings and the data."""
        classes = [one.id for one in self.data.classes]
        return {**asdict(self.settings), "classes": classes, "shapes": list(self.data.counts)}

    def state_dict(self) -> dict[str, Any]:
        """All that training needs to go on."""
        return {
            "model": self.model.state_dict(),
            "model_options": self.model.options,
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "step": self.step,
            "seconds": self.seconds,
            "history": self.history,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        for name in ("model", "optimizer"):
            getattr(self, name).load_state_dict(state[name])
        self.generator.set_state(state["generator"])
        self.step, self.seconds = state["step"], state["seconds"]
        self.history = state["history"]

    def restore(self, path: str | Path) -> None:
        """Go on where a checkpoint was saved; the same weights as if it had never stopped.

        Of several processes the first one reads it and gives it to the others. It does not matter
        by how many it was written.

        Raises:
            ValueError: for a file that is no checkpoint, or one of other data or settings.
        """
        values: dict[str, Any] = {}
        if self.ranks.is_first:
            names = self.state_dict().keys()
            values = load_checkpoint(path, self.kind, names, self.signature())
        self.load_state_dict(self.ranks.from_first(values))


def load_model(path: str | Path, device: torch.device | str = "cpu") -> Reconstructor:
    """The model of a checkpoint, ready to predict.

    Args:
        path: of a checkpoint that train.py wrote.
        device: that the model is put on.

    Raises:
        ValueError: for a file that is no checkpoint of a reconstruction.
    """
    values = load_checkpoint(path, Training.kind, ("model", "model_options"), device=device)
    model = Reconstructor(**values["model_options"])
    model.load_state_dict(values["model"])
    return model.to(device).eval()
