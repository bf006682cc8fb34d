"""The names of the standard distributions, and distributions from and to text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from torch import Tensor

from gendr._common import registry
from gendr._common.checks import check_choice
from gendr.distributions.base import Distribution, Number
from gendr.distributions.callable import from_callable
from gendr.distributions.standard import StandardDistribution

DistributionLike: TypeAlias = (
    "str | Distribution | Callable[[Tensor], Tensor] | tuple[Callable[[Tensor], Tensor], Any]"
)

# The text form is words between dots, perhaps with arguments; dots in parentheses are decimal.
_WORD = re.compile(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*(\.(?!\s*$)|$)")
# Transforms by the word of the text form, and whether they take a number.
_TRANSFORMS = {"reversed": 0, "centred": 0, "shifted": 1, "squared": 0, "art": 1}

# The benchmark has 27 distributions: these, and each one-sided distribution in four variants.
_BOTH_SIDED = (
    "uniform", "cubic_hermite", "wigner_semicircle", "gaussian", "laplace", "logistic",
    "hyperbolic_secant", "cauchy", "reciprocal", "gumbel_max", "gumbel_min",
)  # fmt: skip
_ONE_SIDED = ("exponential", "gamma(shape=0.5)", "gamma(shape=2.0)", "levy")
# The order of the table in the papers; other distributions follow in the order of their definition.
_PAPERS = ("heaviside", *_BOTH_SIDED, "exponential", "gamma", "levy", "optimal")


def standard_distributions() -> dict[str, type[StandardDistribution]]:
    """The base members by name: those of the papers in the order of their table, then the others.

    Derived from the subclasses of `StandardDistribution`, so a distribution of the user's own
    appears as soon as it is defined.
    """
    found = registry.members(StandardDistribution)
    return {name: found[name] for name in (*_PAPERS, *found) if name in found}


def names() -> tuple[str, ...]:
    """The names of the base members."""
    return tuple(standard_distributions())


def _standard_class(word: str) -> type[StandardDistribution]:
    having = [
        cls for cls in registry.subclasses(StandardDistribution) if word in registry.names_of(cls)
    ]
    if len(having) == 1 and registry.is_member(having[0]):  # as nearly always, and quick
        return having[0]
    known = standard_distributions()
    every = {alias: cls for cls in known.values() for alias in registry.names_of(cls)}
    return every[check_choice("distribution", word, every)]


def _number(text: str, word: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{word} takes a number, got {text!r}") from None


def _names(cls: type[StandardDistribution]) -> tuple[str, ...]:
    """Its parameters; `torch.compile` can read these, but not `dataclasses.fields`."""
    return cls.__match_args__  # pyright: ignore[reportAttributeAccessIssue]  # distributions are dataclasses


def _parameters(cls: type[StandardDistribution]) -> str:
    allowed = _names(cls)
    return f"the parameters {', '.join(allowed)}" if allowed else "no parameters"


def _arguments(text: str | None, cls: type[StandardDistribution]) -> dict[str, float]:
    allowed = _names(cls)
    given: dict[str, float] = {}
    for place, item in enumerate(filter(None, map(str.strip, (text or "").split(",")))):
        key, equals, value = item.partition("=")
        if not equals:
            if place >= len(allowed):
                raise ValueError(f"{cls.name} takes {_parameters(cls)}, got {cls.name}({text})")
            key, value = allowed[place], item
        if key.strip() in given:
            raise ValueError(f"{cls.name}({text}) sets {key.strip()} twice; give it once")
        given[key.strip()] = _number(value.strip(), f"the {key.strip()} of {cls.name}")
    return given


def get(name: str, **params: Number) -> Distribution:
    """The distribution with a name, or with a text as `str` writes it.

    Args:
        name: "logistic", or "gamma(shape=0.5).reversed.centred.squared"; transforms in any order.
        **params: parameters of the distribution, numbers or tensors, such as the `shape` of gamma.

    Raises:
        ValueError: an unknown name (the nearest ones are listed), parameter or transform, or
            transforms that exclude each other.
        TypeError: the name is no text.
    """
    if not isinstance(name, str):
        raise TypeError(f"a distribution's name must be text, got {type(name).__name__}")
    return read(name, _standard_class, params)


def read(
    name: str,
    class_of: Callable[[str], type[StandardDistribution]],
    params: Mapping[str, Number] | None = None,
) -> Distribution:
    """The distribution of a text whose first word stands for a distribution as a caller says.

    Raises:
        ValueError: as `get`.
    """
    params = params or {}
    words: list[tuple[str, str | None]] = []
    position = 0
    while position < len(name) or not words:
        match = _WORD.match(name, position)
        if match is None:
            raise ValueError(
                f"cannot read the distribution {name!r} from {name[position:]!r} on; "
                "write it like gamma(shape=0.5).reversed.centred.squared"
            )
        words.append((match[1], match[2]))
        position = match.end()
    cls = class_of(words[0][0])
    given: dict[str, Any] = {**_arguments(words[0][1], cls)}
    if twice := given.keys() & params.keys():
        raise ValueError(f"{name!r} sets {twice.pop()} already; give it in one place")
    given = {**given, **params}
    unknown = [key for key in given if key not in _names(cls)]
    if unknown:
        raise ValueError(f"{cls.name} takes {_parameters(cls)}, got {unknown[0]!r}")
    dist: Distribution = cls(**given)
    for word, text in words[1:]:
        check_choice("transform", word, _TRANSFORMS)
        if bool(text) != bool(_TRANSFORMS[word]):
            rule = "takes a number in parentheses" if _TRANSFORMS[word] else "takes no argument"
            raise ValueError(f"the transform {word} {rule}, got {word}({text or ''})")
        dist = getattr(dist, word)(*([_number(text, word)] if text else []))
    return dist


_of_text = registry.memoized(get)


def as_distribution(x: DistributionLike) -> Distribution:
    """A distribution from what users may pass: a name, a Distribution, a CDF or (CDF, support).

    Args:
        x: a text such as "gamma(shape=0.5).reversed", a `Distribution`, a function of z, or a pair
            of such a function and its support (low, high).

    Raises:
        TypeError: it is none of these.
        ValueError: the name is unknown.
    """
    if isinstance(x, Distribution):
        return x
    if isinstance(x, str):
        return _of_text(x)
    if isinstance(x, tuple) and len(x) == 2 and callable(x[0]):
        return from_callable(*x)
    if callable(x) and not isinstance(x, type):
        return from_callable(x)
    raise TypeError(
        "a distribution must be a name, a Distribution, a callable CDF or (CDF, support), "
        f"got {x!r}"
    )


def benchmark_distributions() -> tuple[Distribution, ...]:
    """The 27 distributions of the benchmark, not squared.

    First those of both sides, uniform to gumbel_min; then each of exponential, gamma(0.5), gamma(2)
    and levy plain, reversed, centred, and reversed and centred.

    Source: thesis section 5.4.
    """
    one_sided = map(get, _ONE_SIDED)
    variants = ((d, d.reversed(), d.centred(), d.reversed().centred()) for d in one_sided)
    return (*map(get, _BOTH_SIDED), *(d for group in variants for d in group))
