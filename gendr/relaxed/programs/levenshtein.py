"""The edit distance, thesis section 2.6."""

from gendr.relaxed import Categories, relax, zeros


@relax
def levenshtein(
    s: Categories,
    t: Categories,
    insertion: float = 1.0,
    deletion: float = 1.0,
    substitution: float = 1.0,
):
    """The cheapest way to edit s into t.

    Args:
        s: [..., n, letters], probabilities of letters; hard, any sequence.
        t: [..., m, letters].
        insertion: what it costs to insert a letter.
        deletion: to delete one.
        substitution: to replace one.

    Returns:
        The distance, and the table [..., n + 1, m + 1] of distances of all beginnings.
    """
    d = zeros(len(s) + 1, len(t) + 1)
    for i in range(len(s)):
        d[i + 1, 0] = d[i, 0] + deletion
    for j in range(len(t)):
        d[0, j + 1] = d[0, j] + insertion
    for i in range(len(s)):
        for j in range(len(t)):
            replaced = 0.0 if s[i] == t[j] else substitution
            d[i + 1, j + 1] = min(
                d[i, j + 1] + deletion, d[i + 1, j] + insertion, d[i, j] + replaced
            )
    return d[len(s), len(t)], d
