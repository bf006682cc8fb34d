"""The functions and the module that users call: options, orders, hard results, errors."""

import functools
import math

import pytest
import torch
from scipy.optimize import isotonic_regression

from gendr.sorting import (
    PermutationSort,
    SoftSorter,
    get,
    names,
    odd_even,
    permutation,
    soft_rank,
    soft_sort,
)
from gendr.sorting.losses import hard_ranks
from support.cases import for_each

# "network" needs a network of the user's, which fixes n.
NAMES = [name for name in names() if name != "network"]
WITH_P = [name for name in NAMES if isinstance(get(name), PermutationSort)]
NETWORKS = ("bitonic", "odd_even", "odd_even_merge")
KEYS = torch.tensor([[0.3, -1.2, 2.5, 0.9, 0.1], [1.0, 0.0, -1.0, 5.0, 3.0]])


def soft(name):
    """Soft enough that nothing is saturated."""
    return get(name, steepness=1.5)


def test_all_methods_are_known():
    expected = {"bitonic", "odd_even", "odd_even_merge", "network", "neuralsort", "softsort"}
    assert set(names()) == expected | {"sinkhorn", "permutahedron"}
    for name in names():
        assert (get(name) if name != "network" else get(name, network=odd_even(3))).name == name


def test_a_method_takes_new_settings():
    one = get("odd_even", steepness=3.0, art=0.2)
    two = get(one, steepness=7.0)
    assert (two.steepness, two.art) == (7.0, 0.2)
    assert one.steepness == 3.0
    torch.testing.assert_close(
        soft_sort(KEYS, one, steepness=7.0), soft_sort(KEYS, "odd_even", steepness=7.0, art=0.2)
    )


def test_functions_and_module_agree():
    for name in NAMES:
        out = SoftSorter(name, steepness=1.5)(KEYS)
        assert torch.equal(out.values, soft_sort(KEYS, name, steepness=1.5))
        assert torch.equal(out.ranks, soft_rank(KEYS, name, steepness=1.5))
        if name in WITH_P:
            assert torch.equal(out.permutation, permutation(KEYS, name, steepness=1.5))
        assert out.values is out.values  # computed once


def test_descending_is_the_ascending_order_of_the_negative():
    entropic = get("permutahedron", steepness=1.5, regularization="entropic")
    for method in (*map(soft, NAMES), entropic):
        sorter = SoftSorter(method, descending=True)
        for mask in (None, torch.tensor([[True, False, True, True, True], [True] * 5])):
            down, up = sorter(KEYS, mask=mask), SoftSorter(method)(-KEYS, mask=mask)
            torch.testing.assert_close(down.values, -up.values)
            torch.testing.assert_close(down.ranks, up.ranks)
            if isinstance(method, PermutationSort):
                torch.testing.assert_close(down.permutation, up.permutation)
                values = (down.permutation @ KEYS[..., None])[..., 0]
                torch.testing.assert_close(values, down.values, rtol=1e-4, atol=1e-4)
    down, up = (soft_rank(KEYS, entropic, descending=d) for d in (True, False))
    assert float((6 - down - up).abs().max()) > 1e-3  # not the same as to turn ranks round


RANKING = [get("neuralsort"), get("softsort"), get("softsort", power=2.0),
           get("softsort", power=1.5), get("sinkhorn"), get("permutahedron")]  # fmt: skip


@for_each(method=[*map(get, NETWORKS), *RANKING, get("permutahedron", regularization="entropic"),
                  *(get(name, dist="logistic", art=0.25) for name in NETWORKS)],
          rotating=3)  # fmt: skip
