"""Graphs for others: `torch.export` and ONNX with a free batch; forward mode and Jacobians."""

import io
import re
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from gendr import distributions, logic, relaxed, soft, sorting, tnorms, topk
from gendr.transport import sinkhorn
from support.cases import for_each
from support.graphs import inductor

torch.manual_seed(0)
LISTS = (torch.randn(3, 4),)
PAIRS = (torch.randn(3, 3), torch.randn(3, 4))
NET = nn.Sequential(logic.LogicLayer(4, 6, seed=0), logic.GroupSum(2))
IMAGES = nn.Sequential(logic.LogicConv2d(1, 2, 3, depth=2, seed=0), logic.OrPool2d(2))
WORDS = (torch.randint(0, 3, (3, 2)), torch.randint(0, 3, (3, 3)))
SWEEPS = {"iterations": 30, "tolerance": 1e-13}
GRADED = (torch.randn(3, 4), torch.randint(0, 3, (3, 4)).float())
MASK = torch.tensor([[True, True, False, True]] * 2 + [[True] * 4])
PAIRWISE = (sorting.ApproxNDCG(), sorting.KendallLoss(), sorting.LambdaLoss(3), sorting.RankNet())
LISTWISE = (
    sorting.ListMLE(), sorting.ListNet(), sorting.NDCGLoss(), sorting.MRRLoss("softsort"),
    sorting.MAPLoss("softsort"), sorting.SpearmanLoss("permutahedron"),
)  # fmt: skip
METRICS = [getattr(sorting.metrics, name) for name in sorting.metrics.__all__]


def all_of(functions, *args, **options):
    return torch.stack([function(*args, **options) for function in functions], -1)


