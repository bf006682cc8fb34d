"""What the scripts train.py, dataset.py and predict.py do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

from gendr.cli import warnings_as_lines
from gendr.cli.command_line import read_options, run_program
from gendr.cli.parser import Common, parser_of
from lab.reconstruction.commands import options

__all__ = ["dataset_main", "predict_main", "train_main"]


def _program(name: str, settings: type[Common]) -> Callable[..., int]:
    """The program `name`.py: called with its arguments, it returns the exit status of gendr's."""

    def main(argv: Sequence[str] | None = None) -> int:
        def run(args: object) -> int:
            with warnings_as_lines():
                module = import_module(f"{__name__}.{name}")
                return module.run(read_options(settings, vars(args)))

        return run_program(parser_of(settings, f"{name}.py"), run, argv)

    main.__doc__ = f"Run {name}.py with these arguments."
    return main


dataset_main = _program("dataset", options.Dataset)
train_main = _program("train", options.Reconstruction)
predict_main = _program("predict", options.Predict)
