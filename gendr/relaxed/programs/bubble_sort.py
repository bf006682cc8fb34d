"""Bubble sort, thesis section 2.3."""

from gendr.relaxed import Vector, relax


@relax
def bubble_sort(x: Vector):
    """Sort by swapping neighbours until no swap is necessary.

    Args:
        x: [..., n].

    Returns:
        The values, ascending; the number of swaps; whether none was necessary.
    """
    swaps, ordered = 0, True
    last = len(x) - 1
    swapped = True
    while swapped:
        swapped = False
        for i in range(last):
            if x[i] > x[i + 1]:
                x[i], x[i + 1] = x[i + 1], x[i]
                swapped = True
                ordered = False
                swaps += 1
        last -= 1
    return x, swaps, ordered
