"""A decision tree as nested branches, whose thresholds can be learnt."""

from gendr.relaxed import Vector, relax


@relax
def decision_tree(flower: Vector, thresholds: Vector):
    """The species of an iris, by the lengths and widths of its leaves.

    Args:
        flower: [..., 4], sepal length and width, petal length and width, in cm.
        thresholds: [..., 3], where to split: petal length, petal width, petal length; (2.5, 1.75,
            4.95) are those of a tree that was fitted by CART.

    Returns:
        A list of three [...], 1 for the species: setosa, versicolor, virginica.
    """
    length, width = flower[2], flower[3]
    if length < thresholds[0]:
        return [1.0, 0.0, 0.0]
    if width < thresholds[1]:
        if length < thresholds[2]:
            return [0.0, 1.0, 0.0]
        return [0.0, 0.0, 1.0]
    return [0.0, 0.0, 1.0]
