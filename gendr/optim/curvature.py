"""Derivatives of losses by their input, and steps that are scaled by curvature."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from gendr._common.checks import check_float, shape_text
from gendr._common.tracing import breaking_graphs
from gendr.kernels.through_cpu import with_doubles

# A loss of outputs [N, *event] and more, one number for each sample: [N].
SampleLoss = Callable[..., Tensor]
# How second derivatives are computed.
Second: TypeAlias = Literal["autograd", "differences"]
SECONDS: tuple[Second, ...] = ("autograd", "differences")
# Up to this size the eigenvalues of a matrix cost less than two attempts by Cholesky.
SMALL = 24
# The step of differences, in units of the largest number of the output, or of 1 if that is less.
# Differences are taken in float64.
MOVED = 2.0**-20
# With differences, so many numbers pass through the loss at once.
AT_ONCE = 1 << 20


class Derivatives(NamedTuple):
    """A loss at the outputs of a batch, and how it changes there.

    Attributes:
        values: of the loss, [N].
        gradient: [N, m], by the m numbers of one sample.
        hessian: [N, m, m]; [N, m] if it is diagonal; None if nobody asked.
    """

    values: Tensor
    gradient: Tensor
    hessian: Tensor | None = None


@runtime_checkable
class HasDerivatives(Protocol):
    """A loss that knows its derivatives: a closed form, or an estimate from samples."""

    def __call__(self, output: Tensor, *args: Any) -> Tensor:
        """The loss [N] of outputs [N, *event]."""
        ...

    def derivatives(
        self, output: Tensor, *args: Any, hessian: bool = True
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The loss and its derivatives at outputs [N, *event], see `Derivatives`."""
        ...


@breaking_graphs  # what they differentiate twice, graphs differentiate once
def derivatives(
    loss: SampleLoss,
    output: Tensor,
    *args: Any,
    hessian: bool = True,
    second: Second = "autograd",
    **kwargs: Any,
) -> Derivatives:
    """Values, gradients and Hessians of a loss, sample by sample.

    A loss with a method `derivatives` is asked for them (see `HasDerivatives`).

    Args:
        loss: takes outputs [N, *event] and the further arguments, and returns [N]; sample i depends
            on output i alone.
        output: [N, *event], floating; no gradient flows into it.
        *args: passed on to the loss.
        **kwargs: passed on to the loss.
        hessian: whether the Hessian is wanted too.
        second: "autograd", exact, one column of all Hessians after the other; or finite
            "differences" of gradients in float64, which are off by about 1e-5 of the Hessian, by
            more where the gradient itself has lost digits. They need first derivatives only, and
            one pass over a batch repeated m + 2 times: much less time where the gradient is a
            compiled kernel. The loss then gets tensors and arrays of N entries repeated too, so
            that what belongs to a sample must be an argument; and it must not draw random numbers.

    Raises:
        ValueError: if the loss does not return one number for each sample, if its value does not
            depend on the output, if the Hessian is wanted of a loss that is differentiable only
            once, or if differences are taken of a loss that draws random numbers.
    """
    if isinstance(loss, HasDerivatives) and not isinstance(loss, type):
        return Derivatives(*loss.derivatives(output.detach(), *args, hessian=hessian, **kwargs))
    if torch.is_inference_mode_enabled() or output.is_inference():
        # Nothing can be differentiated in inference mode, nor what was made in it.
        with torch.inference_mode(False):
            given, copies, more = ordinary(output, args, kwargs)
            return derivatives(loss, given, *copies, hessian=hessian, second=second, **more)
    if hessian and second == "differences":
        return _by_differences(loss, output.detach(), args, kwargs)
    with torch.enable_grad():
        y, values = evaluated(loss, output.detach(), args, kwargs)
        (gradient,) = torch.autograd.grad(values.sum(), y, create_graph=hessian)
        flat = gradient.reshape(len(y), -1)
        matrix = _hessian(flat, y, values) if hessian else None
    return Derivatives(values.detach(), flat.detach(), matrix)


def ordinary(
    output: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Tensor, tuple[Any, ...], dict[str, Any]]:
    """Tensors of inference mode as those that can be differentiated, outside of it."""
    copies = tuple(x.clone() if isinstance(x, Tensor) else x for x in args)
    more = {k: x.clone() if isinstance(x, Tensor) else x for k, x in kwargs.items()}
    return output.clone(), copies, more


