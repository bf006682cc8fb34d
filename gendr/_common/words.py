"""One word for each thing, and what becomes of the others that users know.

The package has one word for a thing, or where PyTorch or the papers have two, as `steepness` and
`scale`, one in each function. Every other word is converted where a user may expect it, and named
with its conversion by the error where not. docs/words.md is the table for users.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from numbers import Real
from typing import Any, TypeVar

from gendr._common.names import nearest

F = TypeVar("F", bound="Callable[..., Any]")


def _same(name: str, value: Any) -> Any:
    return value


def _inverse(name: str, value: Any) -> Any:
    """1 / value: of a number, a tensor, or the values of a mapping; None stays None."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {key: _inverse(f"{name}[{key!r}]", x) for key, x in value.items()}
    if isinstance(value, (bool, str)) or not (isinstance(value, Real) or hasattr(value, "dtype")):
        raise TypeError(f"{name} must be a number or a tensor, got {type(value).__name__}")
    if isinstance(value, Real) and not float(value) > 0:
        raise ValueError(f"{name} must be > 0, got {value!r}")
    return 1 / value


_WIDTHS = ("temperature", "tau", "epsilon", "eps", "regularization_strength")
# The word of the package -> other words, how it comes from one of them, and the function.
WORDS: dict[str, dict[str, tuple[str, Callable[[str, Any], Any]]]] = {
    "steepness": {
        **{name: (f"1 / {name}", _inverse) for name in ("scale", *_WIDTHS)},
        "beta": ("beta (for reciprocal 2 beta)", _same),
        **{name: (name, _same) for name in ("sharpness", "sigma")},
    },
    "scale": {
        **{name: (f"1 / {name}", _inverse) for name in ("steepness", "beta", "sharpness")},
        **{name: (name, _same) for name in (*_WIDTHS, "sigma")},
    },
    "step": {name: (name, _same) for name in ("strength", "lambd")},  # of a difference quotient
    "tau": {  # of `GroupSum`
        "scale": ("scale", _same),
        "temperature": ("temperature", _same),
        "steepness": ("1 / steepness", _inverse),
    },
    "descending": {"largest": ("largest", _same)},
    "largest": {"descending": ("descending", _same)},
    "tconorm": {"tnorm": ("tnorm", _same), "conorm": ("conorm", _same)},
    "minimize": {"maximize": ("not maximize", _same)},
}
# Accepted wherever the word of the package is; the spec or PyTorch has both.
_EVERYWHERE = {
    ("steepness", "scale"),
    ("scale", "steepness"),
    ("tau", "scale"),
    ("tau", "steepness"),
    ("descending", "largest"),
    ("largest", "descending"),
    ("tconorm", "tnorm"),
}
# Words that no public signature may have for these things.
BANNED = {name for others in WORDS.values() for name in others} - {*WORDS} | {"tau"}


def translated(
    owner: str,
    allowed: Collection[str],
    given: Mapping[str, Any],
    *,
    paper: Collection[str] = (),
    open_ended: bool = False,
) -> dict[str, Any]:
    """Settings by the words of the package.

    Args:
        owner: what has them, for messages.
        allowed: the words of its settings.
        given: what a user gave, by whichever words.
        paper: other words that its paper has, which are accepted.
        open_ended: whether words that are no others for one of its own are kept as they are.

    Raises:
        TypeError: a word that is none of its own, with the conversion if there is one; or two for
            one thing.
        ValueError: a value that cannot be converted.
    """
    result: dict[str, Any] = {}
    for name, value in given.items():
        word = name
        if name not in allowed:
            # No `next` with a generator: torch 2.8 cannot trace it.
            word = ([w for w in allowed if name in WORDS.get(w, ())] or [None])[0]
            if word is None and open_ended:
                result[name] = value
                continue
            rule, convert = ("", _same) if word is None else WORDS[word][name]
            if word is None or not ((word, name) in _EVERYWHERE or name in paper):
                known = f"; {word} = {rule}" if word else ""
                close = ", ".join(nearest(name, allowed, len(allowed)))
                raise TypeError(f"{owner} has no setting {name!r}{known}; it has: {close}")
            if word in given:
                raise TypeError(f"{owner} got {word} and {name}, but {word} = {rule}; give one")
            value = convert(name, value)
        result[word] = value
    return result


def worded(*, paper: tuple[str, ...] = (), settings_of: tuple[type, ...] = ()) -> Callable[[F], F]:
    """A decorator: a function, or the constructor of a class, that takes other words too.

    Its signature has the words of the package alone. See `translated` for the arguments.

    Args:
        paper: other words that its paper has, which are accepted.
        settings_of: the classes that get what is not its own; there are no others then.
    """

    def decorate(target: Any) -> Any:
        is_class = inspect.isclass(target)
        function: Any = target.__init__ if is_class else target
        parameters = [*inspect.signature(function).parameters.values()]
        for kind in settings_of:
            parameters += inspect.signature(kind).parameters.values()
        named = [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
        allowed = tuple(dict.fromkeys(name for name in named if name != "self"))
        open_ended = not settings_of and any(p.kind is p.VAR_KEYWORD for p in parameters)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for name in kwargs:
                if name not in allowed:  # a graph of torch.compile has no other words
                    kwargs = translated(
                        target.__name__, allowed, kwargs,
                        paper=paper, open_ended=open_ended,
                    )  # fmt: skip
                    break
            return function(*args, **kwargs)

        if not is_class:
            return call
        target.__init__ = call
        return target

    return decorate
