"""What all layers of gates share: neurons, each with a table that is learnt.

A neuron reads a few features and has a table: its output at every corner. While it trains, the
table is soft, and the output is the expected one for independent inputs. When it does not, the
table is hard, 0 or 1, so that bits go in and bits come out.

With the parametrization "walsh" a table holds logits, and the sigmoid comes behind the mean over
the corners: y = sigmoid(sum over sets S of w_S prod_{i in S} (1 - 2 x_i) / scale), whose sum is
the multilinear function of the logits at the corners, H w.

Source: thesis, sections 6.2 and 6.3; the residual initialisation: Petersen et al., Convolutional
Differentiable Logic Gate Networks, NeurIPS 2024; "walsh": Gerlach et al., WARP Logic Neural
Networks, arXiv 2602.03527, 2026.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeVar, get_args

import torch
from torch import Tensor, nn

from gendr._common.checks import check_choice, check_index, check_number, dtype_name
from gendr._common.tracing import (
    HALVES,
    TensorCache,
    check_reverse_mode,
    is_traced,
    lasting,
    matmul,
)
from gendr.logic.backends.choice import kernels_for
from gendr.logic.backends.reference import SOFT_GATES, joined_gates
from gendr.logic.backends.wires import Wires
from gendr.logic.gates import GATES, MAX_FAN_IN, gate_ids
from gendr.logic.kinds import OfAKind
from gendr.tnorms import TConorm, TNorm, as_tconorm

# The weight of the gate that passes the first input on, where the others have 0: it starts with a
# probability of 0.91 (Petersen et al. 2024, section 3.2).
RESIDUAL_GATE = 5.0
# The corners of a table start this far on their side of 0: at 0.95 and 0.05 after the sigmoid.
RESIDUAL_TABLE = 3.0

_CHOICES = "choices"  # in the state dict for inference

T = TypeVar("T")
Parametrization = Literal["gates", "table", "walsh"]
Estimator = Literal["expected", "straight_through", "gumbel", "gumbel_straight_through"]
Initialization = Literal["residual", "normal"]


def check_tconorm(tconorm: str | TConorm | TNorm, fan_in: int) -> TConorm | None:
    """The T-conorm whose dual joins two features; None for their product, which kernels compute.

    Raises:
        ValueError: if there is no such T-norm, it is below that of Łukasiewicz, or gates have
            another number of inputs than two.
    """
    norm = tconorm if isinstance(tconorm, TNorm) else as_tconorm(tconorm).dual
    if norm.dual.is_product:
        return None
    if fan_in != 2:
        raise ValueError(f"tconorm is for gates of two inputs, got fan_in = {fan_in}")
    a, b = torch.meshgrid(*[torch.linspace(0, 1, 33, dtype=torch.float64)] * 2, indexing="ij")
    with torch.no_grad():
        lowest = (norm(a, b) - (a + b - 1).clamp(min=0)).min()
    if lowest < -1e-9:
        raise ValueError(
            f"the T-norm of {norm.dual} lies below max(a + b - 1, 0), so that gates such as 'or' "
            "would leave [0, 1]; take another, such as frank(p=2), or a larger p"
        )
    return norm.dual


def chosen(weight: Tensor, dim: int, estimator: str, scale: float) -> Tensor:
    """The share of each alternative along a dimension, as training sees it.

    Args:
        weight: of the alternatives.
        dim: along which they are.
        estimator: see `LogicLayer`.
        scale: by which weights are divided before the softmax.

    Returns:
        The softmax, of the weights or of a draw; with "straight_through" forward a one-hot choice.
        A draw is the largest sum of a weight and noise of Gumbel.
    """
    if estimator.startswith("gumbel"):
        tiny = torch.finfo(weight.dtype).tiny
        weight = weight - torch.empty_like(weight).exponential_().clamp(min=tiny).log()
    soft = (weight / scale if scale != 1 else weight).softmax(dim)
    if estimator.endswith("straight_through"):
        check_reverse_mode()
        hard = torch.zeros_like(soft).scatter_(dim, weight.detach().argmax(dim, keepdim=True), 1)
        return hard + (soft - soft.detach())
    return soft


def decided(logits: Tensor, estimator: str, scale: float) -> Tensor:
    """The probability of 1 by logits, as training sees it; see `LogicLayer` for the estimators."""
    if estimator.startswith("gumbel"):
        u = torch.rand_like(logits).clamp(min=torch.finfo(logits.dtype).tiny)
        logits = logits + (u.log() - (-u).log1p())  # logistic: a difference of two Gumbels
    soft = (logits / scale if scale != 1 else logits).sigmoid()
    if estimator.endswith("straight_through"):
        check_reverse_mode()
        return (logits.detach() > 0).to(logits.dtype) + (soft - soft.detach())
    return soft


def normal(shape: Sequence[int], seed: int | None, stream: int) -> Tensor:
    """Normal numbers: of a stream of a seed, or of torch's global random numbers."""
    generator = None if seed is None else torch.Generator().manual_seed(seed + stream)
    return torch.randn(tuple(shape), generator=generator, device="cpu")


