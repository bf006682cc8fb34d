"""Tests that walk through many cases, where an item for each would cost more than the case."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, TypeVar

import pytest
import torch

T = TypeVar("T")


def dealt(cases: Sequence[T], name: Callable[[T], str], parts: int, seed: int) -> list[T]:
    """An n-th of the cases, in their order; n seeds in a row give every case once.

    They are dealt in an order that their names decide, so that no part has all of one kind.

    Args:
        cases: what is chosen from.
        name: the name of a case, which stays when others come.
        parts: n; of fewer cases than that, one is given.
        seed: which of the parts.
    """
    order = sorted(
        range(len(cases)), key=lambda i: hashlib.sha256(name(cases[i]).encode()).digest()
    )
    return [cases[i] for i in sorted(order[-seed % min(parts, len(cases) or 1) :: parts])]


def for_each(
    names: str = "",
    rows: Iterable[Any] | Callable[[int, bool], list[Any]] = ((),),
    /,
    *,
    rotating: int = 1,
    **values: Iterable[Any],
) -> Callable[[Callable[..., None]], Any]:
    """Run a test with every combination of these arguments, as one item.

    It stops at the first that fails and names it. Each case has torch seeded anew, a `tmp_path` and
    a `monkeypatch` of its own; other fixtures are made once for all. A case without a meaning
    returns: `pytest.skip` would skip the others too.

    Args:
        names: of arguments that go together, with commas between them.
        rows: their values, a tuple for each case; or a function that draws them, from the seed
            and whether `--every` case is wanted.
        rotating: n, if an n-th of the cases is enough, another with every `--seed`; with
            `--every` all run.
        values: the values of each other argument.
    """
    together = [name.strip() for name in names.split(",") if name]
    others = list(product(*values.values()))
    arguments = [*together, *values]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def walk(request: pytest.FixtureRequest, **fixtures: Any) -> None:
            seed, every = map(request.config.getoption, ("--seed", "--every"))
            drawn = rows(seed, every) if callable(rows) else rows
            cases = [(*row, *other) for row in drawn for other in others]
            for number, case in enumerate(dealt(cases, str, 1 if every else rotating, seed)):
                torch.manual_seed(0)
                given = {**fixtures, **dict(zip(arguments, case, strict=True))}
                if "tmp_path" in given:
                    given["tmp_path"] = fixtures["tmp_path"] / str(number)
                    given["tmp_path"].mkdir()
                try:
                    with pytest.MonkeyPatch.context() as patch:
                        if "monkeypatch" in given:
                            given["monkeypatch"] = patch
                        test(**given)
                except Exception as error:
                    name = f"case {number}, {', '.join(map(str, case))}"
                    raise AssertionError(f"{test.__name__} fails for {name}: {error}") from error

        own = inspect.signature(test).parameters.values()
        fixtures = [p for p in own if p.name not in arguments]
        request = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        walk.__signature__ = inspect.Signature([request, *fixtures])  # pyright: ignore
        return walk

    return decorate
