"""The Triton kernel of the top-k cross-entropy: losses of rows, and their gradients at once.

The mathematics is that of `gendr.topk.backends.cpu.loss_kernels`. A program works on a row. Its
candidates, the truth and then the largest of the other scores, ascending, are the wires of a
selection network, in the lanes of one warp, which exchange them by shuffles. One vector passes the
network from the outputs back to the candidates, and its gradient comes back the other way: so there
is no matrix of places and candidates. What layers need later is in scratch.
"""

# Triton compiles these functions; their arguments are blocks and pointers.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

import triton
import triton.language as tl

from gendr.kernels.triton.mathematics import bounded
from gendr.sorting.backends.triton.kernels import argument

_LARGEST: tl.constexpr = tl.constexpr(3.4028234663852886e38)


@triton.jit
def passed(x, keep, swap, other):
    """What stands on the wires after a layer."""
    return keep * x + swap * tl.gather(x, other, 0)


@triton.jit(
    do_not_specialize=["ignored", "n", "m", "k", "depth", "by_row", "power", "least", "steepness"]
)
def losses(
    logits, target, top, first_weights, rest_weights, place_weights, class_weights, outputs,
    partners, signs, scratch, out, grads, wrong, ignored, n, m, k, depth, by_row, power, least,
    steepness,
    CDF: tl.constexpr, PDF: tl.constexpr, PLAIN: tl.constexpr, WEIGHTED: tl.constexpr,
    WIRES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Losses [rows] and their gradients [rows, n], of logits [rows, n] and target [rows].

    Also `wrong` [rows]: 1 for a class that there is not, 2 for a score that is not finite, whose
    losses and gradients are NaN. `top` [rows, m] are the classes of the largest scores, largest
    first. Weights are [rows], or [rows, k] of places, if by_row is 1, else one for all if it is 0.
    `outputs` [k] are the wires of the largest, the second largest, and so on. partners, signs
    [depth, WIRES]: whom a wire meets in a layer, and whether it is where the smaller one goes, 1,
    or the larger, -1; itself and 0 where it is idle. Scratch [rows, 5, depth, WIRES].
    """
    row = tl.program_id(0).to(tl.int64)
    wire = tl.arange(0, WIRES)
    lane = tl.arange(0, BLOCK)
    logits += row * n
    grads += row * n
    top += row * m
    keeps = scratch + row * 5 * depth * WIRES + wire
    each = depth * WIRES
    swaps, differences, parts, of_gates = (
        keeps + each, keeps + 2 * each, keeps + 3 * each, keeps + 4 * each,
    )  # fmt: skip
    label = tl.load(target + row)
    counts = label != ignored
    truth = tl.where(counts, label, 0).to(tl.int64)
    is_class = (truth >= 0) & (truth < n)
    truth = tl.where(is_class, truth, 0)
    largest, strange, c = -float("inf"), 0, 0
    while c < n:
        score = tl.load(logits + c + lane, c + lane < n, -float("inf"))
        strange += tl.sum(((score - score != 0.0) & (c + lane < n)).to(tl.int32), 0)
        largest = tl.maximum(largest, tl.max(score, 0))
        c += BLOCK
    total, c = 0.0, 0
    while c < n:
        score = tl.load(logits + c + lane, c + lane < n, -float("inf"))
        total += tl.sum(tl.exp(score - largest), 0)
        c += BLOCK
    # Where the truth stands among the largest: it takes the place of the least if it is not there.
    is_there = (tl.load(top + wire, wire < m, -1).to(tl.int64) == truth) & (wire < m)
    place = tl.min(tl.where(is_there, wire, m - 1), 0)
    source = m - 1 - wire
    source += (source >= place).to(tl.int32)
    real = wire < m
    other = tl.load(top + source, real & (wire > 0), 0).to(tl.int64)
    classes = tl.where(wire == 0, truth, other)
    x = tl.load(logits + classes, real, 0.0)
    layer = 0
    while layer < depth:
        partner = tl.load(partners + layer * WIRES + wire)
        sign = tl.load(signs + layer * WIRES + wire)
        d = bounded(sign * (tl.gather(x, partner, 0) - x), _LARGEST)
        moved, _ = argument(d, power, PLAIN)
        keep, swap = CDF(moved * steepness, 0.0, 0.0)
        keep, swap = tl.where(sign == 0.0, 1.0, keep), tl.where(sign == 0.0, 0.0, swap)
        tl.store(keeps + layer * WIRES, keep)
        tl.store(swaps + layer * WIRES, swap)
        tl.store(differences + layer * WIRES, d)
        x = bounded(passed(x, keep, swap, partner), _LARGEST)
        layer += 1
    tl.debug_barrier()
    u, r = tl.zeros([WIRES], tl.float32), 0
    while r < k:
        worth = tl.load(place_weights + row * by_row * k + r)
        u = tl.where(wire == tl.load(outputs + r), worth, u)
        r += 1
    while layer > 0:
        layer -= 1
        partner = tl.load(partners + layer * WIRES + wire)
        keep, swap = tl.load(keeps + layer * WIRES), tl.load(swaps + layer * WIRES)
        tl.store(parts + layer * WIRES, u - tl.gather(u, partner, 0))
        u = passed(u, keep, swap, partner)
    tl.debug_barrier()
    p = tl.sum(tl.where(wire == 0, u, 0.0), 0)
    rest = tl.load(rest_weights + row * by_row)
    safe = tl.maximum(p, least)
    # Below the least probability the logarithm is its tangent there.
    loss = -rest * (tl.log(safe) + (tl.minimum(p, least) - least) / least)
    e = tl.where(wire == 0, -rest / safe, 0.0)
    while layer < depth:
        partner = tl.load(partners + layer * WIRES + wire)
        keep, swap = tl.load(keeps + layer * WIRES), tl.load(swaps + layer * WIRES)
        part = tl.load(parts + layer * WIRES)
        tl.store(of_gates + layer * WIRES, (e - tl.gather(e, partner, 0)) * part)
        e = passed(e, keep, swap, partner)
        layer += 1
    tl.debug_barrier()
    g = tl.zeros([WIRES], tl.float32)
    while layer > 0:
        layer -= 1
        partner = tl.load(partners + layer * WIRES + wire)
        sign = tl.load(signs + layer * WIRES + wire)
        keep, swap = tl.load(keeps + layer * WIRES), tl.load(swaps + layer * WIRES)
        d = tl.load(differences + layer * WIRES)
        of_gate = tl.load(of_gates + layer * WIRES) + sign * (tl.gather(g, partner, 0) - g) * d
        moved, slope = argument(d, power, PLAIN)
        of_z = bounded(of_gate, _LARGEST) * PDF(moved * steepness, 0.0, 0.0)
        g = passed(g, keep, swap, partner) - sign * (of_z * slope * steepness)
    first = tl.load(first_weights + row * by_row)
    own = tl.load(logits + truth)
    loss -= first * (own - largest - tl.log(total))
    factor = tl.where(counts, 1.0, 0.0)
    if WEIGHTED:
        factor *= tl.load(class_weights + truth)
    is_wrong = (strange > 0) | (is_class == 0)
    factor = tl.where(is_wrong, float("nan"), factor)
    tl.store(wrong + row, tl.where(is_class, 0, 1) + tl.where(strange > 0, 2, 0))
    tl.store(out + row, factor * loss)
    share, c = first / total, 0
    while c < n:
        score = tl.load(logits + c + lane, c + lane < n, 0.0)
        tl.store(grads + c + lane, factor * share * tl.exp(score - largest), c + lane < n)
        c += BLOCK
    tl.debug_barrier()
    x = tl.load(logits + classes, real, 0.0)
    g += share * tl.exp(x - largest) - tl.where(wire == 0, first, 0.0)
    tl.store(grads + classes, factor * g, real)
