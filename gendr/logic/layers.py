"""Layers of gates: what is learnt is which gate each neuron is, and, if asked for, what it reads.

A neuron reads a few features by wires, which are fixed or, with a learnable wiring, chosen among a
few candidates; see `gendr.logic.neurons` for what is common to all layers.

Source: thesis, sections 6.2 and 6.3; learnable wirings: Mommen et al., A Method for Optimizing
Connections in Differentiable Logic Gate Networks, arXiv 2507.06173, 2025.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor, nn

from gendr._common.checks import (
    check_choice,
    check_count,
    check_tensor,
    shape_text,
)
from gendr._common.words import worded
from gendr.logic.backends.wires import Wires
from gendr.logic.mixing import mixed
from gendr.logic.neurons import (
    Estimator,
    Initialization,
    Neurons,
    Parametrization,
    chosen,
    normal,
)
from gendr.logic.wiring import LearnableWiring, candidate_wiring, check_wires, random_wiring
from gendr.tnorms import TConorm, TNorm

# The weight of the first candidate, where the others have 0; of 8 it starts with a share of 0.95.
RESIDUAL_WIRE = 5.0


@worded(paper=("temperature",))
@final
class LogicLayer(Neurons):
    """A layer of gates: [..., in_features] in [0, 1] -> [..., out_features].

    While it trains, a gate's output is the expected one. In `eval` mode every gate is the most
    likely one: then features that are 0 or 1 give outputs that are 0 or 1.

    Args:
        in_features: how many features there are.
        out_features: how many gates read them.
        fan_in: how many features a gate reads, 1 .. 6.
        wiring: "random", see `random_wiring`; indices [fan_in, out_features]; or "learnable", which
            is a `LearnableWiring` of 8 candidates, or of as many as there are features for, or such
            an object. It is kept in the state dict.
        parametrization: "gates", a softmax over the gates of two inputs (16 numbers a neuron);
            "table", a sigmoid for each corner (2^fan_in numbers); or "walsh", the sigmoid of a sum
            of 2^fan_in products of signs 1 - 2 x, with a coefficient each (WARP). By default the
            first for fan_in = 2, the second for all others.
        gates: ids or names of the gates to choose from, for "gates"; by default all 16.
        init: "residual", every neuron starts as a gate that passes its first input on, and every
            learnable wire as its first candidate, or "normal", weights are drawn from a normal
            distribution as in the thesis.
        estimator: what training sees. "expected": the mixture. "straight_through": hard gates
            forward, the gradient of the mixture backward. "gumbel": the mixture after noise, a
            sample from the relaxed choice, and "gumbel_straight_through" the hard one of it. The
            same holds for learnable wires.
        tconorm: the "or" of two features, a name or an object, whose dual ⊤ is their "and" in
            place of the product, for fan_in = 2: the expected gate is then
            c_0 + c_a a + c_b b + c_ab ⊤(a, b), as for inputs that depend on each other by the
            copula ⊤. Not below max(a + b - 1, 0), else outputs would leave [0, 1]. Other than
            "probabilistic" runs in plain PyTorch. It may be called `tnorm` too.
        scale: the weights, also those of learnable wires, are divided by it before the softmax or
            sigmoid; the temperature, by which word it is taken too.
        seed: of the wiring and the initial weights; None takes torch's global random numbers.
        backend: "auto", "cpu", "triton" or "reference".
        device: of the weights.
        dtype: of the weights.

    Attributes:
        weight: [out_features, gates], or [out_features, 2^fan_in]; for "walsh" by sets of inputs,
            as binary numbers whose first digit is the first input.
        wires: [fan_in, out_features] int64, the features that each gate reads. A layer with a
            learnable wiring has `candidates` and `wire_weight` instead.
        candidates: [c, fan_in, out_features] int64, the features among which each input chooses.
        wire_weight: [c, fan_in, out_features], the weights of that choice.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if one is out of its range, or two do not fit together.
    """

    wires: Tensor
    candidates: Tensor
    wire_weight: nn.Parameter

    def __init__(
        self,
        in_features: int,
        out_features: int,
        fan_in: int = 2,
        *,
        wiring: str | Tensor | LearnableWiring = "random",
        parametrization: Parametrization | None = None,
        gates: Iterable[int | str] | None = None,
        init: Initialization = "residual",
        estimator: Estimator = "expected",
        tconorm: str | TConorm | TNorm = "probabilistic",
        scale: float = 1.0,
        seed: int | None = None,
        backend: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        in_features = check_count("in_features", in_features)
        out_features = check_count("out_features", out_features)
        fan_in = check_count("fan_in", fan_in)
        super().__init__(
            out_features, fan_in,
            parametrization=parametrization, gates=gates, estimator=estimator,
            tconorm=tconorm, scale=scale, backend=backend, device=device, dtype=dtype,
        )  # fmt: skip
        self.in_features, self.out_features, self.fan_in = in_features, out_features, fan_in
        self.is_learnable = isinstance(wiring, LearnableWiring) or wiring == "learnable"
        if isinstance(wiring, Tensor):
            wires = check_wires(wiring, in_features, out_features, fan_in)
        elif self.is_learnable:
            count = wiring.candidates if isinstance(wiring, LearnableWiring) else None
            wires = candidate_wiring(in_features, out_features, fan_in, count, seed=seed)
            self.wire_weight = nn.Parameter(torch.empty(wires.shape, device=device, dtype=dtype))
        else:
            check_choice("wiring", wiring, ("random", "learnable"))
            wires = random_wiring(in_features, out_features, fan_in, seed=seed)
        name = "candidates" if self.is_learnable else "wires"
        self.register_buffer(name, wires.to(self.weight.device))
        self.reset(init, seed=seed)

    @torch.no_grad()
    def reset(self, init: Initialization, *, seed: int | None = None) -> None:
        """Start again with new weights.

        Args:
            init: see the class. If the gate "a" is not among the gates to choose from, residual
                initialisation raises a ValueError.
            seed: of the weights; None takes torch's global random numbers.
        """
        super().reset(init, seed=seed)
        if self.is_learnable and init == "normal":
            self.wire_weight.copy_(normal(self.wire_weight.shape, seed, 2))
        elif self.is_learnable:
            self.wire_weight.zero_()
            self.wire_weight[0] = RESIDUAL_WIRE

    @torch.no_grad()
    def hard_wires(self) -> Tensor:
        """The features that each gate reads in `eval` mode, [fan_in, out_features] int64."""
        if not self.is_learnable:
            return self.wires
        return self.candidates.gather(0, self.wire_weight.argmax(0, keepdim=True))[0]

    def forward(self, x: Tensor) -> Tensor:
        """The outputs of all gates.

        Args:
            x: [..., in_features], in [0, 1], not checked; in the dtype of the weights, or in that
                of `torch.autocast`.

        Returns:
            [..., out_features], in the dtype of x. In memory, the batch is the innermost dimension,
            so that a layer that follows reads it without a copy.

        Raises:
            TypeError: if x has another dtype than the weights.
            ValueError: if it has another number of features.
        """
        own = self._entered(check_tensor("x", x, meta=True))
        if x.ndim == 0 or x.shape[-1] != self.in_features:
            raise ValueError(
                f"x must have shape [..., {self.in_features}], got {shape_text(x.shape)}"
            )
        columns = own.reshape(-1, self.in_features).T  # [in_features, B]
        if not self.is_learnable:
            wires, _ = self._wiring()
        elif self.training:
            columns, wires = self._mixed(columns)
        else:
            self._wiring()  # which looks at the candidates if they are new
            wires = Wires(self.hard_wires(), self.in_features)
        out = self._outputs(columns, wires, self._present_tables())
        return out.T.reshape(*x.shape[:-1], self.out_features).to(x.dtype)

    def _mixed(self, columns: Tensor) -> tuple[Tensor, Wires]:
        """What the inputs of all gates see of their candidates [fan_in N, B], and wires to it."""
        candidates, places = self._wiring()
        shares = chosen(self.wire_weight, 0, self.estimator, self.scale)
        return mixed(columns, candidates, shares.flatten(1), self.backend), places

    def _wiring(self) -> tuple[Wires, Wires]:
        """The wires in the form that backends take.

        With a learnable wiring these are the wires of all candidates [c, fan_in N], and those from
        the gates to their inputs, which stand in order.
        """
        return self._cached(self._make_wires)

    def _indices(self) -> tuple[str, int, str]:
        name = "candidates" if self.is_learnable else "wires"
        return name, self.in_features, "inputs of the layer"

    def _kind(self) -> dict[str, Any]:
        """See `OfAKind`."""
        return {**super()._kind(), "in_features": self.in_features}

    def _make_wires(self) -> tuple[Wires, Wires]:
        """See `_wiring`; those without a learnable wiring are the same twice."""
        wires = self.candidates if self.is_learnable else self.wires
        first = Wires(wires.flatten(1), self.in_features)
        if not self.is_learnable:
            return first, first
        size = self.fan_in * self.out_features
        places = torch.arange(size, device=wires.device).view(self.fan_in, -1)
        return first, Wires(places, size)

    def extra_repr(self) -> str:
        """What the text of a model shows."""
        kind, *options = self._options()
        parts = [f"{self.in_features}, {self.out_features}, fan_in={self.fan_in}, {kind}"]
        if self.is_learnable:
            parts.append(f"wires learnable among {len(self.candidates)}")
        return ", ".join([*parts, *options])
