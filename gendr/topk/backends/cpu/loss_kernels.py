"""The compiled top-k cross-entropy: the losses of rows of scores, and their gradients at once.

A unit is a group of rows that go through the network together. The network is that of the sorting
kernels, on the m candidates of a row: the truth, and then the others, ascending. One vector passes
it, from the outputs back to the candidates: at the outputs the weights of the places, in the end
the probability of each candidate. Its gradient comes back the other way. So no matrix of places and
candidates exists. Of NeuralSort and SoftSort one row of k after the other does.
"""

# Numba compiles these functions; their types are those of the NumPy arrays passed in.
# pyright: basic, reportMissingParameterType=false
# pyright: reportIndexIssue=false, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import math
import sys

import numpy as np

from gendr.kernels.numba.compilation import inner, kernel
from gendr.kernels.numba.mathematics import exp
from gendr.sorting.backends.cpu.kernels import GROUP, gates, gates_back
from gendr.sorting.backends.cpu.row_kernels import (
    balances,
    bounded,
    centre,
    distances,
    exp_for,
    short_exp,
)
from gendr.sorting.base import NEURAL, SQUARED

_ANY_ORDER = {"reassoc", "contract"}
_HALVINGS = 10  # in the search of a bound for the candidates
_RUN = 16  # scores of which only the largest is looked at first
# What a row may have that is not allowed.
NOT_FINITE, NO_CLASS = 1, 2
_LARGEST = sys.float_info.max


@inner(fastmath=_ANY_ORDER | {"nnan"})
def _largest(scores, first, stop):
    largest = scores[first]
    for c in range(first + 1, stop):
        largest = max(largest, scores[c])
    return largest


@inner(fastmath=_ANY_ORDER)
def _is_finite(scores):
    total = scores.dtype.type(0.0)
    for c in range(len(scores)):
        total += scores[c] - scores[c]
    return total == 0.0


@inner()
def _insert(score, c, top, classes):
    """Insert into an ascending list; of equal scores the first one stays above."""
    i = 0
    while i + 1 < len(top) and score > top[i + 1]:
        top[i], classes[i] = top[i + 1], classes[i + 1]
        i += 1
    top[i], classes[i] = score, c


@inner()
def _count(values, least):
    count = 0
    for i in range(len(values)):
        count += values[i] >= least
    return count


@inner()
def _place(values, count, i):
    """How many of the first `count` values are before the i-th; equal ones in order."""
    value, place = values[i], 0
    for j in range(i):
        place += values[j] >= value
    for j in range(i + 1, count):
        place += values[j] > value
    return place


@inner()
def _candidates(scores, truth, largest, few, few_classes, top, classes):
    """Fill in the truth and the largest of the other scores, ascending, and their classes.

    A bound that the maxima of m short runs reach is reached by m scores, so that few runs, and few
    of their scores, have to be looked at. Of equal scores those of the first classes are taken.
    `largest` [runs] and `few` [any] are scratch.
    """
    n, m, runs = len(scores), len(top), len(largest)
    low, high = np.inf, -np.inf
    for run in range(runs):
        largest[run] = _largest(scores, run * _RUN, min((run + 1) * _RUN, n))
        low, high = min(low, largest[run]), max(high, largest[run])
    bound = largest.dtype.type(low if runs >= m else -np.inf)
    for _ in range(_HALVINGS if runs >= m else 0):
        middle = largest.dtype.type(0.5 * low + 0.5 * high)
        if _count(largest, middle) >= m:
            low = bound = middle
        else:
            high = middle
    count = 0
    for run in range(runs):
        if largest[run] >= bound:
            for c in range(run * _RUN, min((run + 1) * _RUN, n)):
                if scores[c] >= bound:
                    if count < len(few):
                        few[count], few_classes[count] = scores[c], c
                    count += 1
    if count <= len(few):
        for i in range(count):
            place = _place(few, count, i)
            if place < m:
                top[m - 1 - place], classes[m - 1 - place] = few[i], few_classes[i]
    else:  # many equal scores
        for i in range(m):
            top[i], classes[i] = -np.inf, -1
        for c in range(n):
            if scores[c] > top[0]:
                _insert(scores[c], c, top, classes)
    place = 0
    while place < m - 1 and classes[place] != truth:
        place += 1
    for i in range(place if classes[place] == truth else 0, 0, -1):
        top[i], classes[i] = top[i - 1], classes[i - 1]
    top[0], classes[0] = scores[truth], truth


