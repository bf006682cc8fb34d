"""One word for each thing: the public signatures have no other, and functions convert others."""

import inspect
import sys
import warnings

import pytest
import torch

import gendr
from building import site
from gendr import relaxed, sorting, topk
from gendr._common.words import BANNED, WORDS, translated
from gendr.logic import GroupSum, LogicLayer
from gendr.optim import RESGRO
from gendr.relaxed import estimators
from support.cases import for_each

# Words that mean another thing there, or that the contract has.
ELSEWHERE = {
    ("GroupSum", "tau"),  # the contract
    ("Sums", "tau"),
    ("GroupSum", "beta"),  # what is added to sums, in the paper
    ("Sums", "beta"),
    ("Renderer", "eps"),  # the weight of the background, in the paper
    ("sinkhorn", "epsilon"),  # the weight of the entropy, in the papers; nothing is compared
    ("sinkhorn_divergence", "epsilon"),
    ("UniformAdam", "eps"),  # of Adam
    ("uniform_adam_step", "eps"),
}
# Names of functions that list members, all of which are called `names`.
LISTS = {"methods", "estimators", "kinds", "members"}
# Scales of triangles or factors rather than of one decision, or with "auto"; results.
OWN_SCALE = {"Look", "SplatSettings", "Splats", "FitSettings", "TrainingSettings"}


def walked():
    """The public functions and classes: (path, object, parameters)."""
    for name in site.public_modules():
        for each in sys.modules[name].__all__ if name.startswith("gendr") else ():
            value = getattr(sys.modules[name], each)
            try:
                parameters = inspect.signature(value).parameters if callable(value) else None
            except ValueError:  # of builtins that give theirs away to nobody
                continue
            if parameters is not None and not inspect.ismodule(value):
                yield f"{name}.{each}", value, parameters


def test_signatures_have_one_word_for_a_thing():
    found = list(walked())
    assert len(found) > 300
    assert {"tnorm", "maximize", "temperature", "tau", "strength"} <= BANNED
    wrong = [
        f"{path}({name})"
        for path, _, parameters in found
        for name in parameters
        if name in BANNED and (path.rpartition(".")[2], name) not in ELSEWHERE
    ]
    wrong += [path for path, *_ in found if path.rpartition(".")[2] in LISTS]
    for path, _, parameters in found:
        wrong += [
            f"{path}: {word} and {other}"
            for word, others in WORDS.items()
            for other in others
            if {word, other} <= {*parameters} and (path.rpartition(".")[2], other) not in ELSEWHERE
        ]
    assert not wrong, f"second words: {wrong}; see docs/words.md"


PAIRS = {"steepness": "scale", "scale": "steepness", "descending": "largest",
         "largest": "descending", "tconorm": "tnorm", "minimize": "maximize"}  # fmt: skip


def test_every_function_knows_the_other_word():
    """A nonsensical value is looked at before the other arguments, so that none are needed."""
    seen = set()
    for path, value, parameters in walked():
        name = path.rpartition(".")[2]
        if name in OWN_SCALE or "dist" not in parameters:
            continue
        for word in ("steepness", "scale"):
            if word in parameters and parameters[word].kind is not parameters[word].POSITIONAL_ONLY:
                with pytest.raises(TypeError, match=f"{PAIRS[word]} must be a number or a tensor"):
                    value(**{PAIRS[word]: []})
                seen.add(name)
    assert {"Renderer", "silhouette", "soft_topk_mask", "shortest_path", "relax"} <= seen
    assert len(seen) >= 18, seen


X = torch.tensor([0.3, -1.2, 2.5, 0.9], dtype=torch.float64)


def program(x):
    return x if x > 0 else -x


SOFT = gendr.relax(program)