def test_ranks_of_random_lists_are_ranks(method):
    """They rise, lie in [1, m] and turn round with x, also of the m values that are present."""
    for rows, n, steepness, scale in (
        (20, 1, 3.0, 1), (20, 2, 0.01, 50), (20, 3, 30.0, 1), (20, 3, 0.3, 50), (20, 9, 0.01, 1),
        (20, 9, 3.0, 50), (20, 20, 0.3, 1), (20, 20, 30.0, 50),
        (200, 10, 0.5, 1), (200, 10, 10.0, 1), (200, 10, 1000.0, 1),
    ):  # fmt: skip
        x = scale * torch.randn(rows, n, dtype=torch.float64)
        x[rows // 2 :] = x[rows // 2 :].float().mul(2).round()  # ties
        sort = get(method, steepness=steepness)
        for mask in (None, torch.rand(rows, n) < 0.8):
            ranks, turned = (soft_rank(s * x, sort, mask=mask) for s in (1, -1))
            present = torch.ones(rows, n).bool() if mask is None else mask
            count = present.sum(-1, keepdim=True)
            assert ranks[present].min() >= 1 - 1e-9 * n
            assert (ranks <= count + 1e-9 * n).all()
            known = present[..., :, None] & present[..., None, :]
            apart, rise = (t[..., :, None] - t[..., None, :] for t in (x, ranks))
            assert (rise[known & (apart > 0)] >= -1e-9 * n).all()
            if steepness * scale <= 1 and steepness >= 0.1:  # neither all equal nor apart
                assert torch.equal(apart[known] == 0, rise[known].abs() < 1e-9)
            torch.testing.assert_close(turned, soft_rank(x, sort, mask=mask, descending=True))
            if "entropic" not in str(method):
                want = torch.where(present, count + 1 - ranks, 0)
                torch.testing.assert_close(turned, want, rtol=0, atol=1e-6)
    exact = soft_rank(x, method, steepness=1e9)
    torch.testing.assert_close(exact, hard_ranks(x), rtol=0, atol=1e-5)


@pytest.mark.rotating(4, group="sorting")
def test_ranks_of_networks_are_two_isotonic_regressions_of_expected_ranks():
    places = torch.arange(1.0, 8.0, dtype=torch.float64)

    def rising(y):
        return torch.stack([torch.from_numpy(isotonic_regression(row).x) for row in y.numpy()])

    for name in NETWORKS:
        for scale in (0.1, 1.0):
            x = scale * torch.randn(6, 7, dtype=torch.float64)
            s, order = x.sort(-1)
            found = places @ permutation(s, name)
            found = (found + 8 - (places @ permutation(-s.flip(-1), name)).flip(-1)) / 2
            alone = 2 / math.pi * (10 * s.diff(dim=-1)).atan()  # 2 F - 1
            least = torch.nn.functional.pad(alone.cumsum(-1), (1, 0))
            found = least + rising(found - least)
            found = 3.5 * least - rising(3.5 * least - found)
            torch.testing.assert_close(soft_rank(x, name).gather(-1, order), found)
        pair = torch.tensor([0.3, 0.1], dtype=torch.float64)
        torch.testing.assert_close(soft_rank(pair, name), places[:2] @ permutation(pair, name))
        x = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
        ranks = functools.partial(soft_rank, method=name, steepness=2.0)
        assert torch.autograd.gradcheck(ranks, x, fast_mode=True)
        assert torch.autograd.gradgradcheck(ranks, x, fast_mode=True)
        at = x.detach()
        for one, each in ((soft_rank, at), (torch.func.vmap(soft_rank), at[:, None])):
            got = torch.func.jacrev(lambda x, f=one, m=name: f(x, method=m))(each)
            want = torch.autograd.functional.jacobian(lambda x, m=name: soft_rank(x, m), each)
            torch.testing.assert_close(got, want)


def test_ranks_of_networks_are_continuous_at_ties_and_learn_from_them():
    for name in NETWORKS:
        x = torch.zeros(9, dtype=torch.float64, requires_grad=True)
        weights = torch.randn(9, dtype=torch.float64)
        torch.testing.assert_close(soft_rank(x, name), torch.full_like(x, 5))
        nearly = soft_rank(1e-9 * torch.randn(9, dtype=torch.float64), name)
        torch.testing.assert_close(nearly, torch.full_like(x, 5), rtol=0, atol=1e-5)
        (slope,) = torch.autograd.grad((soft_rank(x, name) * weights).sum(), x)
        assert slope.ne(0).any()


def test_ranks_of_row_methods_are_those_of_the_posterior():
    """By Bayes' theorem with all ranks alike: P(rank i | input j) = P_ij / sum_k P_kj."""
    for method in RANKING[:4]:
        x = torch.randn(2, 6, dtype=torch.float64, requires_grad=True)
        sort = get(method, steepness=1.3)
        p = permutation(x, sort)
        posterior = p / p.sum(-2, keepdim=True)
        want = torch.arange(1.0, 7.0, dtype=torch.float64) @ posterior
        ranks = soft_rank(x, sort)
        torch.testing.assert_close(ranks, want)
        weights = torch.randn(2, 6, dtype=torch.float64)
        one, two = (torch.autograd.grad((r * weights).sum(), x)[0] for r in (ranks, want))
        torch.testing.assert_close(one, two)
        assert torch.autograd.gradcheck(lambda x, s=sort: soft_rank(x, s), x, fast_mode=True)
        assert torch.autograd.gradgradcheck(lambda x, s=sort: soft_rank(x, s), x, fast_mode=True)
    with pytest.raises(ValueError, match="ranks need a power of 1 or more"):
        soft_rank(KEYS, "softsort", power=0.5)


def test_hard_forward_soft_backward():
    for descending in (False, True):
        for name in NAMES:
            x = torch.tensor(
                [[2.0, -1.0, 2.0, 0.5]], dtype=torch.float64, requires_grad=True
            )  # a tie
            weights = torch.randn(4, 4, dtype=torch.float64)
            expected = x.detach().sort(dim=-1, descending=descending, stable=True)
            positions = torch.arange(1.0, 5.0, dtype=torch.float64)
            kwargs = {"descending": descending}

            hard, loose = (soft_sort(x, soft(name), hard=h, **kwargs) for h in (True, False))
            assert torch.equal(hard, expected.values)
            assert not torch.equal(loose, hard)
            assert_same_gradient(hard, loose, x, weights[0])

            hard, loose = (soft_rank(x, soft(name), hard=h, **kwargs) for h in (True, False))
            assert torch.equal(hard.gather(-1, expected.indices)[0], positions)
            assert_same_gradient(hard, loose, x, weights[1])

            if name in WITH_P:
                hard, loose = (permutation(x, soft(name), hard=h, **kwargs) for h in (True, False))
                assert torch.equal(hard, torch.eye(4, dtype=torch.float64)[expected.indices])
                assert_same_gradient(hard, loose, x, weights)


def assert_same_gradient(hard, loose, x, weights):
    a, b = (torch.autograd.grad((y * weights).sum(), x)[0] for y in (hard, loose))
    assert torch.equal(a, b)
    assert float(a.abs().max()) > 0


def test_payload_goes_with_its_keys():
    for descending in (False, True):
        for name in WITH_P:
            payload = torch.randn(2, 5, 3)
            values, carried = soft_sort(KEYS, soft(name), payload=payload, descending=descending)
            p = permutation(KEYS, soft(name), descending=descending)
            torch.testing.assert_close(carried, p @ payload, rtol=1e-5, atol=1e-5)
            assert soft_sort(KEYS, soft(name), payload=payload[..., :0]).payload.shape == (2, 5, 0)
            torch.testing.assert_close(values, soft_sort(KEYS, soft(name), descending=descending))
            _, hard = soft_sort(KEYS, soft(name), payload=payload, descending=descending, hard=True)
            order = KEYS.argsort(dim=-1, descending=descending)
            assert torch.equal(hard, payload.gather(1, order[..., None].expand(2, 5, 3)))


def test_noise_is_drawn_once_for_all_parts():
    for descending in (False, True):
        for hard in (False, True):
            for name in ("neuralsort", "softsort"):
                payload = torch.randn(2, 5, 3)
                sorter = SoftSorter(
                    name, noise=2.0, steepness=1.5, hard=hard, descending=descending
                )
                out, other = sorter(KEYS, payload), sorter(KEYS, payload)
                torch.testing.assert_close(out.permutation @ payload, out.payload)
                torch.testing.assert_close((out.permutation @ KEYS[..., None])[..., 0], out.values)
                if hard:
                    assert set(out.permutation.unique().tolist()) == {0, 1}
                    ranks = torch.arange(1.0, 6.0) @ out.permutation
                    torch.testing.assert_close(ranks, out.ranks)
                assert not torch.equal(out.permutation, other.permutation)


def test_integers_are_promoted():
    x = torch.tensor([3, 1, 2])
    torch.testing.assert_close(soft_sort(x, steepness=1e6), torch.tensor([1.0, 2.0, 3.0]))
    assert soft_sort(x.double()).dtype == torch.float64


def test_learnable_steepness():
    for name in NAMES:
        sorter = SoftSorter(name, steepness=2.0, learnable=True)
        (parameter,) = sorter.parameters()
        out = sorter(KEYS)
        torch.testing.assert_close(out.values, soft_sort(KEYS, name, steepness=2.0))
        (gradient,) = torch.autograd.grad(out.ranks[0, 0] + out.values[0, 0], parameter)
        assert float(gradient) != 0
        with torch.no_grad():
            parameter.fill_(torch.log(torch.tensor(5.0)))
        torch.testing.assert_close(sorter(KEYS).values, soft_sort(KEYS, name, steepness=5.0))
        assert list(sorter.state_dict()) == ["log_steepness"]


def test_bad_input_ends_in_one_line():
    for call, error, message in (
        (lambda: soft_sort([1.0, 2.0]), TypeError, "x must be a torch.Tensor, got list"),
        (lambda: soft_sort(torch.tensor(1.0)), ValueError, r"\[\.\.\., n\], got a single"),
        (lambda: soft_sort(torch.zeros(3) * 1j), TypeError, "x must be real"),
        (lambda: soft_rank(torch.tensor([1.0, torch.inf])), ValueError, "x must be finite, got 1"),
        (lambda: permutation(torch.tensor([torch.nan])), ValueError, "x must be finite, got 1"),
        (lambda: soft_sort(KEYS, "bitonik"), ValueError, "unknown method 'bitonik'.*bitonic"),
        (lambda: soft_sort(KEYS, 3), TypeError, "a method is a name or a Sort, got int"),
        (lambda: soft_sort(KEYS, stepness=3.0), TypeError, "no setting 'stepness'.*steepness"),
        (lambda: soft_rank(KEYS, name="a"), TypeError, "no setting 'name'; it has: art"),
        (
            lambda: soft_sort(KEYS, "softsort", dist="cauchy"),
            TypeError,
            "no setting 'dist'; it has: backend, noise, power, steepness$",
        ),
        (lambda: soft_sort(KEYS, steepness=0.0), ValueError, "steepness must be > 0, got 0"),
        (lambda: soft_sort(KEYS, steepness=-torch.ones(())), ValueError, "steepness must be > 0"),
        (lambda: soft_sort(KEYS, steepness=torch.ones(9)), ValueError, "one for each row"),
        (lambda: soft_sort(KEYS, steepness="3"), TypeError, "steepness must be a number, got str"),
        (lambda: soft_sort(KEYS, dist="exponential"), ValueError, "symmetric"),
        (lambda: permutation(KEYS, "permutahedron"), ValueError, "no permutation matrix.*bitonic"),
        (
            lambda: soft_sort(KEYS, "permutahedron", payload=torch.zeros(2, 5, 1)),
            ValueError,
            "no permutation matrix, which a payload needs",
        ),
        (
            lambda: soft_sort(KEYS, payload=torch.zeros(2, 4, 1)),
            ValueError,
            r"payload must have shape \[\.\.\., n, c\] with n = 5, got \[2, 4, 1\]",
        ),
        (lambda: SoftSorter()(KEYS).payload, ValueError, "there is no payload"),
    ):
        with pytest.raises(error, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_the_check_can_be_left_out():
    x = torch.tensor([0.0, torch.inf])
    assert soft_sort(x, "odd_even", dist="logistic", check=False).shape == (2,)
