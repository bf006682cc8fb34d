"""What modules and caches keep: nothing knows the mode it was made in."""

import copy
import importlib
import io
import pickle
import pkgutil
from contextlib import nullcontext, suppress

import numpy as np
import pytest
import torch

import gendr
from gendr import Mesh, losses, optim, relaxed, sorting
from gendr.logic import Binarize, GroupSum, LogicConv2d, LogicLayer, OrPool2d, Thermometer
from gendr.mesh import icosphere
from gendr.relaxed.estimators import (
    ContrastiveLoss,
    FenchelYoungLoss,
    PerturbationGradientLoss,
    SmoothedLoss,
    SolutionRankingLoss,
    SPOPlusLoss,
)
from gendr.topk import SmoothTopKSVM, SoftTopK, SoftTopKMask, TopKCrossEntropy
from lab import resnet
from lab.reconstruction import model
from lab.reconstruction.ranks import GlobalBatchNorm2d, Ranks
from lab.studies import classification
from lab.studies.convolution import ConvolutionNet
from lab.studies.newton import DigitsNet
from lab.studies.path_networks import CostNet, PathNet
from lab.studies.ranking import RankingNet
from support.operators import graded_after
from support.processes import run_python

# In a process of its own, whose caches the mode fills.
INFERENCE = """
import sys, torch
from support.operators import graded_after

torch.save(graded_after(torch.inference_mode), sys.argv[1])
"""


def test_what_ran_first_in_inference_mode_can_be_trained(tmp_path):
    run_python(INFERENCE, tmp_path / "results", check=True)
    found, wanted = torch.load(tmp_path / "results"), graded_after(nullcontext)
    for name, results in wanted.items():
        assert not isinstance(found[name], str), f"{name}: {found[name]}"
        for a, b in zip(found[name], results, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7, msg=name)


def squares(x, *args):
    return np.square(x).sum()


