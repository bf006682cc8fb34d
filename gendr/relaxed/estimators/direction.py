"""Whether a solver minimises or maximises: said once, and checked against what it returns.

Costs and solutions of a solver of max <x, w> move together: for any two of its inputs,

    <x - y, g(x) - g(y)> >= 0,

since g(x) is the better of the two at x, and g(y) at y. For one that minimises the sign is the
other. A training through the wrong sign goes uphill, and nothing but its end tells.
"""

from __future__ import annotations

from torch import Tensor

# Solvers by heuristics may miss their optimum by some percent; the wrong sign is far beyond that.
MISSED = 0.05


def direction_of(solver: object, minimize: bool | None) -> bool:
    """Whether a solver minimises, by the word of the caller or its own attribute `minimize`.

    Raises:
        TypeError: for what is no bool.
        ValueError: nobody says it, or the two differ.
    """
    own = getattr(solver, "minimize", None)
    if minimize is None and own is None:
        raise ValueError(
            "a solver minimises or maximises <x, w>: give minimize=True for shortest paths and "
            "other costs, minimize=False for values of which the largest are taken"
        )
    if not isinstance(minimize, bool | None) or not isinstance(own, bool | None):
        raise TypeError(f"minimize must be True or False, got {minimize!r} and {own!r}")
    if minimize is not None and own is not None and minimize != own:
        raise ValueError(f"the solver says minimize={own}, the call minimize={minimize}")
    return bool(minimize if own is None else own)


def check_better(costs: Tensor, found: Tensor, other: Tensor, minimize: bool) -> None:
    """Refuse solutions [N, *event] that are on the whole worse than others of the same problem.

    Raises:
        ValueError: if they are, for `costs` for which they were found.
    """
    ours = (costs * found).flatten(1).sum(1)
    theirs = (costs * other).flatten(1).sum(1)
    _check(ours - theirs, ours.abs() + theirs.abs(), minimize)


def check_monotone(x: Tensor, y: Tensor, of_x: Tensor, of_y: Tensor, minimize: bool) -> None:
    """Refuse results of pairs of inputs, [N, *event], that move against their costs.

    Raises:
        ValueError: if they do so on the whole.
    """
    moved = ((x - y) * (of_x - of_y)).flatten(1)
    _check(moved.sum(1), moved.abs().sum(1), minimize)


def _check(gain: Tensor, size: Tensor, minimize: bool) -> None:
    """`gain` is the objective that a solver has won, in the sum over a batch."""
    won = -gain.sum() if minimize else gain.sum()
    if bool(won < -MISSED * size.sum()):
        raise ValueError(
            f"this is no solver with minimize={minimize}: what it returns is worse, under the "
            f"costs that it was given, than what it returns for others or than the wanted "
            f"solution; give minimize={not minimize}, or look at the solver"
        )
