"""Compile Triton kernels ahead of time to machine code, also on machines without a GPU.

A kernel is compiled once for every distribution, family and number of corners with which it is
launched. This module lists these specialisations, with the arguments of a real launch, and measures
what the machine code of each one uses.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from support.processes import run_python

if TYPE_CHECKING:
    from gendr.rendering.backends.triton.recipes import Recipe
    from gendr.rendering.backends.triton.tiles import TileLaunch


CAPABILITIES = (80, 90)  # compute capability times 10: Ampere, Hopper
USUAL = ("uniform", "probabilistic")  # distribution and family of the default renderer

# The kernels that list faces, and how they are compiled.
LISTING: dict[str, dict[str, int]] = {
    "count_faces": {"LOOK": 256, "BLOCK": 32, "num_warps": 1},
    "prefix_chunks": {"BLOCK_CHUNKS": 32, "BLOCK_TILES": 32, "num_warps": 4},
    "scan_tiles": {"SEGMENT": 256, "BLOCK": 2048, "num_warps": 8},
    "fill_lists": {"LOOK": 256, "BLOCK": 32, "SEGMENT": 256, "num_warps": 1},
    "count_pieces": {"PIECE": 2048, "BLOCK": 1024, "num_warps": 4},
    "list_pieces": {"PIECE": 2048, "BLOCK": 1024, "BLOCK_SUMS": 128, "num_warps": 4},
    "join_pieces": {"COLUMNS": 6, "WIDE": 8, "BLOCK": 64, "num_warps": 1},
}

# The kernels that project, and their sizes.
PROJECTING: dict[str, dict[str, int]] = {
    "depth_ranges": {"BLOCK": 256},
    "project_faces": {"BLOCK": 128, "PARTS": 64},
    "project_gradients": {"VERTICES": 1, "ENTRIES": 8, "IMAGES": 32, "PARTS": 64},
}

# The arguments of kernels that are int32, or pointers to int32; all others point to float32.
_INT32 = {
    "blocks", "capacity", "columns", "count", "every", "extra", "faces", "faces_of_image",
    "height", "parts", "pixels", "rows", "tiles", "vertices_of_image", "width",
}  # fmt: skip
_INT32_POINTERS = {
    "boxes", "chunks", "counts", "entries", "first_chunks", "image_of_face", "image_of_vertex",
    "list_of_faces", "offsets", "pieces", "segments", "starts", "stops", "sums", "ties",
    "tile_of_segment", "totals",
}  # fmt: skip
_POINTERS = {
    torch.float32: "*fp32", torch.float16: "*fp16", torch.bfloat16: "*bf16", torch.int32: "*i32",
    torch.float64: "*fp64", torch.int64: "*i64",
}  # fmt: skip
_OTHERS = {
    ("join_pieces", "parts"): "*fp32",
    ("project_faces", "faces"): "*i64",
    ("project_faces", "flags"): "*i64",
    ("project_faces", "far"): "fp32",
    ("project_faces", "near"): "fp32",
    ("project_gradients", "faces"): "*i64",
    ("project_gradients", "far"): "fp32",
    ("project_gradients", "images"): "i32",
    ("project_gradients", "near"): "fp32",
    ("scan_tiles", "needed"): "*i64",
    ("through_totals", "parts"): "*fp32",
    ("alpha_tiles", "totals"): "*fp32",
    ("join_segments", "totals"): "*fp32",
    ("softmax_gradients", "rows"): "*fp32",
    ("softmax_tiles", "rows"): "*fp32",
    ("nearest_tiles", "nearest"): "*i64",
    ("nearest_tiles", "planes"): "*fp64",
}


@dataclass(frozen=True, order=True)
class Specialisation:
    """One way in which a kernel is compiled.

    Attributes:
        kernel: the name of the kernel.
        dist: the base distribution, "" for kernels that take none.
        family: the family of T-conorms, "" for kernels that take none.
        sides: corners of a face: 3, or 4 if the near plane cut some face.
        scalars: whether a backward kernel computes the gradients of scale and shift too, and of
            shape and p where the distribution and the family have them.
        small: whether for small images and faces; see `gendr.rendering.backends.triton.tiles`.
    """

    kernel: str
    dist: str = ""
    family: str = ""
    sides: int = 3
    scalars: bool = False
    small: bool = False

    def __str__(self) -> str:
        member = "/".join(name for name in (self.dist, self.family) if name)
        words = self.kernel, member, f"N={self.sides}", "scalars" * self.scalars
        return " ".join(x for x in (*words, "small" * self.small) if x)


@dataclass(frozen=True)
class Usage:
    """The resources that a compiled kernel uses.

    Attributes:
        registers: registers per thread.
        local: bytes of local memory per thread, which is off the chip: spilled registers.
        shared: bytes of shared memory per program.
        size: bytes of the binary.
        seconds: processor time of the compilation, including the assembler.
    """

    registers: int
    local: int
    shared: int
    size: int
    seconds: float


def specialisations() -> Iterator[Specialisation]:
    """All specialisations: every kernel with every distribution and family, or with none first.

    Small ones with each distribution and the usual family, and with each family and the usual
    distribution; the code of a distribution and that of a family do not meet. Gradients of only
    some scalars are left out: their code is contained in that of others.
    """
    from gendr.distributions import names
    from gendr.tnorms import family as family_of
    from gendr.tnorms import has_parameter
    from gendr.tnorms import names as families

    for sides in (3, 4):
        yield Specialisation("face_tables", sides=sides)
    for small in (False, True):
        yield Specialisation("nearest_tiles", small=small)
    for kernel in (*LISTING, *PROJECTING):
        yield Specialisation(kernel)
    for family in families():
        yield Specialisation("join_segments", USUAL[0], family)  # of any distribution
        if has_parameter(family_of(family)):
            yield Specialisation("through_totals", USUAL[0], family, scalars=True)
    for dist in names():
        for small in (False, True):
            yield Specialisation("softmax_tiles", dist, small=small)
            for scalars in (False, True):
                yield Specialisation("softmax_gradients", dist, scalars=scalars, small=small)
        for family in families():
            for small in (False, True) if dist == USUAL[0] or family == USUAL[1] else (False,):
                for sides in (3, 4):
                    yield Specialisation("alpha_tiles", dist, family, sides, small=small)
                    for scalars in (False, True):
                        yield Specialisation("alpha_gradients", dist, family, sides, scalars, small)


def one_of_each_function() -> Iterator[Specialisation]:
    """Every kernel with each distribution and with each family, the other of them the usual one.

    A pair takes about as many registers as the greater of its distribution with the usual family
    and its family with the usual distribution, so these tell of all; see
    `docs/results/rendering.md`. Triangles, and all gradients; of the usual pair also the other
    specialisations.
    """
    dist, family = USUAL
    for x in specialisations():
        gradients = x.kernel.endswith("gradients")
        largest = x.sides == 3 and not x.small and (x.scalars or not gradients)
        other = (x.dist not in ("", dist)) + (x.family not in ("", family))
        if other == 0 or (other == 1 and largest):
            yield x


def _function(kernel: str) -> Any:
    from gendr.rendering.backends.triton import (
        kernels,
        list_kernels,
        project_kernels,
        softmax_kernels,
    )

    colours = kernel.startswith("softmax")
    module = softmax_kernels if colours else list_kernels if kernel in LISTING else kernels
    if kernel in PROJECTING:
        module = project_kernels
    return getattr(module, kernel)


def signature(kernel: str) -> dict[str, str]:
    """The type of every argument of a kernel, as Triton writes it: "*fp32", "i32", "constexpr"."""

    def type_of(name: str) -> str:
        usual = "*i32" if name in _INT32_POINTERS else "*fp32"
        usual = "i32" if name in _INT32 else usual
        return _OTHERS.get((kernel, name), usual)

    function = _function(kernel)
    constant = {name for name, note in function.fn.__annotations__.items() if "constexpr" in note}
    return {x: "constexpr" if x in constant else type_of(x) for x in function.arg_names}


def constants(x: Specialisation) -> dict[str, Any]:
    """The compile-time arguments of a specialisation, as the backend gives them."""
    launch = _launch(x)
    every: dict[str, Any] = {
        "N": x.sides,
        "TILE_H": launch.tile[0],
        "TILE_W": launch.tile[1],
        "BLOCK_FACES": launch.block_faces,
        "BLOCK": {"face_tables": 128, "through_totals": 1024}.get(x.kernel, launch.block_pixels),
        "SEGMENT": 256,
    }
    every |= LISTING.get(x.kernel, {}) | PROJECTING.get(x.kernel, {})
    # All that the kernels can do, but not what the others need less of: both planes are not given.
    every |= {
        "SHARED": True, "ONE_CAMERA": False, "HAS_NEAR": False, "HAS_FAR": False, "CHECK": True,
        "WITH_VERTICES": True, "WITH_CAMERA": True,
    }  # fmt: skip
    if x.dist:
        recipe = _recipe(x)
        every |= recipe.forward() | recipe.backward(x.scalars)
    return {name: every[name] for name, kind in signature(x.kernel).items() if kind == "constexpr"}


def _recipe(x: Specialisation) -> Recipe:
    """That of a renderer whose numbers are all learnt."""
    from gendr.distributions.kernel_functions import has_shape, kernel_functions
    from gendr.rendering.backends.triton.recipes import SOFTMAX, Recipe
    from gendr.tnorms import family, has_parameter

    columns = ["scale", "shift"]
    columns += ["shape"] if has_shape(kernel_functions(x.dist)) else []
    columns += ["p"] if x.family and has_parameter(family(x.family)) else []
    return Recipe(x.dist, x.family or SOFTMAX, tuple(columns))


def _launch(x: Specialisation) -> TileLaunch:
    from gendr.rendering.backends.triton.tiles import LAUNCH

    return LAUNCH.with_small(tiles=x.small, blocks=x.small)


def _options(x: Specialisation) -> dict[str, Any]:
    from gendr.rendering.backends.triton.tiles import options

    if x.kernel in LISTING:
        return {"num_warps": LISTING[x.kernel]["num_warps"], "enable_fp_fusion": True}
    exact = x.kernel in ("face_tables", "nearest_tiles") or (bool(x.dist) and _recipe(x).is_exact)
    launch = _launch(x)
    warps = launch.warps
    if x.kernel.endswith("gradients"):
        warps = launch.block_warps
    elif x.kernel in ("alpha_tiles", "softmax_tiles"):
        warps = launch.tile_warps
    elif x.kernel == "nearest_tiles":
        warps = 2 * launch.tile_warps
    return options(warps, exact=exact)


def _source(x: Specialisation) -> Any:
    """The source object that Triton compiles."""
    from triton.compiler import ASTSource

    from gendr.rendering.backends.triton.tiles import interpreted

    if interpreted():
        raise RuntimeError("TRITON_INTERPRET is set, and then Triton compiles nothing; unset it")
    function, types = _function(x.kernel), signature(x.kernel)
    # torch aligns its memory to at least 16 bytes, and Triton specialises on that.
    aligned = {
        (i,): [["tt.divisibility", 16]]
        for i, kind in enumerate(types.values())
        if "*" in kind and not function.params[i].do_not_specialize_on_alignment
    }
    return ASTSource(function, types, constants(x), aligned)


def fingerprint(x: Specialisation) -> str:
    """A hash of all that the machine code depends on except the target: code, constants, Triton.

    Raises:
        RuntimeError: under TRITON_INTERPRET.
    """
    import triton

    text = f"{triton.__version__} {_options(x)} {_source(x).hash()}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def compile_ahead(x: Specialisation, capability: int, **options: Any) -> Usage:
    """Compile for a GPU that need not be present. The cache on disk is not used.

    Args:
        x: what to compile.
        capability: the compute capability of the GPU, times 10; see `CAPABILITIES`.
        **options: options of the compiler, which replace those of the backend.

    Raises:
        RuntimeError: under TRITON_INTERPRET.
    """
    return _compiled(_source(x), capability, _options(x) | options)


def compile_launch(
    kernel: Any, args: tuple[Any, ...], constants: dict[str, Any], capability: int
) -> Usage:
    """Compile what a launch would compile, without launching; the tensors may be on the CPU.

    Args:
        kernel: a kernel of this package.
        args: the arguments of the launch: tensors, ints and floats.
        constants: the compile-time arguments of the launch, including options of the compiler.
        capability: the compute capability of the GPU, times 10.
    """
    from triton.compiler import ASTSource

    types: dict[str, str] = {}
    values = {name: x for name, x in constants.items() if name in kernel.arg_names}
    aligned: dict[tuple[int, ...], list[Any]] = {}
    for i, (parameter, x) in enumerate(zip(kernel.params, args, strict=False)):
        name = parameter.name
        if isinstance(x, Tensor):
            types[name] = _POINTERS[x.dtype]
            rounded = x.data_ptr() % 16 == 0 and not parameter.do_not_specialize_on_alignment
        else:
            types[name] = "fp32" if isinstance(x, float) else "i32"
            rounded = isinstance(x, int) and x % 16 == 0 and not parameter.do_not_specialize
            if isinstance(x, int) and x == 1 and not parameter.do_not_specialize:
                types[name], values[name] = "constexpr", 1
        if rounded:
            aligned[(i,)] = [["tt.divisibility", 16]]
    types |= {name: "constexpr" for name in values}
    options = {name: x for name, x in constants.items() if name not in values}
    return _compiled(ASTSource(kernel, types, values, aligned), capability, options)


def compile_launches() -> None:
    """The process of `launches_compiled`: compile what would be launched, and launch nothing."""
    from gendr.kernels.triton.launch import Launcher
    from support.launched import PROGRAMS

    warnings.simplefilter("error")
    program, cases, capabilities = json.loads(sys.argv[1])

    def compiled(self: Launcher, grid: tuple[int, ...], *args: Any) -> None:
        for capability in capabilities:
            usage = compile_launch(self.kernel, args, self.constants, capability)
            found = [self.kernel.fn.__name__, capability, asdict(usage)]
            sys.stdout.write(f"{json.dumps(found)}\n")

    Launcher.__call__ = compiled
    for case in cases:
        PROGRAMS[program](*case)


def launches_compiled(
    program: str, cases: Sequence[Any], capabilities: Sequence[int]
) -> list[tuple[str, int, Usage]]:
    """Compile what a program would launch: kernels with the arguments of real launches.

    Args:
        program: one of `support.launched`.
        cases: the arguments of its calls, of types that JSON knows.
        capabilities: the compute capabilities of GPUs, times 10.

    Returns:
        The name of the kernel, the capability and what the machine code uses: for each launch, in
        their order, and each capability.

    Raises:
        RuntimeError: if the program fails.
    """
    code = "from support.ahead_of_time import compile_launches; compile_launches()"
    request = json.dumps([program, cases, capabilities])
    run = run_python(code, request, env={"TRITON_INTERPRET": "0"})
    if run.returncode != 0:
        raise RuntimeError(f"the program failed:\n{run.stderr[-3000:]}")
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    return [(kernel, capability, Usage(**usage)) for kernel, capability, usage in rows]


def _compiled(source: Any, capability: int, options: dict[str, Any]) -> Usage:
    """Compile a source and return the resources of its machine code."""
    import triton
    from triton import knobs
    from triton.backends.compiler import GPUTarget

    target = GPUTarget("cuda", capability, 32)
    with tempfile.TemporaryDirectory() as folder, knobs.cache.scope():
        knobs.cache.dir = folder
        start = sum(os.times()[:4])
        kernel = triton.compile(source, target=target, options=options)
        seconds = sum(os.times()[:4]) - start
        code = kernel.asm["cubin"]
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(code)
        command = [knobs.nvidia.cuobjdump.path, "-res-usage", str(file)]
        report = subprocess.run(command, capture_output=True, text=True, check=True)
    used = dict(re.findall(r"\b(REG|STACK|LOCAL):(\d+)", report.stdout + report.stderr))
    local = int(used["STACK"]) + int(used["LOCAL"])
    return Usage(int(used["REG"]), local, kernel.metadata.shared, len(code), seconds)