def examples():
    """An example of every module: (a function that makes it, the inputs of a call)."""

    def rand(*shape):
        return torch.rand(shape)

    def labels(high, *shape):
        return torch.randint(high, shape)

    ball, camera = icosphere(0), gendr.look_at(2.7, 20.0, 30.0)

    images = rand(3, 1, 8, 8)
    return {
        resnet.BasicBlock: [(lambda: resnet.BasicBlock(3, 4, 2), rand(2, 3, 4, 4))],
        classification.ResNet18: [(lambda: classification.ResNet18(1, 3), rand(2, 1, 8, 8))],
        ConvolutionNet: [(lambda: ConvolutionNet((1, 8, 8), (2, 3)), images)],
        DigitsNet: [(lambda: DigitsNet((1, 4, 8)), rand(2, 1, 4, 8))],
        CostNet: [(lambda: CostNet((2, 2)), rand(2, 3, 16, 16))],
        PathNet: [(lambda: PathNet((2, 2)), rand(2, 3, 16, 16))],
        RankingNet: [(lambda: RankingNet((1, 8, 8), (2, 3)), images)],
        gendr.SmoothParametrization: [(lambda: gendr.SmoothParametrization(ball, 0.7),)],
        LogicConv2d: [(lambda: LogicConv2d(1, 2, 3, depth=2, seed=0), images)],
        GroupSum: [(lambda: GroupSum(2), rand(3, 4))],
        LogicLayer: [
            (lambda: LogicLayer(8, 6, seed=0), rand(3, 8)),
            (lambda: LogicLayer(8, 6, wiring="learnable", seed=0), rand(3, 8)),
        ],
        OrPool2d: [(lambda: OrPool2d(2), images)],
        Thermometer: [(lambda: Thermometer([0.2, 0.6], learnable=True), rand(3, 4))],
        Binarize: [(lambda: Binarize(0.4), rand(3, 4))],
        losses.FlattenLoss: [(lambda: losses.FlattenLoss(ball.faces), rand(12, 3))],
        losses.LaplacianLoss: [(lambda: losses.LaplacianLoss(ball.faces), rand(12, 3))],
        optim.SigmoidBinaryCrossEntropy: [
            (optim.SigmoidBinaryCrossEntropy, rand(3, 4), rand(3, 4))
        ],
        optim.BinaryCrossEntropy: [(optim.BinaryCrossEntropy, rand(3, 4), rand(3, 4))],
        optim.SoftmaxCrossEntropy: [(optim.SoftmaxCrossEntropy, rand(3, 4), labels(4, 3))],
        optim.NewtonLoss: [
            (lambda: optim.NewtonLoss(optim.SoftmaxCrossEntropy()), rand(3, 4), labels(4, 3))
        ],
        optim.RESGRO: [(lambda: optim.RESGRO(squares, 3, 4), rand(2, 4))],
        optim.SplitPoint: [(lambda: optim.SplitPoint(optim.GradientStep()), rand(2, 4))],
        model.NoEncoder: [(model.NoEncoder, rand(2, 4, 8, 8))],
        model.Encoder: [(lambda: model.Encoder(8), rand(9, 4, 8, 8))],
        model.ResidualEncoder: [(lambda: model.ResidualEncoder(8), rand(2, 4, 16, 16))],
        model.Decoder: [(lambda: model.Decoder(ball), rand(2, model.CODE))],
        model.Reconstructor: [
            (lambda: model.Reconstructor(side=8, subdivisions=0), rand(2, 4, 8, 8))
        ],
        GlobalBatchNorm2d: [(lambda: GlobalBatchNorm2d(3, Ranks()), rand(2, 3, 4, 4))],
        FenchelYoungLoss: [
            (
                lambda: FenchelYoungLoss(np.sign, minimize=False, workers=2, seed=0),
                rand(2, 4),
                rand(2, 4),
            )
        ],
        PerturbationGradientLoss: [
            (lambda: PerturbationGradientLoss(np.sign, minimize=False), rand(2, 4), rand(2, 4)),
        ],
        SPOPlusLoss: [
            (lambda: SPOPlusLoss(np.sign, minimize=False), rand(2, 4), rand(2, 4)),
        ],
        ContrastiveLoss: [
            (lambda: ContrastiveLoss(np.sign, minimize=False), rand(2, 4), rand(2, 4)),
        ],
        SolutionRankingLoss: [
            (lambda: SolutionRankingLoss(np.sign, minimize=False), rand(2, 4), rand(2, 4)),
        ],
        SmoothedLoss: [(lambda: SmoothedLoss(squares, workers=2), rand(2, 4))],
        gendr.Renderer: [
            (lambda: gendr.Renderer(6), ball, camera),
            (
                lambda: gendr.Renderer(
                    6, "gamma(shape=0.5)", "yager(p=2)",
                    learnable=("scale", "shape", "p", "gamma"), background=(0.1, 0.2, 0.3),
                ), ball, camera,
            ),
        ],
        sorting.SoftSorter: [
            (lambda: sorting.SoftSorter("bitonic"), rand(3, 5)),
            (lambda: sorting.SoftSorter("softsort", steepness=torch.tensor(3.0)), rand(3, 5)),
        ],
        sorting.SoftSort: [(lambda: sorting.SoftSort("odd_even", learnable=True), rand(3, 5))],
        sorting.SoftRank: [(lambda: sorting.SoftRank("softsort", learnable=True), rand(3, 5))],
        sorting.SoftQuantile: [(lambda: sorting.SoftQuantile(0.3, "softsort"), rand(3, 5))],
        relaxed.ShortestPath: [(lambda: relaxed.ShortestPath(steepness=4.0), rand(2, 3, 3))],
        sorting.SoftPermutation: [(lambda: sorting.SoftPermutation(hard=True), rand(3, 5))],
        sorting.NDCGLoss: [(lambda: sorting.NDCGLoss(k=2), rand(3, 5), labels(4, 3, 5))],
        sorting.MAPLoss: [(sorting.MAPLoss, rand(3, 5), labels(4, 3, 5))],
        sorting.SpearmanLoss: [(sorting.SpearmanLoss, rand(3, 5), labels(4, 3, 5))],
        sorting.KendallLoss: [(sorting.KendallLoss, rand(3, 5), labels(4, 3, 5))],
        sorting.LambdaLoss: [(sorting.LambdaLoss, rand(3, 5), labels(4, 3, 5))],
        sorting.MRRLoss: [(sorting.MRRLoss, rand(3, 5), labels(2, 3, 5))],
        sorting.ListNet: [(sorting.ListNet, rand(3, 5), rand(3, 5))],
        sorting.RankNet: [(sorting.RankNet, rand(3, 5), labels(4, 3, 5))],
        sorting.ApproxNDCG: [(sorting.ApproxNDCG, rand(3, 5), labels(4, 3, 5))],
        sorting.OrdinalLoss: [(sorting.OrdinalLoss, rand(3, 5, 4), labels(4, 3, 5))],
        sorting.ListMLE: [(lambda: sorting.ListMLE(k=2), rand(3, 5), labels(4, 3, 5))],
        SoftTopK: [(lambda: SoftTopK(2, learnable=True), rand(3, 5))],
        SoftTopKMask: [(lambda: SoftTopKMask(2, "cauchy", learnable=True), rand(3, 5))],
        TopKCrossEntropy: [
            (lambda: TopKCrossEntropy([0.5, 0.5], m=3), rand(3, 5), labels(5, 3)),
            (lambda: TopKCrossEntropy([0.5, 0.5], weight=rand(5)), rand(3, 5), labels(5, 3)),
        ],
        SmoothTopKSVM: [(lambda: SmoothTopKSVM(2), rand(3, 5), labels(5, 3))],
    }  # fmt: skip