CASES = {
    **{
        f"sort {m}": (lambda x, m=m: sorting.soft_sort(x, m), LISTS)
        for m in ("bitonic", "neuralsort", "softsort", "permutahedron")
    },
    **{
        f"rank {m}": (lambda x, m=m: sorting.soft_rank(x, m), LISTS)
        for m in ("bitonic", "neuralsort", "softsort", "permutahedron")
    },
    "sort, doubles": (lambda x: sorting.soft_sort(x), (LISTS[0].double(),)),
    "rank, standardized": (lambda x: sorting.soft_rank(x, "softsort", standardize=True), LISTS),
    "rank, entropic": (
        lambda x: sorting.soft_rank(100 * x, "permutahedron", regularization="entropic"),
        LISTS,
    ),
    "quantile": (lambda x: sorting.soft_quantile(x, 0.3), LISTS),
    "quantile softsort": (lambda x: sorting.soft_quantile(x, 0.3, "softsort"), LISTS),
    "argquantile": (lambda x: sorting.soft_argquantile(x, 0.3, "softsort"), LISTS),
    "top-k": (lambda x: topk.soft_topk(x, 2).values, LISTS),
    "top-k, hard": (lambda x: topk.soft_topk(x, 2, hard=True).values, LISTS),
    "mask": (lambda x: topk.soft_topk_mask(x, 2), LISTS),
    "mask, small scale": (lambda x: topk.soft_topk_mask(x, 2, scale=1e-3), LISTS),
    "mask, hard": (lambda x: topk.soft_topk_mask(x, 2, "uniform", hard=True), LISTS),
    "mask, cauchy": (lambda x: topk.soft_topk_mask(x, 2, "cauchy"), LISTS),
    "path": (lambda c: relaxed.shortest_path(c), (torch.rand(3, 2, 3),)),
    "warping": (lambda a, b: relaxed.dynamic_time_warping(a, b), PAIRS),
    "soft-DTW": (lambda a, b: relaxed.soft_dtw(a, b, band=1), PAIRS),
    "levenshtein": (lambda s, t: relaxed.levenshtein(s, t), WORDS),
    "functions": (
        lambda x: soft.where(soft.greater(x, 0.1), soft.clamp(x, -1, 1), soft.round(x)),
        LISTS,
    ),
    "histogram": (lambda x: soft.histogram(x, 3, (-1.0, 1.0)), LISTS),
    "payload": (
        lambda x, p: sorting.soft_sort(x, payload=p).payload,
        (LISTS[0], torch.randn(3, 4, 2)),
    ),
    "top-k, payload": (
        lambda x, p: topk.soft_topk(x, 2, payload=p).payload,
        (LISTS[0], torch.randn(3, 4, 2)),
    ),
    "equal": (lambda x: soft.equal(x, 0.1, dist="cauchy"), LISTS),
    "histogram of all": (lambda x: soft.histogram(x, 3), LISTS),
    "losses of pairs": (lambda x, y: all_of(PAIRWISE, x, y), GRADED),
    "losses of pairs, masked": (lambda x, y, m: all_of(PAIRWISE, x, y, m), (*GRADED, MASK)),
    "loss by a network": (lambda x, y: sorting.NDCGLoss("bitonic", k=2)(x, y), GRADED),
    "losses of lists": (lambda x, y: all_of(LISTWISE, x, y), GRADED),
    "losses of lists, masked": (lambda x, y, m: all_of(LISTWISE, x, y, m), (*GRADED, MASK)),
    "metrics": (lambda x, y: all_of(METRICS, x, y), GRADED),
    "metrics, masked": (lambda x, y, m: all_of(METRICS, x, y, mask=m), (*GRADED, MASK)),
    "hard truth": (
        lambda x: (
            sorting.losses.permutation_matrix(x, "average").mT
            @ sorting.losses.hard_ranks(x)[..., None]
        ),
        LISTS,
    ),
    "top-k SVM": (lambda x, y: topk.SmoothTopKSVM(2)(x, y), (LISTS[0], torch.tensor([0, 3, 1]))),
    "T-norms": (
        lambda x: all_of(
            [tnorms.tnorm(t).reduce for t in ("max", "joe(p=2)")], (x + 2).clamp(0, 1)
        ),
        LISTS,
    ),
    "mask, far from 0": (lambda x: topk.soft_topk_mask(1e4 + x, 2, "uniform"), LISTS),
    "transport": (lambda c: sinkhorn(c, None, None, 1.0, **SWEEPS).plan, (torch.rand(3, 2, 4),)),
    "logic": (lambda x: NET.train()(x), (torch.rand(3, 4),)),
    "logic, images": (lambda x: IMAGES.eval()(x), (torch.rand(3, 1, 4, 4).round(),)),
    "logic, bits": (lambda x: NET.eval()(x), ((torch.rand(3, 4) > 0.5).float(),)),
}
# Without a form in ONNX that is asked for.
OTHERS = {
    **{
        f"rank {m}": (lambda x, m=m: sorting.soft_rank(x, m), LISTS)
        for m in ("odd_even", "odd_even_merge", "neuralsort", "sinkhorn")
    },
    "matrix": (lambda x: sorting.permutation(x, "bitonic", descending=True), LISTS),
    "sort, hard": (lambda x: sorting.soft_sort(x, hard=True), LISTS),
    "quantiles": (lambda x: sorting.soft_quantile(x, torch.tensor([0.1, 0.9])), LISTS),
    "attribution": (lambda x: topk.soft_topk(x, 2, "neuralsort").attribution, LISTS),
}
# What ONNX or its runtime has no word for: torch 2.13, onnxscript 0.7.2, ONNX Runtime 1.32.
LACKING = ("sort.stable", "cummax", "cummin", "searchsorted", "linalg", "igamma", "frexp")
LACKING += ("lgamma", "logcumsumexp", "logaddexp")  # whose forms in it end beyond 88


