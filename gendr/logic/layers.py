"""Layers of gates: what is learnt is which gate each neuron is.

A neuron reads a few features, by fixed wires, and has a table: its output at every corner. While it
trains, the table is soft, and the output is the expected one for independent inputs. When it does
not, the table is hard, 0 or 1, so that bits go in and bits come out.

Source: thesis, sections 6.2 and 6.3; the residual initialisation: Petersen et al., Convolutional
Differentiable Logic Gate Networks, NeurIPS 2024.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, final

import torch
from torch import Tensor, nn

from gendr._runtime.checks import (
    check_choice,
    check_count,
    check_number,
    check_tensor,
    dtype_name,
    shape_text,
)
from gendr.logic.backends import reference
from gendr.logic.backends.choice import choose
from gendr.logic.backends.wires import Wires
from gendr.logic.gates import MAX_FAN_IN, gate_ids, truth_tables
from gendr.logic.wiring import check_wires, random_wiring
from gendr.tnorms import TNorm, as_tconorm

__all__ = ["LogicLayer"]

PARAMETRIZATIONS = ("gates", "table")
ESTIMATORS = ("expected", "straight_through", "gumbel", "gumbel_straight_through")
INITIALIZATIONS = ("residual", "normal")
# The weight of the gate that passes the first input on, where the others have 0: it starts with a
# probability of 0.91 (Petersen et al. 2024, section 3.2).
RESIDUAL_GATE = 5.0
# The corners of a table start this far on their side of 0: at 0.95 and 0.05 after the sigmoid.
RESIDUAL_TABLE = 3.0

Parametrization = Literal["gates", "table"]
Estimator = Literal["expected", "straight_through", "gumbel", "gumbel_straight_through"]
Initialization = Literal["residual", "normal"]


def check_tnorm(tnorm: str | TNorm, fan_in: int) -> TNorm | None:
    """The T-norm that joins two features; None for their product, which kernels compute.

    Raises:
        ValueError: if there is no such T-norm, it is below that of Łukasiewicz, or gates have
            another number of inputs than two.
    """
    found = tnorm if isinstance(tnorm, TNorm) else as_tconorm(tnorm).dual
    if found.name == "probabilistic":
        return None
    if fan_in != 2:
        raise ValueError(f"tnorm is for gates of two inputs, got fan_in = {fan_in}")
    a, b = torch.meshgrid(*[torch.linspace(0, 1, 33, dtype=torch.float64)] * 2, indexing="ij")
    with torch.no_grad():
        lowest = (found(a, b) - (a + b - 1).clamp(min=0)).min()
    if lowest < -1e-9:
        raise ValueError(
            f"tnorm {found} lies below max(a + b - 1, 0), so that gates such as 'or' would leave "
            "[0, 1]; take another, such as frank(p=2), or a larger p"
        )
    return found


@final
class LogicLayer(nn.Module):
    """A layer of gates: [..., in_features] in [0, 1] -> [..., out_features].

    While it trains, a gate's output is the expected one. In `eval` mode every gate is the most
    likely one: then features that are 0 or 1 give outputs that are 0 or 1.

    Args:
        in_features: how many features there are.
        out_features: how many gates read them.
        fan_in: how many features a gate reads, 1 .. 6.
        wiring: "random", see `random_wiring`, or indices [fan_in, out_features], such as those of
            `block_wiring`. It is kept in the state dict.
        parametrization: "gates", a softmax over the gates of two inputs (16 numbers a neuron), or
            "table", a sigmoid for each corner (2^fan_in numbers); by default the first for
            fan_in = 2, the second for all others.
        gates: ids or names of the gates to choose from, for "gates"; by default all 16.
        init: "residual", every neuron starts as a gate that passes its first input on, or
            "normal", weights are drawn from a normal law as in the thesis.
        estimator: what training sees. "expected": the mixture. "straight_through": hard gates
            forward, the gradient of the mixture backward. "gumbel": the mixture after noise, a
            sample from the relaxed choice, and "gumbel_straight_through" the hard one of it.
        tnorm: the "and" of two features, a name or an object, in place of their product, for
            fan_in = 2: the expected gate is then c_0 + c_a a + c_b b + c_ab ⊤(a, b), as for inputs
            that depend on each other by the copula ⊤. Not below max(a + b - 1, 0), else outputs
            would leave [0, 1]. Other than "probabilistic" runs in plain PyTorch.
        temperature: the weights are divided by it before the softmax or sigmoid.
        seed: of the wiring and the initial weights; None takes torch's global random numbers.
        backend: "auto", "cpu", "triton" or "reference".
        device: of the weights.
        dtype: of the weights.

    Attributes:
        wires: [fan_in, out_features] int64, the features that each gate reads.
        weight: [out_features, gates], or [out_features, 2^fan_in].

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if one is out of its range, or two do not fit together.
    """

    wires: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        fan_in: int = 2,
        *,
        wiring: str | Tensor = "random",
        parametrization: Parametrization | None = None,
        gates: Iterable[int | str] | None = None,
        init: Initialization = "residual",
        estimator: Estimator = "expected",
        tnorm: str | TNorm = "probabilistic",
        temperature: float = 1.0,
        seed: int | None = None,
        backend: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features = check_count("in_features", in_features)
        self.out_features = check_count("out_features", out_features)
        self.fan_in = check_count("fan_in", fan_in)
        if fan_in > MAX_FAN_IN:
            raise ValueError(f"fan_in must be <= {MAX_FAN_IN}, got {fan_in}")
        if parametrization is None:
            parametrization = "gates" if fan_in == 2 else "table"
        check_choice("parametrization", parametrization, PARAMETRIZATIONS)
        self.is_mixture = parametrization == "gates"
        if self.is_mixture and fan_in != 2:
            raise ValueError(
                f"the parametrization 'gates' is for fan_in = 2, got {fan_in}; use 'table'"
            )
        if gates is not None and not self.is_mixture:
            raise ValueError("gates are chosen with the parametrization 'gates'")
        self.gates = gate_ids(gates) if self.is_mixture else ()
        check_choice("init", init, INITIALIZATIONS)
        self.estimator = check_choice("estimator", estimator, ESTIMATORS)
        self.temperature = check_number("temperature", temperature, above=0)
        self.backend = backend
        self.tnorm = check_tnorm(tnorm, fan_in)

        if isinstance(wiring, Tensor):
            wires = check_wires(wiring, in_features, out_features, fan_in)
        else:
            check_choice("wiring", wiring, ("random",))
            wires = random_wiring(in_features, out_features, fan_in, seed=seed)
        self.register_buffer("wires", wires.to(device))
        tables = torch.as_tensor(truth_tables(self.gates)) if self.is_mixture else None
        self._tables: Tensor | None
        self.register_buffer("_tables", None if tables is None else tables.to(device), False)
        size = len(self.gates) if self.is_mixture else 1 << fan_in
        self.weight = nn.Parameter(torch.empty(out_features, size, device=device, dtype=dtype))
        if not self.weight.is_floating_point():
            raise TypeError(f"dtype must be floating-point, got {dtype_name(self.weight.dtype)}")
        self._wires: tuple[Tensor, int, Wires] | None = None
        self.reset(init, seed=seed)

    @torch.no_grad()
    def reset(self, init: Initialization, *, seed: int | None = None) -> None:
        """Start again with new weights.

        Args:
            init: see the class. If the gate "a" is not among the gates to choose from, residual
                initialisation raises a ValueError.
            seed: of the weights; None takes torch's global random numbers.
        """
        if check_choice("init", init, INITIALIZATIONS) == "normal":
            # A stream of its own: with the seed of the wiring, weights would follow from wires.
            generator = None if seed is None else torch.Generator().manual_seed(seed + 1)
            self.weight.copy_(torch.randn(self.weight.shape, generator=generator))
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
        """The most likely gates, [out_features] int64: their tables as binary numbers.

        For two inputs these are ids of gates; for six inputs the first corner is the sign bit.
        """
        bits = self.hard_tables().long()
        digits = torch.arange(bits.shape[1] - 1, -1, -1, device=bits.device)
        return (bits << digits).sum(1)

    @torch.no_grad()
    def hard_tables(self) -> Tensor:
        """The tables of the most likely gates, [out_features, 2^fan_in], 0 or 1."""
        return self._hardened(self.weight)

    def soft_tables(self) -> Tensor:
        """The expected tables, [out_features, 2^fan_in], in [0, 1]."""
        return self._softened(self.weight)

    def _hardened(self, weight: Tensor) -> Tensor:
        if self._tables is not None:
            return self._tables[weight.argmax(1)].to(weight.dtype)
        return (weight > 0).to(weight.dtype)

    def _softened(self, weight: Tensor) -> Tensor:
        scaled = weight / self.temperature if self.temperature != 1 else weight
        if self._tables is not None:
            return scaled.softmax(1) @ self._tables.to(weight.dtype)
        return scaled.sigmoid()

    def _training_tables(self) -> Tensor:
        weight = self.weight
        if self.estimator.startswith("gumbel"):
            weight = weight + self._noise()
        soft = self._softened(weight)
        if self.estimator.endswith("straight_through"):
            return self._hardened(weight.detach()) + (soft - soft.detach())
        return soft

    def _noise(self) -> Tensor:
        """Noise whose largest sum with the weights is a draw from their softmax or sigmoid."""
        tiny = torch.finfo(self.weight.dtype).tiny
        if self.is_mixture:
            return -torch.empty_like(self.weight).exponential_().clamp(min=tiny).log()
        u = torch.rand_like(self.weight).clamp(min=tiny)
        return u.log() - (-u).log1p()  # logistic: a difference of two Gumbels

    # -- the layer

    def forward(self, x: Tensor) -> Tensor:
        """The outputs of all gates.

        Args:
            x: [..., in_features], in [0, 1], not checked; in the dtype of the weights.

        Returns:
            [..., out_features]. In memory, the batch is the innermost dimension, so that a layer
            that follows reads it without a copy.

        Raises:
            TypeError: if x has another dtype than the weights.
            ValueError: if it has another number of features, or no row.
        """
        check_tensor("x", x)
        if x.dtype != self.weight.dtype:
            raise TypeError(
                f"x must have the dtype of the weights, {dtype_name(self.weight.dtype)}, got "
                f"{dtype_name(x.dtype)}; convert it with .to()"
            )
        if x.ndim == 0 or x.shape[-1] != self.in_features or x.numel() == 0:
            raise ValueError(
                f"x must have shape [..., {self.in_features}] with one row at least, got "
                f"{shape_text(x.shape)}"
            )
        tables = self._training_tables() if self.training else self.hard_tables()
        columns = x.reshape(-1, self.in_features).T  # [in_features, B]
        if self.tnorm is None or not self.training:  # on bits all T-norms agree
            out = choose(self.backend, x).gates(columns, self._wiring(), tables)
        else:
            out = reference.joined_gates(columns, self._wiring(), tables, self.tnorm)
        return out.T.reshape(*x.shape[:-1], self.out_features)

    def _wiring(self) -> Wires:
        """The wires in the form that backends take; found again after they have changed."""
        wires = self.wires
        if torch.compiler.is_compiling():  # a graph takes the wires as they are when it runs
            return Wires(wires, self.in_features)
        known = self._wires
        if known is None or known[0] is not wires or known[1] != wires._version:
            known = self._wires = (wires, wires._version, Wires(wires, self.in_features))
        return known[2]

    def __getstate__(self) -> dict[str, object]:
        """Without what is found again when it is needed."""
        return {**self.__dict__, "_wires": None}

    def extra_repr(self) -> str:
        """What the text of a model shows."""
        kind = f"{len(self.gates)} gates" if self.is_mixture else "tables"
        parts = [f"{self.in_features}, {self.out_features}, fan_in={self.fan_in}, {kind}"]
        if self.estimator != "expected":
            parts.append(self.estimator)
        if self.tnorm is not None:
            parts.append(str(self.tnorm))
        if self.temperature != 1:
            parts.append(f"temperature={self.temperature:g}")
        return ", ".join(parts)