def all_of(base):
    """The classes of the package that derive from a base."""
    for module in pkgutil.walk_packages(gendr.__path__, "gendr."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):  # of an extra, or of what runs on a GPU only
                importlib.import_module(module.name)
    found, todo = set(), [base]
    while todo:
        todo += todo.pop().__subclasses__()
        found.update(todo)
    return {cls for cls in found if cls.__module__.startswith("gendr.")}


def leaf(x):
    """An input with a gradient, if it is one that can have it."""
    floating = isinstance(x, torch.Tensor) and x.is_floating_point()
    return x.clone().requires_grad_() if floating else x


def result(module, inputs):
    """The result of a call, and the gradients of the parameters."""
    torch.manual_seed(0)
    out = module(*map(leaf, inputs))
    if isinstance(out, gendr.Output):
        out = torch.cat([out.alpha[:, None], out.rgb], 1)
    out = out.values if isinstance(out, sorting.Sorted) else out
    found, own = [], [p for p in module.parameters() if p.requires_grad]
    if own and out.requires_grad:
        found = torch.autograd.grad(out.sum(), own, allow_unused=True)
    return [out.detach(), *(x for x in found if x is not None)]


# Millions of parameters in layers of PyTorch, and nothing else.
LARGE = {classification.ResNet18, PathNet, model.ResidualEncoder, model.Reconstructor}