class Graph(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def made(name):
    """A module, its arguments, others of another batch, and what torch is told of the batch."""
    function, args = (CASES | OTHERS)[name]
    # The last has no differences: ties, which are -0.0 on one side.
    others = tuple(torch.cat([t, t.flip(0), t[:1], torch.full_like(t[:1], t.min())]) for t in args)
    free = (tuple({0: torch.export.Dim("batch", min=2)} for _ in args),)
    return Graph(function).eval(), args, others, free


@pytest.mark.graphs
@pytest.mark.filterwarnings("ignore")  # PyTorch's own
@for_each(
    "name, onnx", [*product(CASES, (False, True)), *((name, False) for name in OTHERS)], rotating=41
)
def test_graphs_take_any_batch(name, onnx, monkeypatch):
    """Also those for ONNX, of other operators than eager ones."""
    from torch.onnx._internal.exporter import _flags

    module, args, others, free = made(name)
    want = module(*others)
    monkeypatch.setattr(_flags, "_is_onnx_exporting", onnx)
    program = torch.export.export(module, args, dynamic_shapes=free)
    monkeypatch.setattr(_flags, "_is_onnx_exporting", False)
    if onnx:
        graphs = [
            m.graph for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)
        ]
        nodes = [node for graph in graphs for node in graph.nodes]
        assert nodes
        assert not [n for n in nodes if any(word in str(n.target) for word in LACKING)]
        angles = [node.meta["val"].dtype for node in nodes if "atan" in str(node.target)]
        assert torch.float64 not in angles  # its runtime has no such kernel
    within = 1e-4 if name in OTHERS else 1e-5
    torch.testing.assert_close(program.module()(*others), want, rtol=within, atol=within)


@for_each(name=CASES | OTHERS, rotating=4)
def test_shapes_are_found_without_values(name):
    """And nothing of what has none is kept for those that follow."""
    module, args, *_ = made(name)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        found = module(*map(mode.from_tensor, args))
    want = module(*args)
    assert type(want) is torch.Tensor
    assert (found.shape, found.dtype) == (want.shape, want.dtype)


@pytest.mark.graphs
@pytest.mark.filterwarnings("ignore")
@for_each(name=CASES, rotating=17)
def test_onnx_runtime_gives_what_torch_gives(name):
    for package in ("onnx", "onnxscript"):
        pytest.importorskip(package)
    runtime = pytest.importorskip("onnxruntime")
    module, args, others, free = made(name)
    file = io.BytesIO()
    torch.onnx.export(module, args, dynamo=True, dynamic_shapes=free, verbose=False).save(file)
    session = runtime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    given = zip(session.get_inputs(), others, strict=True)
    (found,) = session.run(None, {one.name: t.numpy() for one, t in given})
    np.testing.assert_allclose(found, module(*others).detach(), rtol=1e-5, atol=1e-5)


@inductor
@for_each(name=["rank bitonic", "matrix", "rank softsort", "logic"])
def test_aot_inductor_gives_what_torch_gives(name, tmp_path):
    module, args, others, free = made(name)
    program = torch.export.export(module, args, dynamic_shapes=free)
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "a.pt2"))
    found = torch._inductor.aoti_load_package(path)(*others)
    torch.testing.assert_close(found, module(*others), rtol=1e-5, atol=1e-5)


def test_ties_have_a_chance_of_a_half_in_the_form_that_onnx_has_of_angles(monkeypatch):
    """`findings/angle_of_minus_zero_in_onnx.sh`."""
    from torch.onnx._internal.exporter import _flags

    def exported(y, x):
        angle = torch.atan(y / x)
        return torch.where(x < 0, angle + torch.pi, angle)

    monkeypatch.setattr(torch, "atan2", exported)
    monkeypatch.setattr(_flags, "_is_onnx_exporting", True)
    for dtype in (torch.float32, torch.float64):
        z = torch.tensor([-1.0, -0.0, 0.0, 1.0], dtype=dtype)
        want = torch.tensor([0.25, 0.5, 0.5, 0.75], dtype=dtype)
        torch.testing.assert_close(distributions.get("cauchy").cdf(z), want)