def evaluated(
    loss: SampleLoss, output: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """The outputs as a leaf of a graph, and the values of the loss [N] in it.

    Raises:
        TypeError: if the values are no tensor of floats.
        ValueError: if they are no number for each sample, or do not depend on the output.
    """
    y = output.requires_grad_()
    values = checked_values(loss(y, *args, **kwargs), y)
    if not values.requires_grad:
        raise ValueError(
            f"the loss has no gradient by the output {shape_text(y.shape)}: its value does not "
            "depend on it by differentiable operations"
        )
    return y, values


def _by_differences(
    loss: SampleLoss,
    output: Tensor,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Derivatives:
    """`derivatives` by forward differences of gradients."""
    if output.device.type == "mps":
        raise ValueError(
            'second="differences" takes float64, which mps has not; use second="autograd", or move '
            "the outputs to the CPU with .cpu()"
        )
    count, size = len(output), output[0].numel()
    wide = output.to(torch.float64)
    step = MOVED * max(1.0, float(wide.abs().max()))
    width = min(size, max(1, AT_ONCE // (count * size)))
    columns: list[Tensor] = []
    value = gradient = wide
    for start in range(0, size, width):
        # Twice as it is, for the gradient, and to see whether equal outputs have equal losses.
        copies = 2 + min(width, size - start)
        y = wide.reshape(1, count, size).repeat(copies, 1, 1)
        index = torch.arange(copies - 2, device=y.device)
        y[2 + index, :, start + index] += step
        again = [_repeated(arg, count, copies) for arg in args]
        more = {name: _repeated(arg, count, copies) for name, arg in kwargs.items()}
        with torch.enable_grad():
            y = y.reshape(-1, *output.shape[1:])
            y, values = evaluated(partial(_of_repeated, loss, count), y, tuple(again), more)
            (grads,) = torch.autograd.grad(values.sum(), y)
        value, other = values.detach().reshape(copies, count)[:2]
        if bool(((value - other).abs() > 1e-9 * (1 + value.abs())).any()):
            raise ValueError(
                "equal outputs have different losses, so that differences tell nothing: random "
                "numbers are drawn, or samples depend on each other; use second='autograd' or "
                "curvature='fisher'"
            )
        each = grads.reshape(copies, count, size)
        gradient = each[0]
        columns.append(each[2:] - gradient)
    hessian = torch.cat(columns).movedim(0, 1) / step
    hessian = (0.5 * (hessian + hessian.mT)).to(output.dtype)
    return Derivatives(value.to(output.dtype), gradient.to(output.dtype), hessian)


def _of_repeated(loss: SampleLoss, count: int, /, y: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The loss of a batch repeated, with what to do if it cannot take that."""
    try:
        return loss(y, *args, **kwargs)
    except Exception as error:
        raise ValueError(
            f"second='differences' gives the loss a batch of {count} outputs repeated, "
            f"{len(y)} in all, with which it failed ({type(error).__name__}: {error}); what "
            "belongs to a sample must be an argument of the loss, a tensor or array of "
            f"{count} entries, not a part of the function or a list"
        ) from error


def _repeated(arg: Any, count: int, copies: int) -> Any:
    """What has an entry for each sample, so often; tensors of floats in float64."""
    if isinstance(arg, Tensor) and arg.is_floating_point():
        arg = arg.detach().to(torch.float64)
    if isinstance(arg, Tensor) and arg.ndim and len(arg) == count:
        return arg.repeat(copies, *(1 for _ in arg.shape[1:]))
    if isinstance(arg, np.ndarray) and arg.ndim and len(arg) == count:
        return np.concatenate([arg] * copies)
    return arg


def checked_loss(loss: object) -> None:
    """Raise TypeError if a loss is none: no function, or a class in the place of one of its own."""
    if isinstance(loss, type):
        raise TypeError(
            f"loss must be a function of outputs, got the class {loss.__name__}; make one of it, "
            f"{loss.__name__}()"
        )
    if not callable(loss):
        raise TypeError(f"loss must be a function of outputs, got {type(loss).__name__}")


def checked_values(values: object, output: Tensor) -> Tensor:
    """The values of a loss if they are one number for each sample.

    Raises:
        TypeError: if they are no tensor of floats.
        ValueError: if their shape is not [N].
    """
    value = check_float("the value of the loss", values)
    if value.shape != output.shape[:1]:
        raise ValueError(
            "the loss must return one number for each sample, "
            f"[{len(output)}] for outputs {shape_text(output.shape)}, got "
            f"{shape_text(value.shape)}; a loss that averages often has reduction='none'"
        )
    return value


def _hessian(gradient: Tensor, y: Tensor, values: Tensor) -> Tensor:
    """[N, m, m], symmetric, from the gradient [N, m] and its graph."""
    # Autograd would take the gradient of such a function for a constant, without a word.
    if once := _once_differentiable(values):
        raise ValueError(
            f"a Hessian needs a loss that is twice differentiable, and {once} is not; use "
            "curvature='fisher' or, if no random numbers are drawn, second='differences', which "
            "need gradients alone. An estimator that is the loss itself, not called by a function, "
            "has a Hessian of its own"
        )
    count, size = gradient.shape
    if not gradient.requires_grad:  # a linear loss
        return y.new_zeros(count, size, size)
    columns: list[Tensor] = []
    for k in range(size):
        picked = torch.zeros_like(gradient)
        picked[:, k] = 1
        (column,) = torch.autograd.grad(
            gradient, y, picked, retain_graph=True, materialize_grads=True
        )
        columns.append(column.reshape(count, size))
    hessian = torch.stack(columns, 1)
    return 0.5 * (hessian + hessian.mT)


def _once_differentiable(values: Tensor) -> str | None:
    """The name of a function in the graph that is marked as differentiable once only."""
    waiting, seen = [values.grad_fn], set[Any]()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        written = getattr(node, "_forward_cls", None)  # of functions that are written in Python
        # The mark is a decorator that keeps what it wraps.
        if written is not None and hasattr(written.backward, "__wrapped__"):
            return written.__name__
        waiting += [before for before, _ in node.next_functions]
    return None


@with_doubles
def damped_solve(curvature: Tensor, gradient: Tensor, tikhonov: float) -> Tensor:
    """(|C| + tikhonov I)^-1 g, where |C| has the absolute eigenvalues of C.

    For a matrix without negative eigenvalues |C| is C, so this is the damped Newton step (thesis,
    7.3). Otherwise a step by C itself could go uphill or be as long as one likes; by |C| it goes
    down, as in saddle-free Newton (Dauphin et al., 2014). With tikhonov 0 a singular matrix has its
    pseudo-inverse: no step where there is no curvature.

    Args:
        curvature: symmetric, [m, m] for all samples or [N, m, m].
        gradient: [N, m].
        tikhonov: >= 0.
    """
    wide, right = curvature.to(torch.float64), gradient.to(torch.float64)
    right = right.mT if wide.ndim == 2 else right[..., None]
    if wide.shape[-1] <= SMALL or tikhonov <= 0:
        solved = _by_eigenvalues(wide, right, tikhonov)
    else:
        solved = _by_cholesky(wide, right, tikhonov)
    return (solved.mT if wide.ndim == 2 else solved[..., 0]).to(gradient.dtype)


def _by_cholesky(matrix: Tensor, right: Tensor, tikhonov: float) -> Tensor:
    """Solve by Cholesky; only matrices with negative eigenvalues need `_by_eigenvalues`."""
    eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    size = matrix.diagonal(dim1=-2, dim2=-1).abs().amax(-1)[..., None, None]
    # Rounding makes the eigenvalue 0 of a singular matrix a small negative number.
    _, negative = torch.linalg.cholesky_ex(matrix + 1e-6 * size * eye)
    factor, singular = torch.linalg.cholesky_ex(matrix + tikhonov * eye)
    solved = torch.cholesky_solve(right, factor)
    hard = (negative != 0) | (singular != 0)
    if not bool(hard.any()):
        return solved
    if matrix.ndim == 2:
        return _by_eigenvalues(matrix, right, tikhonov)
    solved[hard] = _by_eigenvalues(matrix[hard], right[hard], tikhonov)
    return solved


def _by_eigenvalues(matrix: Tensor, right: Tensor, tikhonov: float) -> Tensor:
    values, vectors = torch.linalg.eigh(matrix)
    size = values.abs() + tikhonov
    regular = size > 1e-12 * size.amax(-1, keepdim=True)
    inverse = torch.where(regular, 1 / torch.where(regular, size, 1.0), 0.0)
    return vectors @ (inverse[..., None] * (vectors.mT @ right))


def damped_quotient(diagonal: Tensor, gradient: Tensor, tikhonov: float) -> Tensor:
    """`damped_solve` for a diagonal matrix: [m] for all samples, or [N, m]."""
    size = diagonal.abs() + tikhonov
    return torch.where(size > 0, gradient / torch.where(size > 0, size, 1.0), 0.0)


@with_doubles
def fisher_solve(gradient: Tensor, tikhonov: float) -> Tensor:
    """(F + tikhonov I)^-1 g with F the mean of g g^T over the samples.

    For fewer samples than numbers it solves with the N x N matrix of products instead, which is the
    same step: (G^T G / N + t I)^-1 G^T = G^T (G G^T / N + t I)^-1.

    Args:
        gradient: [N, m].
        tikhonov: >= 0.
    """
    count, size = gradient.shape
    wide = gradient.to(torch.float64)
    if size <= count:
        return damped_solve(wide.mT @ wide / count, gradient, tikhonov)
    mixed = damped_solve(wide @ wide.mT / count, wide.mT, tikhonov)  # [m, N]
    return mixed.mT.to(gradient.dtype)