@for_each(
    both=[
        lambda **s: sorting.soft_sort(X, "softsort", **s),
        lambda **s: sorting.soft_rank(X, "neuralsort", **s),
        lambda **s: sorting.SoftPermutation("softsort", **s)(X),
        lambda **s: topk.soft_topk(X, 2, "softsort", **s).values,
        lambda **s: topk.SoftTopK(2, method="softsort", **s)(X),
        lambda **s: topk.soft_topk_mask(X, 2.0, **s),
        lambda **s: SOFT(X, **s),
        lambda **s: sorting.KendallLoss(**s)(X, X.flip(0)),
        lambda **s: sorting.LambdaLoss(**s)(X, X.flip(0).abs()),
        lambda **s: topk.SmoothTopKSVM(1, **s)(X[None], torch.tensor([1])),
        lambda **s: relaxed.bubble_sort(X, backend="reference", **s).values,
    ]
)  # fmt: skip
def test_scale_and_steepness_are_inverses_everywhere(both):
    steepness = torch.tensor(4.0, dtype=torch.float64) if both(steepness=4.0).ndim else 4.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(both(steepness=steepness), both(scale=1 / steepness))
    with pytest.raises(TypeError, match="give one"):
        both(scale=1.0, steepness=1.0)
    with pytest.raises(ValueError, match="must be > 0"):
        both(scale=-1.0)
    with pytest.raises((TypeError, ValueError), match="must be > 0"):
        both(steepness=-1.0)


def test_gradients_reach_the_other_word():
    scale = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: sorting.soft_sort(X, "softsort", scale=s), scale)


def test_the_error_of_a_wrong_word_names_the_conversion():
    for word, message in (
        ("temperature", "steepness = 1 / temperature"),
        ("tau", "steepness = 1 / tau"),
        ("sharpness", "steepness = sharpness"),
    ):
        with pytest.raises(TypeError, match=f"no setting '{word}'; {message}; it has"):
            sorting.soft_sort(X, "softsort", **{word: 1.0})
    with pytest.raises(TypeError, match="scale = temperature; it has"):
        SOFT(X, temperature=1.0)
    with pytest.raises(TypeError, match="tconorm = conorm; it has"):
        gendr.Renderer(conorm="max")
    with pytest.raises(TypeError, match="steepnes'; it has: backend"):
        relaxed.bubble_sort(X, steepnes=1.0)
    with pytest.raises(TypeError, match="minimize = not maximize; it has"):
        RESGRO(torch.sum, 2, maximize=True)
    with pytest.raises(TypeError, match="step = strength; it has"):
        estimators.BlackBox(strength=3.0, minimize=True)


def test_words_that_papers_have_are_taken():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert topk.SmoothTopKSVM(2, tau=0.5).scale == 0.5
        assert sorting.LambdaLoss(sigma=2.0).steepness == 2.0
        assert GroupSum(2, scale=3.0).tau == GroupSum(2, temperature=3.0).tau == 3.0
        layer = LogicLayer(4, 4, temperature=2.0, tnorm="hamacher(p=2)")
        assert layer.scale == 2
        assert str(layer.tconorm) == "hamacher(p=2)"
        down = sorting.soft_sort(X, "softsort", steepness=9.0, descending=True)
        torch.testing.assert_close(
            sorting.soft_sort(X, "softsort", steepness=9.0, largest=True), down
        )
        low = topk.soft_topk(X, 2, "softsort", descending=False).values
        torch.testing.assert_close(low, topk.soft_topk(X, 2, "softsort", largest=False).values)


def test_a_program_keeps_its_own_words():
    @gendr.relax
    def own(x, steepness):
        return x * steepness if x > 0 else x

    assert own(X, 2.0, scale=1e-6)[0] == own(X, steepness=2.0, scale=1e-6)[0] == 0.6
    want = SOFT(X, scale={"default": 0.5})
    torch.testing.assert_close(SOFT(X, steepness={"default": 2.0}), want)
    assert SOFT.hard(-2.0) == 2.0
    with pytest.raises(TypeError, match=r"steepness\['a'\] must be a number"):
        translated("it", ("scale",), {"steepness": {"a": "b"}})
