"""The settings of a training of reconstruction."""

from __future__ import annotations

from dataclasses import dataclass

from gendr.cli.command_line import Number, above, count, option
from lab.settings import check_options

__all__ = ["TrainingSettings"]


@dataclass(frozen=True)
class TrainingSettings:
    """How a model is trained. The defaults are those of the papers, but for steps and scale.

    Attributes:
        dist: the distribution, as gendr list distributions names it. In Python also an object.
        tconorm: the T-conorm, as gendr list tconorms names it. In Python also an object.
        scale: how soft edges are: a number in NDC, or such as 1.5px. NDC² for squared
            distributions.
        cutoff: coverage at or below it counts as 0.
        steps: Adam steps. The papers have 250,000.
        batch: shapes a step, two views each.
        learning_rate: learning rate of Adam.
        laplacian: weight of the Laplacian loss.
        flatten: weight of the flatten loss.
        drop_after: share of the steps after which learning rate and scale are multiplied by `drop`.
        drop: in (0, 1].
        encoder: published (three convolutions), residual (of the size of ResNet18), or none: the
            baseline, one mesh for all images, that explains the training set best. See
            `Reconstructor`.
        seed: of the weights and of the draws.
        bfloat16: run the encoder in bfloat16.

    Raises:
        TypeError: for a setting of the wrong type.
        ValueError: for one out of range.
    """

    dist: str = option("uniform", None, "DIST")
    tconorm: str = option("probabilistic", None, "NAME")
    scale: float | str = option("0.5px")
    cutoff: float = option(1e-4, Number(0, 0.999))
    steps: int = option(20_000, count(1))
    batch: int = option(64, count(1))
    learning_rate: float = option(1e-4, above(0), flags="--lr")
    laplacian: float = option(5e-3, Number(0))
    flatten: float = option(5e-4, Number(0))
    drop_after: float = 0.6
    drop: float = 0.3
    encoder: str = option("published", None, "NAME", choices=("published", "residual", "none"))
    seed: int = option(0, int, "N")
    bfloat16: bool = option(False)

    def __post_init__(self) -> None:
        from gendr._common.checks import check_choice, check_number

        check_options(self)
        if not 0 <= check_number("drop_after", self.drop_after) <= 1:
            raise ValueError(f"drop_after must lie in [0, 1], got {self.drop_after!r}")
        if not 0 < check_number("drop", self.drop) <= 1:
            raise ValueError(f"drop must lie in (0, 1], got {self.drop!r}")
        check_choice("encoder", self.encoder, ("published", "residual", "none"))
