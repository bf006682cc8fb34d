"""Whether a solver minimises or maximises: said once, and checked against what it returns.

Costs and solutions of a solver of max <x, w> move together: for any two of its inputs,

    <x - y, g(x) - g(y)> >= 0,

since g(x) is the better of the two at x, and g(y) at y. For one that minimises the sign is the
other. A training through the wrong sign goes uphill, and nothing but its end tells.
"""

from __future__ import annotations

from torch import Tensor

# Of all that pairs of results have moved, what may go the wrong way: exact solvers have none of it,
# and those of the other kind nothing else. Heuristics, and solvers that clip costs, are between.
MISSED = 0.5


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


def check_monotone(x: Tensor, y: Tensor, of_x: Tensor, of_y: Tensor, minimize: bool) -> None:
    """Refuse results of pairs of inputs, [N, *event], that move against their costs.

    Raises:
        ValueError: if most of them do so.
    """
    moved = ((x - y) * (of_x - of_y)).flatten(1).sum(1).nan_to_num(nan=0.0)  # the infeasible ones
    won = -moved.sum() if minimize else moved.sum()
    if bool(won < -MISSED * moved.abs().sum()):
        raise ValueError(
            f"this is no solver with minimize={minimize}: where its costs rise, what it returns "
            f"{'rises' if minimize else 'falls'} with them; give minimize={not minimize}, or look "
            "at the solver"
        )


def check_batch(costs: Tensor, found: Tensor, minimize: bool) -> None:
    """`check_monotone` of the problems of a batch, each beside the one before."""
    check_monotone(costs, costs.roll(1, 0), found, found.roll(1, 0), minimize)