@inner(fastmath=_ANY_ORDER)
def _exponentials(scores, largest, out):
    """Fill in exp(scores - largest), to the precision of the dtype; returns their sum."""
    total = 0.0
    if out.itemsize == 4:
        for c in range(len(scores)):
            e = short_exp(np.float64(scores[c]) - largest)
            out[c] = e
            total += e
    else:
        for c in range(len(scores)):
            e = exp(scores[c] - largest)
            out[c] = e
            total += e
    return total


@inner()
def _prepare(logits, target, ignored, top, classes, begin, end):
    """Fill in the candidates of rows; return what these have that is not allowed."""
    n, m = logits.shape[1], top.shape[1]
    wrong = 0
    maxima = np.empty((n + _RUN - 1) // _RUN, logits.dtype)
    few, few_classes = np.empty(4 * m + 64, logits.dtype), np.empty(4 * m + 64, np.int64)
    for row in range(begin, end):
        truth = target[row] if target[row] != ignored else 0
        if not 0 <= truth < n:
            wrong |= NO_CLASS
            truth = 0
        if not _is_finite(logits[row]):
            wrong |= NOT_FINITE
            continue
        _candidates(logits[row], truth, maxima, few, few_classes, top[row], classes[row])
    return wrong


@inner()
def _finish(
    logits, target, ignored, first_weight, class_weights, top, classes, grad_top, out, grads,
    begin, end,
):  # fmt: skip
    """Add the softmax to losses, and fill in their gradients from those of the candidates."""
    n, m = logits.shape[1], top.shape[1]
    for row in range(begin, end):
        truth, row_grads = classes[row, 0], grads[row]
        first = first_weight[row if len(first_weight) > 1 else 0]
        if first > 0.0:
            largest = np.float64(max(top[row, 0], top[row, m - 1]))
            total = _exponentials(logits[row], largest, row_grads)
            log_p = np.float64(logits[row, truth]) - largest - math.log(total)
            out[row] -= first * log_p
            scale = row_grads.dtype.type(first / total)
            for c in range(n):
                row_grads[c] *= scale
            row_grads[truth] -= first
        else:
            row_grads[:] = 0.0
        for i in range(m):
            row_grads[classes[row, i]] += grad_top[row, i]
        if len(class_weights) > 0 or target[row] == ignored:
            scale = class_weights[truth] if len(class_weights) > 0 else 1.0
            scale = scale if target[row] != ignored else 0.0
            out[row] *= scale
            for c in range(n):
                row_grads[c] *= scale


@inner()
def _log(p, least):
    """The logarithm, below `least` its tangent."""
    return math.log(p) if p >= least else math.log(least) + p / least - 1.0


@kernel()
def losses(
    logits, target, ignored, first_weight, rest_weight, weights, class_weights, pairs, offsets,
    outputs, tails, density, power, steepness, least, gated, grad_keep, top, classes, grad_top,
    out, grads, wrong, start, stop,
):  # fmt: skip
    """Fill in the losses [N] and their gradients [N, n] for the groups start .. stop - 1.

    The loss of a row is first_weight CE(softmax) - rest_weight log(sum of weights_r P_r), times the
    weight of its class; 0 for the target `ignored`. Weights [1 or N], [1 or N, k]; class_weights
    [n] or empty. `outputs` are the wires of the largest, the second largest, and so on. `least` is
    the probability below which the logarithm is its tangent. Scratch: top, grad_top [N, m], classes
    [N, m], gated = (values, keep, swap, differences, swaps), grad_keep [N, C] as the
    kernels of sorting have them. `wrong` [groups] gets what is not allowed.
    """
    batch, m, size = len(logits), top.shape[1], len(pairs)
    values, keep, swap, differences, swaps = gated
    u, e, apart = np.empty(m), np.empty(m), np.empty(size)
    parts, none = np.empty(stop), np.empty((0, 0), logits.dtype)
    for group in range(start, stop):
        begin, end = group * GROUP, min((group + 1) * GROUP, batch)
        wrong[group] = _prepare(logits, target, ignored, top, classes, begin, end)
        if wrong[group]:
            continue
        gates(
            pairs, offsets, top, tails, power, steepness, values, keep, swap, differences, swaps,
            group, group + 1,
        )  # fmt: skip
        for row in range(begin, end):
            rest = rest_weight[row if len(rest_weight) > 1 else 0]
            by_place = weights[row if len(weights) > 1 else 0]
            u[:] = 0.0
            for r in range(len(outputs)):
                u[outputs[r]] = by_place[r]
            for c in range(size - 1, -1, -1):
                a, b = u[pairs[c, 0]], u[pairs[c, 1]]
                kept, swapped = np.float64(keep[row, c]), np.float64(swap[row, c])
                apart[c] = a - b
                u[pairs[c, 0]], u[pairs[c, 1]] = kept * a + swapped * b, swapped * a + kept * b
            p = u[0]
            out[row] = -rest * _log(p, least)
            e[:] = 0.0
            e[0] = -rest / max(p, least)
            for c in range(size):
                a, b = e[pairs[c, 0]], e[pairs[c, 1]]
                kept, swapped = np.float64(keep[row, c]), np.float64(swap[row, c])
                grad_keep[row, c] = (a - b) * apart[c]
                e[pairs[c, 0]], e[pairs[c, 1]] = kept * a + swapped * b, swapped * a + kept * b
        gates_back(
            pairs, differences, swaps, density, power, steepness, none, grad_keep, grad_top, parts,
            group, group + 1,
        )  # fmt: skip
        _finish(
            logits, target, ignored, first_weight, class_weights, top, classes, grad_top, out,
            grads, begin, end,
        )  # fmt: skip


@inner()
def _by_softsort(x, order, steepness, squared, weights, row, by_x):
    """The probability of x[0], the sum over rows of P that it has, and its gradient by x."""
    m, p = len(x), 0.0
    by_x[:] = 0.0
    for r in range(len(weights)):
        y, total = np.float64(x[order[m - 1 - r]]), 0.0
        for j in range(m):
            d = abs(y - x[j])
            row[j] = exp_for(-(steepness * (d * d if squared else d)), x)
        for j in range(m):
            total += row[j]
        share = weights[r] * row[0] / total
        p += share
        lost, mean = 0.0, share / total
        for j in range(m):
            d = bounded(y - x[j], 0.5 * _LARGEST)
            slope = 2.0 * d if squared else (1.0 if d > 0.0 else 0.0) - (1.0 if d < 0.0 else 0.0)
            t = steepness * slope * ((share if j == 0 else 0.0) - mean * row[j])
            by_x[j] += t
            lost += t
        by_x[order[m - 1 - r]] -= lost
    return p


@inner()
def _by_neuralsort(x, order, steepness, weights, row, by_x):
    """See `_by_softsort`; the derivatives are explained in the kernels of sorting."""
    m, p = len(x), 0.0
    centred, total, slope, plain = np.empty(m), np.empty(m), np.empty(m), np.zeros(m)
    steep = bounded(steepness / centre(x, order, centred), _LARGEST)
    distances(centred, order, total)
    balances(x, order, np.ones(m), slope)
    by_x[:] = 0.0
    for r in range(len(weights)):
        factor, top = m - 1.0 - 2.0 * r, order[m - 1 - r]
        largest, whole = factor * centred[top] - total[top], 0.0
        for j in range(m):
            row[j] = exp_for(steep * min((factor * centred[j] - total[j]) - largest, 0.0), x)
        for j in range(m):
            whole += row[j]
        share = weights[r] * row[0] / whole
        p += share
        for j in range(m):
            t = (share if j == 0 else 0.0) - share / whole * row[j]
            plain[j] += t
            by_x[j] += (factor - slope[j]) * t
    balances(x, order, plain, slope)
    for j in range(m):
        by_x[j] = steepness * (by_x[j] - slope[j])
    return p


@kernel()
def row_losses(
    logits, target, ignored, first_weight, rest_weight, weights, class_weights, form, steepness,
    least, top, classes, grad_top, out, grads, wrong, start, stop,
):  # fmt: skip
    """`losses` by a sort that is a softmax of every row, of this form; see `gendr.sorting.base`."""
    batch, m = len(logits), top.shape[1]
    by_x, scratch, order = np.empty(m), np.empty(m), np.empty(m, np.int64)
    for group in range(start, stop):
        begin, end = group * GROUP, min((group + 1) * GROUP, batch)
        wrong[group] = _prepare(logits, target, ignored, top, classes, begin, end)
        if wrong[group]:
            continue
        for row in range(begin, end):
            x = top[row]
            place = 0  # of the truth among the others, which ascend
            while place + 1 < m and x[place + 1] < x[0]:
                order[place] = place + 1
                place += 1
            order[place] = 0
            for i in range(place + 1, m):
                order[i] = i
            by_place = weights[row if len(weights) > 1 else 0]
            if form == NEURAL:
                p = _by_neuralsort(x, order, steepness, by_place, scratch, by_x)
            else:
                p = _by_softsort(x, order, steepness, form == SQUARED, by_place, scratch, by_x)
            rest = rest_weight[row if len(rest_weight) > 1 else 0]
            out[row] = -rest * _log(p, least)
            for i in range(m):
                grad_top[row, i] = -rest / max(p, least) * by_x[i]
        _finish(
            logits, target, ignored, first_weight, class_weights, top, classes, grad_top, out,
            grads, begin, end,
        )  # fmt: skip