def _made(gates: tuple[int, ...], size: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """See `Neurons._matrix`; no gates are "walsh" with 2^k = size."""
    if not gates:
        return walsh_matrix(size.bit_length() - 1).to(device, dtype)
    rows = [GATES[gate].table for gate in gates]  # no arrays, at whose numbers graphs would break
    return torch.tensor(rows, dtype=dtype, device=device)


_kept = lru_cache(maxsize=64)(lasting()(_made))


def walsh_matrix(fan_in: int) -> Tensor:
    """H [2^k, 2^k], symmetric: the product of 1 - 2 x_i over a set, at a corner.

    Sets and corners are binary numbers whose first digit is the first input.
    """
    h = torch.ones(1, 1, dtype=torch.int64, device="cpu")
    for _ in range(fan_in):
        h = torch.kron(torch.tensor([[1, 1], [1, -1]], device="cpu"), h)
    return h


class Neurons(OfAKind):
    """The neurons of a layer: their weights, tables, and how outputs come about.

    See `LogicLayer` for the arguments. A layer that derives from it draws its wires and then calls
    `reset`.

    Attributes:
        weight: [neurons, gates], or [neurons, 2^fan_in].
    """

    def __init__(
        self,
        neurons: int,
        fan_in: int,
        *,
        parametrization: Parametrization | None,
        gates: Iterable[int | str] | None,
        estimator: Estimator,
        tconorm: str | TConorm | TNorm,
        scale: float,
        backend: str,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        if fan_in > MAX_FAN_IN:
            raise ValueError(f"fan_in must be <= {MAX_FAN_IN}, got {fan_in}")
        if parametrization is None:
            parametrization = "gates" if fan_in == 2 else "table"
        check_choice("parametrization", parametrization, get_args(Parametrization))
        self.is_mixture = parametrization == "gates"
        self.is_walsh = parametrization == "walsh"
        if self.is_mixture and fan_in != 2:
            raise ValueError(
                f"the parametrization 'gates' is for fan_in = 2, got {fan_in}; use 'table' or "
                "'walsh'"
            )
        if gates is not None and not self.is_mixture:
            raise ValueError("gates are chosen with the parametrization 'gates'")
        self.gates = gate_ids(gates) if self.is_mixture else ()
        self.estimator = check_choice("estimator", estimator, get_args(Estimator))
        self.scale: float = check_number("scale", scale, above=0)
        self.backend = backend
        self._cache = TensorCache()
        self.tconorm = check_tconorm(tconorm, fan_in)

        size = len(self.gates) if self.is_mixture else 1 << fan_in
        self.weight = nn.Parameter(torch.empty(neurons, size, device=device, dtype=dtype))
        if not self.weight.is_floating_point():
            raise TypeError(f"dtype must be floating-point, got {dtype_name(self.weight.dtype)}")

    @torch.no_grad()
    def reset(self, init: Initialization, *, seed: int | None = None) -> None:
        """Start again with new weights.

        Args:
            init: see the class. If the gate "a" is not among the gates to choose from, residual
                initialisation raises a ValueError.
            seed: of the weights; None takes torch's global random numbers.
        """
        if check_choice("init", init, get_args(Initialization)) == "normal":
            # A stream of its own: with the seed of the wiring, weights would follow from wires.
            self.weight.copy_(normal(self.weight.shape, seed, 1))
            if self.is_walsh:  # logits of the same distribution as those of a table
                self.weight *= self.weight.shape[1] ** -0.5
        elif self.is_walsh:
            self.weight.zero_()
            self.weight[:, self.weight.shape[1] // 2] = -RESIDUAL_TABLE  # of 1 - 2 a
        elif self.is_mixture:
            passing = 3  # the gate "a"
            if passing not in self.gates:
                raise ValueError(
                    "the residual initialisation needs the gate 'a' among the gates; add it, or "
                    "take init='normal'"
                )
            self.weight.zero_()
            self.weight[:, self.gates.index(passing)] = RESIDUAL_GATE
        else:
            half = self.weight.shape[1] // 2  # the first input is the first digit of a corner
            self.weight[:, :half] = -RESIDUAL_TABLE
            self.weight[:, half:] = RESIDUAL_TABLE

    # -- tables

    @torch.no_grad()
    def choices(self) -> Tensor:
        """The most likely gates, [neurons] int64: their tables as binary numbers.

        For two inputs these are ids of gates; for six inputs the first corner is the sign bit.
        """
        bits = self.hard_tables().long()
        digits = torch.arange(bits.shape[1] - 1, -1, -1, device=bits.device)
        return (bits << digits).sum(1)

    @torch.no_grad()
    def hard_tables(self) -> Tensor:
        """The tables of the most likely gates, [neurons, 2^fan_in], 0 or 1."""
        if self.is_mixture:
            return self._matrix()[self.weight.argmax(1)]
        return (self._logits() > 0).to(self.weight.dtype)

    def soft_tables(self) -> Tensor:
        """The expected tables, [neurons, 2^fan_in], in [0, 1]."""
        tables = self._tables_by("expected")
        return decided(tables, "expected", self.scale) if self.is_walsh else tables

    def _logits(self) -> Tensor:
        """The logits at the corners, [neurons, 2^fan_in]; not of a mixture of gates."""
        return matmul(self.weight, self._matrix()) if self.is_walsh else self.weight

    def _matrix(self) -> Tensor:
        """The truth tables of the gates [gates, 4], or of the products of "walsh" [2^k, 2^k].

        No buffer: what is made on the device meta, and filled later, is filled from a state dict.
        """
        weight = self.weight
        make = _made if is_traced() or weight.is_meta else _kept
        return make(self.gates, weight.shape[1], weight.device, weight.dtype)

    def _tables_by(self, estimator: str) -> Tensor:
        """The tables that training sees; logits for "walsh"."""
        weight = self.weight
        if self.is_walsh:
            return self._logits()
        if self.is_mixture:
            shares = chosen(weight, 1, estimator, self.scale).to(weight.dtype)
            return matmul(shares, self._matrix())
        return decided(weight, estimator, self.scale)

    def _present_tables(self) -> Tensor:
        """The tables that the layer has in its present mode."""
        return self._tables_by(self.estimator) if self.training else self.hard_tables()

    def _weight_of(self, choices: Tensor) -> Tensor:
        """Weights of which `choices` are these."""
        if self.is_mixture:
            weight = choices.long()[:, None] == torch.tensor(self.gates, device=choices.device)
            if not bool(weight.any(1).all()):
                raise ValueError(f"the state has other gates than {list(self.gates)}")
            return weight.to(self.weight.dtype)
        size = self.weight.shape[1]
        digits = torch.arange(size - 1, -1, -1, device=choices.device)
        logits = 2.0 * (choices.long()[:, None] >> digits & 1) - 1
        if self.is_walsh:  # whose matrix is its own inverse, but for a factor
            logits = logits @ walsh_matrix(size.bit_length() - 1).to(logits) / size
        return logits.to(self.weight.dtype)

    # -- wires

    def hard_wires(self) -> Tensor:
        """What gates read in `eval` mode, int64."""
        return getattr(self, self._indices()[0])

    def _indices(self) -> tuple[str, int, str]:
        """The name of the buffer of what gates read, and how many of which things it indexes."""
        raise NotImplementedError

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **options: Any
    ) -> None:
        """Refuse wires to features that are not there: kernels do not look where they read."""
        name, size, things = self._indices()
        wires = state_dict.get(prefix + name)
        if prefix + _CHOICES in state_dict:  # of `inference_state_dict`
            choices = state_dict.pop(prefix + _CHOICES)
            state_dict[prefix + "weight"] = self._weight_of(choices.to(self.weight.device))
            own = getattr(self, name)
            if isinstance(wires, Tensor) and wires.ndim < own.ndim:  # of many candidates the best
                wires = state_dict[prefix + name] = wires.expand(len(own), *wires.shape)
                state_dict[prefix + "wire_weight"] = torch.zeros(own.shape)
        if isinstance(wires, Tensor) and not wires.is_meta:
            check_index(f"{prefix}{name} of the state dict", wires, size, things)
        super()._load_from_state_dict(state_dict, prefix, *args, **options)

    def _cached(self, make: Callable[[], T], key: Hashable = None) -> T:
        """What `make` makes of the wires; made again if they have changed, or for another key."""
        name, size, things = self._indices()
        wires: Tensor = getattr(self, name)

        def checked() -> T:
            if not (is_traced() or wires.is_meta):
                check_index(name, wires, size, things)
            return make()

        # A graph takes the wires as they are when it runs.
        return self._cache.of((wires,), key, checked)

    # -- outputs

    def _outputs(self, columns: Tensor, wires: Wires, tables: Tensor) -> Tensor:
        """The outputs [N, B] of gates for features [F, B]."""
        if self.tconorm is None or not self.training:  # on bits all T-norms agree
            kernels = kernels_for(SOFT_GATES.name, columns, self.backend)
            out = SOFT_GATES(kernels, wires, columns, tables)
        else:
            out = joined_gates(columns, wires, tables, self.tconorm.dual)
        if self.is_walsh and self.training:  # the tables are logits
            return decided(out, self.estimator, self.scale)
        return out

    def _entered(self, x: Tensor) -> Tensor:
        """The features in the dtype of the weights, which `torch.autocast` makes of its own.

        Raises:
            TypeError: if they have another outside of it.
        """
        if x.dtype in HALVES and not x.is_meta and torch.is_autocast_enabled(x.device.type):
            return x.to(self.weight.dtype)
        if x.dtype != self.weight.dtype:
            raise TypeError(
                f"x must have the dtype of the weights, {dtype_name(self.weight.dtype)}, got "
                f"{dtype_name(x.dtype)}; convert it with .to()"
            )
        return x

    def _kind(self) -> dict[str, Any]:
        """See `OfAKind`."""
        kind = "gates" if self.is_mixture else "walsh" if self.is_walsh else "table"
        return {
            "layer": type(self).__name__, "parametrization": kind,
            "gates": list(self.gates), "estimator": self.estimator, "scale": self.scale,
            "tconorm": "probabilistic" if self.tconorm is None else str(self.tconorm),
        }  # fmt: skip

    def _options(self) -> list[str]:
        """What the text of a model shows of the gates and the options."""
        kind = "walsh" if self.is_walsh else "tables"
        parts = [f"{len(self.gates)} gates" if self.is_mixture else kind]
        if self.estimator != "expected":
            parts.append(self.estimator)
        if self.tconorm is not None:
            parts.append(str(self.tconorm))
        if self.scale != 1:
            parts.append(f"scale={self.scale:g}")
        return parts


def inference_state_dict(model: nn.Module) -> dict[str, Tensor]:
    """The state of a model for `eval` mode alone: a byte for a gate of two inputs, and its wires.

    >>> torch.save(inference_state_dict(model), "small.pt")
    >>> model.load_state_dict(torch.load("small.pt")); model.eval()     # the same outputs

    In place of its weights a layer has the most likely gates, `choices`, uint8 or for tables of
    more than 8 numbers int64; wires are int32, and learnt ones the most likely. A model that has
    loaded it knows nothing else: training would begin anew. `harden` gives what needs no torch.
    """
    state = dict(model.state_dict())
    for name, module in model.named_modules():
        if isinstance(module, Neurons):
            prefix = f"{name}." if name else ""
            choices, wires = module.choices(), module.hard_wires()
            small = torch.uint8 if module.hard_tables().shape[1] <= 8 else torch.int64
            del state[prefix + "weight"]
            state.pop(prefix + "wire_weight", None)
            state[prefix + _CHOICES] = choices.to(small)
            state[prefix + module._indices()[0]] = wires.to(torch.int32)
    return state
