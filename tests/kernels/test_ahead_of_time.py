"""Triton's kernels of every system compile for GPUs that need not be there, and spill nothing."""

import random
from collections import Counter
from itertools import product

import pytest

pytest.importorskip("triton", reason="Triton has no wheels for this platform")

from gendr import tnorms
from gendr.distributions import standard_distributions
from support.ahead_of_time import CAPABILITIES, launches_compiled

LANES = "gates gates_gradients carry_lanes carry_lanes_gradients"
BOUNDARIES = ("wrap", "clamp", "zero", "cube")
FILTERS = ("nearest", "linear", "linear-mipmap-nearest", "linear-mipmap-linear")
ORDERED = "join_layers part_layers layer_gradients"
LISTED = "face_tables count_faces prefix_chunks scan_tiles fill_lists"
PIECES = "count_pieces list_pieces"


def members():
    """Every distribution and every family of T-conorms once, with all that can be learnt."""
    for dist in standard_distributions().values():
        law = dist.examples()[0]
        yield str(law), "probabilistic", ["scale", *(["shape"] if law.shape_parameter else [])]
    for name in tnorms.names():
        conorm = tnorms.family(name).examples()[0]
        yield "uniform", str(conorm), ["scale", *(["p"] if conorm.given_p else [])]


# By the program of `support.launched`: its arguments, and the kernels that it launches, or those
# among them that the bounds are of; the most bytes of local memory and the most registers.
#
# With 168 registers three programs of four warps share the 65,536 of a multiprocessor. A projection
# of 1,000 values has eight warps: with 129 to 255 registers a multiprocessor works on one row. Two
# rows would need at most 128, and held to those, or to 168, it spills 8 to 536 bytes a thread; of
# twice as many warps one row fits with 128, and it spills still.
# Entropic values spill up to 48 as it is.
SYSTEMS = {
    "selection": (
        [(("laplace", 1000), "losses mask mask_back"),
         (("gamma(shape=2)", 33), "losses mask mask_back")], 0, 255,
    ),
    # Rows that are aligned and rows that are not; the candidates of a top-k loss.
    "comparators": (
        [(("cauchy", "bitonic", [1024], None), "gates gates_gradients carry carry_gradients"),
         (("logistic.art(0.25)", "bitonic", [33], 3), LANES),
         (("cauchy", "splitter", [16, 5], 1), LANES)], 0, 168,
    ),
    "projections": (
        [(("l2", 1000), "project project_gradients " * 3),
         (("entropic", 33), "project project_gradients " * 2)], 0, 255,
    ),
    # Rows that are aligned and rows that are not, one row, the most inputs, half precision.
    "gates": (
        [(case, "gates tables_gradients features_gradients") for case in (
            (2, 100, "float32"), (2, 1, "float32"), (1, 512, "float16"), (6, 256, "bfloat16")
        )], 0, 128,
    ),
    "primitives": (
        [(case, "") for case in (
            ("float32", "rasterize"), ("float64", "rasterize"), ("float32", "layers"),
            ("float32", "interpolate"), ("float64", "interpolate"),
            ("float32", "antialias"), ("float64", "antialias"),
            *(("float32", *modes) for modes in product(BOUNDARIES, FILTERS)),
            ("float64", "cube", "linear-mipmap-linear"),
        )], 16, 255,
    ),
    "triangles": (
        [((1, "px"), "project_triangles project_backward"),
         ((16, "inradius"), "project_triangles project_backward")], 0, 255,
    ),
    "layers": (
        [(case, ORDERED) for case in (
            ("power(shape=1)", "probabilistic", "pixel", 3),
            ("logistic", "probabilistic", "centroid", 3),
            ("gamma(shape=2)", "yager(p=2)", "pixel", 5),
            ("uniform", "max", "centroid", 1),
            ("cauchy", "average", "pixel", 2),
        )], 16, 168,
    ),
    # Float64 as default changes no kernel.
    # Small faces and few pixels; lists and pieces, for the tiles of large images; what is learnt.
    "rendered": (
        [(("uniform", "probabilistic", ["scale"]),
          "depth_ranges project_faces face_tables alpha_tiles face_tables softmax_tiles "
          "softmax_gradients alpha_gradients project_gradients"),
         (("logistic", "probabilistic", [], 768, 2),
          f"depth_ranges project_faces {LISTED} alpha_tiles join_segments {LISTED} softmax_tiles "
          f"{PIECES} softmax_gradients join_pieces {PIECES} alpha_gradients join_pieces "
          "project_gradients"),
         (("logistic", "yager(p=2)", ["scale", "p"], 16, 2),
          f"depth_ranges project_faces {LISTED} alpha_tiles join_segments {LISTED} softmax_tiles "
          "softmax_gradients alpha_gradients through_totals project_gradients")], 0, 255,
    ),
    # Four programs of 128 threads share a multiprocessor.
    "screen": (
        [(("uniform", "probabilistic", 768),
          f"face_tables alpha_tiles {PIECES} alpha_gradients join_pieces"),
         *((case, "face_tables alpha_tiles alpha_gradients")
           for case in (("logistic", "yager(p=2)", 32), ("heaviside", "max", 32)))], 0, 128,
    ),
    "members": ([(case, "") for case in members()], 16, 255),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.rotating(10, group="compiled ahead")
@pytest.mark.parametrize("program", SYSTEMS)
def test_kernels_compile_and_spill_nothing(program, request, seed):
    """One case for one architecture; with --every, all for both."""
    (cases, local, registers), capabilities = SYSTEMS[program], CAPABILITIES
    if not request.config.getoption("--every"):
        draw = random.Random(seed).choice
        cases, capabilities = [draw(cases)], [draw(CAPABILITIES)]
    for case, kernels in cases:
        called = "rendered" if program == "members" else program
        found = launches_compiled(called, [case], capabilities)
        counted = [x for x in found if program != "layers" or x[0] in ORDERED.split()]
        wanted = Counter(kernels.split() * len(capabilities))
        assert found
        assert not wanted or Counter(name for name, *_ in counted) == wanted, case
        for *what, usage in counted:
            assert usage.size > 0, (case, what)
            assert usage.local <= local, (case, what)
            assert 0 < usage.registers <= registers, (case, what)