@pytest.mark.graphs
def test_what_onnx_cannot_say_is_refused(monkeypatch):
    from torch.onnx._internal.exporter import _flags

    monkeypatch.setattr(_flags, "_is_onnx_exporting", True)
    with pytest.raises(RuntimeError, match="'sinkhorn' has no form in ONNX; export 'softsort'"):
        sorting.soft_sort(*LISTS, "sinkhorn")
    with pytest.raises(RuntimeError, match="gaussian has no form in ONNX; take logistic"):
        distributions.get("gaussian").icdf(LISTS[0].sigmoid())
    with pytest.raises(RuntimeError, match="gamma has no form in ONNX; take logistic"):
        distributions.get("gamma").cdf(LISTS[0])
    module = Graph(lambda x: topk.soft_topk_mask(x, 2, "gamma(shape=2)"))
    with pytest.raises(RuntimeError, match=r"no graph for torch.export; take logistic"):
        torch.export.export(module, LISTS)
    with pytest.raises(RuntimeError, match=r"no graph for torch.export; export soft_dtw"):
        torch.export.export(Graph(relaxed.soft_dtw_alignment), PAIRS)


# -- derivatives

SHAPES = {name: {"shape": 2.0} for name in ("gamma", "student_t", "power")}
CURVED = {
    **{
        name: case
        for name, case in CASES.items()
        if name not in ("levenshtein", "logic, bits", "logic, images")
    },
    **{
        f"T-conorm {name}": (lambda x, name=name: tnorms.tconorm(name)(x.sigmoid(), 0.3), LISTS)
        for name in ("max", "average", "probabilistic", "yager(p=2)")
    },
    "T-norm": (lambda x: tnorms.tnorm("max")(x.sigmoid(), 0.3), LISTS),
    **{
        f"distribution {name}": (
            lambda x, n=name: distributions.get(n, **SHAPES.get(n, {}))(x, 0.5),
            LISTS,
        )
        for name in ("logistic", "gamma", "student_t", "power")
    },
    "mask, gamma": (lambda x: topk.soft_topk_mask(x, 2, "gamma(shape=2)"), LISTS),
    "alignment": (lambda a, b: relaxed.soft_dtw_alignment(a, b), PAIRS),
    "sort sinkhorn": (lambda x: sorting.soft_sort(x, "sinkhorn"), LISTS),
    "sort sinkhorn, learnt": (
        lambda x: sorting.soft_sort(x, "sinkhorn", steepness=x[0, 0].exp()),
        LISTS,
    ),
    "MAP": (lambda x: sorting.MAPLoss()(x, (x.detach() > 0).to(x.dtype)), LISTS),
}


def right_or_refused(find, want):
    """Compare them; an error must be ours and say what works instead."""
    try:
        found = find()
    except RuntimeError as error:
        if not re.search("(is not made for .*; |; give it a batch instead)", str(error)):
            raise
        return
    torch.testing.assert_close(found, want)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # PyTorch's own
@for_each(name=CURVED, rotating=15)
def test_forward_mode_and_jacobians_are_right_or_refused(name):
    function, args = CURVED[name]
    x, *rest = (t.double() if t.is_floating_point() else t for t in args)
    if name == "logic":
        function = nn.Sequential(logic.LogicLayer(4, 6, seed=0, dtype=torch.float64))

    def of(x):
        return function(x, *rest)

    jacobian = torch.autograd.functional.jacobian(of, x)
    tangent = torch.randn_like(x)
    pushed = (jacobian * tangent).flatten(jacobian.ndim - x.ndim).sum(-1)
    torch.testing.assert_close(torch.func.jacrev(of)(x), jacobian)
    right_or_refused(lambda: torch.func.vmap(torch.func.jacrev(of))(x[None])[0], jacobian)
    right_or_refused(lambda: torch.func.jvp(of, (x,), (tangent,))[1], pushed)
    right_or_refused(lambda: torch.func.jacfwd(of)(x), jacobian)
    for strategy in ("reverse-mode", "forward-mode"):
        right_or_refused(
            lambda s=strategy: torch.autograd.functional.jacobian(
                of, x, vectorize=True, strategy=s
            ),
            jacobian,
        )
