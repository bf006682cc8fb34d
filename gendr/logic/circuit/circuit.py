"""What users have: a circuit with its thresholds and its sums, which runs and is saved.

Nothing here needs torch; tensors are taken and given where torch is in use.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gendr.logic.circuit import exports, files
from gendr.logic.circuit.exports.names import check_name
from gendr.logic.circuit.netlist import Netlist
from gendr.logic.circuit.packed import PackedBits, PackedProgram, compiled, unpacked
from gendr.logic.circuit.parts import Floats, Sums
from gendr.logic.circuit.passes import simplify


class Stats(NamedTuple):
    """The size of a circuit.

    Attributes:
        inputs: how many bits go in.
        outputs: how many come out, before groups are summed.
        gates: how many there are.
        depth: gates on the longest way from an input to an output.
        histogram: how many gates of each kind.
        levels: the same for each level, gates at equal depth; Figure 6.2 for a circuit that was
            not simplified, whose levels are the layers of the network.
    """

    inputs: int
    outputs: int
    gates: int
    depth: int
    histogram: dict[str, int]
    levels: tuple[dict[str, int], ...]

    def __str__(self) -> str:
        kinds = ", ".join(f"{name} {n:,}" for name, n in self.histogram.items())
        return (
            f"{self.gates:,} gates, depth {self.depth}, {self.inputs:,} inputs, "
            f"{self.outputs:,} outputs: {kinds or 'no gate'}"
        )


@final
@dataclass(frozen=True, eq=False)
class Circuit:
    """A network of gates that runs on bits.

    `harden` makes one of a trained network, `Circuit.load` reads one from a file. It takes NumPy
    arrays and torch tensors, and gives what it was given.

    Attributes:
        netlist: the gates.
        thresholds: [F, T], or [1, T] for all features alike, which make bits of numbers; None if
            the circuit takes bits.
        features: F, how many numbers a row has.
        sums: of the outputs; None if the circuit gives bits.

    Raises:
        ValueError: if the parts do not fit together.
    """

    netlist: Netlist
    thresholds: Floats | None = None
    sums: Sums | None = None

    def __post_init__(self) -> None:
        self.netlist.check()
        inputs, outputs = self.netlist.inputs, len(self.netlist.outputs)
        limits = self.thresholds
        if limits is not None:
            if limits.dtype.name not in ("float32", "float64"):
                raise ValueError(f"thresholds must be float32 or float64, got {limits.dtype}")
            if limits.ndim != 2 or not limits.size or not np.isfinite(limits).all():
                raise ValueError(
                    f"thresholds must be finite numbers [F, T] or [1, T], got shape "
                    f"{list(limits.shape)}"
                )
            if inputs % limits.shape[1] or len(limits) not in (1, inputs // limits.shape[1]):
                raise ValueError(
                    f"thresholds [{len(limits)}, {limits.shape[1]}] do not fit {inputs} inputs"
                )
        if self.sums is not None:
            if self.sums.k < 1 or outputs % self.sums.k:
                raise ValueError(
                    f"the {outputs} outputs must form {self.sums.k} groups of equal size"
                )
            if not self.sums.tau > 0 or not np.isfinite([self.sums.tau, self.sums.beta]).all():
                raise ValueError(f"tau must be > 0 and beta finite, got {self.sums}")

    @property
    def features(self) -> int:
        """How many numbers, or bits, a row has."""
        each = 1 if self.thresholds is None else self.thresholds.shape[1]
        return self.netlist.inputs // each

    # -- running

    def __call__(self, x: Any) -> Any:
        """Run it.

        Args:
            x: [..., features], numbers if there are thresholds, which are rounded to their dtype as
                in the network; else bits: bool, or 0 and 1.

        Returns:
            Scores [..., k] float32, count / tau + beta, if outputs are summed; else the outputs
            [..., M], bool.

        Raises:
            TypeError: if x is neither an array nor a tensor of real numbers.
            ValueError: if it has another number of features, or is not binary.
        """
        rows, shape = self._rows(x)
        bits = self._pack(rows)
        if self.sums is None:
            result = unpacked(self.outputs(bits))
        else:
            result = self._scores(self.counts(bits))
        return _like(x, result.reshape(*shape, result.shape[1]))

    def predict(self, x: Any) -> Any:
        """The class of each row, [...] int64: the group with most ones, the first of equal ones.

        Raises:
            TypeError: as calls do.
            ValueError: as calls do, or if outputs are not summed.
        """
        rows, shape = self._rows(x)
        return _like(x, self.counts(self._pack(rows)).argmax(1).astype(np.int64).reshape(shape))

    def labels(self, x: Any) -> Any:
        """Which groups have a positive score, [..., k] bool: the head of `GroupSum.of_labels`.

        Raises:
            TypeError: as calls do.
            ValueError: as calls do, or if outputs are not summed.
        """
        rows, shape = self._rows(x)
        counts = self.counts(self._pack(rows))
        assert self.sums is not None
        return _like(x, (counts > self.sums.limit).reshape(*shape, self.sums.k))

    def pack(self, x: Any) -> PackedBits:
        """Rows [N, features] as packed bits, which `counts` and `outputs` take.

        Raises:
            TypeError: as calls do.
            ValueError: as calls do.
        """
        return self._pack(self._rows(x)[0])

    def counts(self, bits: PackedBits) -> NDArray[np.int32]:
        """How many outputs of each group are 1, [N, k].

        Raises:
            ValueError: if outputs are not summed, or the bits are not those of this circuit.
        """
        from gendr.kernels.threads import run
        from gendr.logic.circuit import kernels

        if self.sums is None:
            raise ValueError("this circuit has no groups to count; take its outputs")
        blocks = self._blocks(bits)
        out = np.empty((self.sums.k, bits.rows), np.int32)
        p = self._program
        run(
            kernels.counts, blocks, bits.words, p.slots, p.loads, p.runs, p.gates, p.adders,
            p.digits, p.ones, out, pieces=2,
        )  # fmt: skip
        return out.T

    def outputs(self, bits: PackedBits) -> PackedBits:
        """The outputs of all rows, before groups are summed.

        Raises:
            ValueError: if the bits are not those of this circuit.
        """
        from gendr.kernels.threads import run
        from gendr.logic.circuit import kernels

        blocks = self._blocks(bits)
        out = np.empty((len(self.netlist.outputs), bits.words.shape[1]), np.uint64)
        p = self._plain
        run(
            kernels.outputs, blocks, bits.words, p.slots, p.loads, p.runs, p.gates, p.stores, out,
            pieces=2,
        )  # fmt: skip
        return PackedBits(out, bits.rows)

    @cached_property
    def _program(self) -> PackedProgram:
        return compiled(self.netlist, 0 if self.sums is None else self.sums.k)

    @cached_property
    def _plain(self) -> PackedProgram:
        return self._program if self.sums is None else compiled(self.netlist)

    def _blocks(self, bits: PackedBits) -> int:
        from gendr.logic.circuit.kernels import WIDE

        words, rows = bits
        if words.dtype != np.uint64 or words.ndim != 2 or len(words) != self.netlist.inputs:
            raise ValueError(
                f"packed bits must be uint64 words [{self.netlist.inputs}, W], got {words.dtype} "
                f"{list(words.shape)}; Circuit.pack makes them"
            )
        if not 0 <= rows <= 64 * words.shape[1]:
            raise ValueError(
                f"{words.shape[1]} words hold 0 .. {64 * words.shape[1]} rows, got {rows}"
            )
        return -(-words.shape[1] // WIDE)

    def _scores(self, counts: NDArray[np.int32]) -> NDArray[np.float32]:
        assert self.sums is not None
        scores = counts.astype(np.float32)
        scores /= np.float32(self.sums.tau)
        if self.sums.beta:
            scores += np.float32(self.sums.beta)
        return scores

    def _rows(self, x: Any) -> tuple[NDArray[Any], tuple[int, ...]]:
        """The rows [N, features] of an array or a tensor, and its shape without the last size."""
        if not isinstance(x, np.ndarray) and not _is_tensor(x):
            raise TypeError(
                f"x must be a NumPy array or a torch tensor, got {type(x).__name__}; convert it "
                "with np.asarray"
            )
        values = _array(x)
        if values.dtype.kind not in "biuf":
            raise TypeError(f"x must hold real numbers or bool, got {values.dtype}")
        if values.ndim == 0 or values.shape[-1] != self.features:
            raise ValueError(f"x must have shape [..., {self.features}], got {list(values.shape)}")
        return np.ascontiguousarray(values.reshape(-1, self.features)), values.shape[:-1]

    def _pack(self, rows: NDArray[Any]) -> PackedBits:
        from gendr.kernels.threads import run
        from gendr.logic.circuit import kernels

        limits = self.thresholds
        if limits is None:
            if rows.dtype.kind != "b":
                wrong = (rows != 0) & (rows != 1)
                if wrong.any():
                    raise ValueError(
                        f"x must be binary, 0 or 1, got {rows[wrong][0]!r}; this circuit has no "
                        "thresholds"
                    )
                rows = rows != 0
            limits = np.zeros((1, 1), np.float32)
        rows, limits = _comparable(rows, limits)
        words = -(-len(rows) // 64)
        out = np.empty((self.netlist.inputs, words), np.uint64)
        run(kernels.pack, words, rows, limits, len(limits) == 1, out, pieces=2)
        return PackedBits(out, len(rows))

    # -- what it is

    def stats(self) -> Stats:
        """How large it is, and of which gates."""
        circuit = self.netlist
        levels = circuit.levels()
        own = levels[circuit.inputs :]
        depth = int(levels[circuit.outputs].max())
        parts = [
            Netlist(circuit.inputs, circuit.ids[own == k], circuit.a, circuit.b, circuit.outputs)
            for k in range(1, int(own.max(initial=0)) + 1)
        ]
        return Stats(
            circuit.inputs, len(circuit.outputs), len(circuit), depth, circuit.histogram(),
            tuple(part.histogram() for part in parts),
        )  # fmt: skip

    def simplified(self, *, check: bool = True) -> Circuit:
        """The same function with fewer gates; see `gendr.logic.circuit.passes`.

        Args:
            check: whether to compare the function before and after each pass.
        """
        return Circuit(simplify(self.netlist, check=check), self.thresholds, self.sums)

    def __str__(self) -> str:
        """The printed form of the intermediate representation."""
        return "\n".join([*files.header(self), *self.netlist.lines()])

    def __repr__(self) -> str:
        return f"<Circuit: {self.stats()}>"

    # -- files

    def save(self, path: str | Path) -> None:
        """Write it to a file, which `load` reads.

        Raises:
            OSError: if that fails; a file that is there is kept.
        """
        files.save(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> Circuit:
        """Read a circuit from a file that `save` wrote. No code is run that the file brings.

        Raises:
            FileNotFoundError: if there is no file.
            ValueError: if it is no circuit, or damaged.
        """
        return files.load(
            Path(path), lambda netlist, limits, sums: Circuit(netlist, limits, sums and Sums(*sums))
        )

    def to_c(self, name: str = "circuit") -> str:
        """C source, one file without dependencies; see `gendr.logic.circuit.exports.c`.

        Raises:
            ValueError: if the name is none in one of the languages, as of all exports.
        """
        return exports.c.source(self, check_name(name))

    def to_verilog(
        self,
        name: str = "circuit",
        *,
        word: int | None = None,
        fraction: int = 0,
        signed: bool = False,
        result: str | None = None,
        registers: int = 0,
        stream: bool = False,
    ) -> str:
        """Verilog source of a module; see `gendr.logic.circuit.exports.verilog`.

        >>> circuit.to_verilog("net", word=8, result="class", registers=2)  # from bytes to a class

        Args:
            name: of the module.
            word: the bits of a number; then x has numbers, and the thresholds are in the module.
                None: x has bits, and thresholds are left to what comes before.
            fraction: how many of the bits are behind the binary point. A fixed-point number is
                above a threshold as the number is in the network, rounded to the dtype of the
                thresholds; up to 24 bits no number is rounded.
            signed: whether numbers are in two's complement.
            result: "bits", "sums", "class" or "labels", as `outputs`, `counts`, `predict` and
                `labels` of this class; by default sums if there are some.
            registers: after how many levels of gates there is one; 0 for none. With some, the
                module has a clock and gives a result `LATENCY` clocks after its row.
            stream: the ports are those of AXI4-Stream, with handshakes; needs registers.

        Raises:
            ValueError: as all exports; numbers without thresholds, a result without sums, or a
                stream without registers.
        """
        options = exports.verilog.Options(word, fraction, signed, result, registers, stream)
        return exports.verilog.source(self, check_name(name), options)

    def to_testbench(self, rows: Any, name: str = "circuit", **options: Any) -> str:
        """Verilog source of a test bench for the module that `to_verilog` gives.

        >>> Path("net_bench.v").write_text(circuit.to_testbench(rows, "net", word=8, registers=2))

        The bench drives the module with rows and compares with what this circuit gives for them. A
        stream is driven with gaps, and its results are made to wait. It prints PASS, or FAIL and
        the first difference:

            iverilog -o bench net.v net_bench.v && vvp bench

        Args:
            rows: [N, features], N >= 1: bits, or with `word` numbers that it can write.
            name: of the module.
            **options: those of `to_verilog`.

        Raises:
            TypeError, ValueError: as `to_verilog` and calls do, or no rows, or numbers that a word
                does not hold.
        """
        made = exports.verilog.Options(**options)
        return exports.bench.source(self, check_name(name), rows, made)

    def to_numpy(self, name: str = "circuit") -> str:
        """Python source that needs NumPy only; see `gendr.logic.circuit.exports.numpy`."""
        return exports.numpy.source(self, check_name(name))

    def to_dot(self, name: str = "circuit") -> str:
        """The graph in the language of Graphviz."""
        return exports.dot.source(self, check_name(name))


def _is_tensor(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _array(x: Any) -> NDArray[Any]:
    if isinstance(x, np.ndarray):
        return x
    x = x.detach().cpu()
    torch = sys.modules["torch"]
    return (x.float() if x.dtype == torch.bfloat16 else x).numpy()


def _like(x: Any, result: NDArray[Any]) -> Any:
    """The result as an array, or as a tensor on the device of x."""
    if isinstance(x, np.ndarray):
        return result
    return sys.modules["torch"].from_numpy(np.ascontiguousarray(result)).to(x.device)


def _comparable(rows: NDArray[Any], limits: Floats) -> tuple[NDArray[Any], NDArray[Any]]:
    """Numbers and thresholds in one type, that of the thresholds: see `Thermometer`.

    A byte is above a threshold if it is above its floor.
    """
    if rows.dtype == np.bool_:
        rows = rows.view(np.uint8)
    if rows.dtype == np.uint8:
        return rows, np.floor(np.clip(limits, -1, 255)).astype(np.int16)
    with np.errstate(over="ignore"):  # which becomes inf
        return rows.astype(limits.dtype, copy=False), limits