def test_every_module_is_copied_pickled_loaded_moved_and_shared(request, drawn):
    made = examples()
    ours = {cls for cls in made if cls.__module__.startswith("gendr.")}
    bases = {cls for cls in all_of(torch.nn.Module) if cls.__name__.startswith("_")} - ours
    abstract = {"Neurons", "OfAKind", "RankingLoss", "SolverLoss"}
    bases |= {cls for cls in all_of(torch.nn.Module) if cls.__name__ in abstract}
    assert all_of(torch.nn.Module) == {*ours, *bases}
    for cls, cases in drawn(made.items(), 2):
        if cls in LARGE and not request.config.getoption("--every"):
            continue
        for make, *inputs in cases:
            module, name = make(), cls.__name__
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.add_(0.01 * torch.rand_like(parameter))
            result(module, inputs)  # it keeps what it keeps
            copied = copy.deepcopy(module)
            pickled = pickle.loads(pickle.dumps(module))
            loaded = make()
            loaded.load_state_dict(torch.load(io.BytesIO(saved(module))))
            for key, value in vars(module).items():
                if isinstance(value, torch.Generator):  # which is no part of the state
                    getattr(loaded, key).set_state(value.get_state())
            shared = copy.deepcopy(module).share_memory()
            want = result(module, inputs)
            for other in (copied, pickled, loaded, shared):
                assert type(other) is cls
                torch.testing.assert_close(result(other, inputs), want, rtol=0, atol=0, msg=name)
            assert all(p.is_shared() for p in shared.parameters())
            wide = copied.to(torch.float64)
            given = [
                x if getattr(x, "dtype", 0) is torch.int64 else x.to(torch.float64) for x in inputs
            ]
            found = result(wide, given)[0]
            if cls not in (FenchelYoungLoss, SmoothedLoss, optim.RESGRO):  # which draw others then
                torch.testing.assert_close(found.float(), want[0], rtol=1e-3, atol=1e-4, msg=name)


def saved(module):
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    return file.getvalue()


def test_optimisers_are_copied_pickled_and_loaded():
    def adam(net):
        return optim.UniformAdam(net.parameters(), lr=0.1)

    makes = {
        optim.UniformAdam: adam,
        optim.SplitOptimizer: lambda net: optim.SplitOptimizer(adam(net), optim.GradientStep()),
    }
    # The last holds a mesh of its own: tests/photos/fitting/test_remeshing.py.
    assert all_of(torch.optim.Optimizer) == {*makes, gendr.RemeshingAdam}
    x, target = torch.rand(5, 3), torch.rand(5, 2)

    def stepped(net, optimizer):
        optimizer.zero_grad()
        (net(x) - target).square().sum().backward()
        optimizer.step()
        return [p.detach().clone() for p in net.parameters()]

    for cls, make in makes.items():
        net = torch.nn.Linear(3, 2)
        optimizer = make(net)
        stepped(net, optimizer)
        copies = [copy.deepcopy((net, optimizer)), pickle.loads(pickle.dumps((net, optimizer)))]
        other = copy.deepcopy(net)
        loaded = make(other)
        loaded.load_state_dict(torch.load(io.BytesIO(saved(optimizer))))
        want = stepped(net, optimizer)
        for again, its in (*copies, (other, loaded)):
            assert type(its) is cls
            assert all(map(torch.equal, stepped(again, its), want))


def test_what_cannot_be_copied_or_loaded_says_so():
    out = gendr.Renderer(6)(icosphere(0), gendr.look_at(2.7, 20.0, 30.0))
    for attempt in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"an Output can be neither copied nor .*rgb.detach"):
            attempt(out)
    state = gendr.SmoothParametrization(icosphere(0), 0.7).state_dict()
    with pytest.raises(ValueError, match=r"smoothness 0\.7, this parametrization has 2;"):
        gendr.SmoothParametrization(icosphere(0)).load_state_dict(state)
    turned = Mesh(icosphere(0).vertices, icosphere(0).faces.flip(0))
    with pytest.raises(ValueError, match="a mesh with other faces"):
        gendr.SmoothParametrization(turned, 0.7).load_state_dict(state)
    half = gendr.SmoothParametrization(icosphere(0)).double()
    assert half.start.dtype == half.mesh().dtype == torch.float64


def test_weights_of_places_that_are_assigned_count():
    logits, target = torch.rand(3, 5), torch.tensor([0, 4, 1])
    for first in ([1.0], [0.8, 0.2]):
        loss = TopKCrossEntropy(first)
        loss(logits, target)
        loss.p_k = torch.tensor([0.3, 0.7])  # as new as the first one was
        want = TopKCrossEntropy([0.3, 0.7])(logits, target)
        torch.testing.assert_close(loss(logits, target), want)
