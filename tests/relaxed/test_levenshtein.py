"""Edit distances: the hard limit against a textbook, kernels against torch, gradients, errors."""

import numpy as np
import pytest
import torch

from gendr.relaxed import levenshtein

LAWS = ("logistic", "cauchy", "laplace", "student_t(shape=1.5)")
PRICES = {"deletion": 0.7, "insertion": 1.1, "substitution": 1.3}


def strings(*shape, letters=4):
    return torch.randn(*shape, letters, dtype=torch.float64).softmax(-1).requires_grad_()


def textbook(s, t, deletion=1.0, insertion=1.0, substitution=1.0):
    """Wagner and Fischer, row by row, for two lists of symbols."""
    row = [j * insertion for j in range(len(t) + 1)]
    for i, symbol in enumerate(s, 1):
        corner, row[0] = row[0], i * deletion
        for j, other in enumerate(t, 1):
            price = corner + (substitution if symbol != other else 0.0)
            corner, row[j] = row[j], min(row[j] + deletion, row[j - 1] + insertion, price)
    return row[-1]


def test_hard_distances_are_those_of_the_textbook(seed):
    for prices in [{}, PRICES]:
        rng = np.random.default_rng(seed)
        s, t = rng.integers(0, 3, (5000, 7)), rng.integers(0, 3, (5000, 6))
        lengths = rng.integers(0, 8, 5000), rng.integers(0, 7, 5000)
        expected = torch.tensor(
            [
                textbook(a[:n].tolist(), b[:m].tolist(), **prices)
                for a, b, n, m in zip(s, t, *lengths, strict=True)
            ],
            dtype=torch.float64,
        )
        given = tuple(map(torch.from_numpy, lengths))
        one_hot = [torch.nn.functional.one_hot(torch.from_numpy(x), 3).double() for x in (s, t)]
        for dist, steepness in (("heaviside", 1.0), ("logistic", 1e4)):
            found = levenshtein(*one_hot, dist=dist, steepness=steepness, lengths=given, **prices)
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
        integers = levenshtein(
            torch.from_numpy(s), torch.from_numpy(t), dist="heaviside", lengths=given, **prices
        )
        torch.testing.assert_close(integers.double(), expected, rtol=0, atol=1e-5)


def test_kernel_is_the_reference():
    for dist, minimum in [*((law, "expected") for law in LAWS), ("logistic", "log_sum_exp")]:
        s, t = strings(5, 11), strings(5, 9)
        numbers = [torch.tensor(x, dtype=torch.float64) for x in (3.0, *PRICES.values())]
        beta, *prices = (x.requires_grad_() for x in numbers)
        lengths = torch.tensor([11, 5, 0, 3, 0]), torch.tensor([9, 2, 4, 0, 0])
        given = torch.randn(5, dtype=torch.float64)
        found = []
        for backend in ("cpu", "reference"):
            value = levenshtein(
                s, t, dist=dist, steepness=beta, minimum=minimum, lengths=lengths, backend=backend,
                **dict(zip(PRICES, prices, strict=True)),
            )  # fmt: skip
            found.append((value, *torch.autograd.grad(value, (s, t, beta, *prices), given)))
        for ours, truth in zip(*found, strict=True):
            torch.testing.assert_close(ours, truth, rtol=1e-10, atol=1e-10)


def test_symbols_that_tie_have_the_gradient_of_torch():
    s = torch.nn.functional.one_hot(torch.randint(2, (4, 6)), 2).double().requires_grad_()
    t = torch.nn.functional.one_hot(torch.randint(2, (4, 6)), 2).double()
    for dist in LAWS:
        found = [
            torch.autograd.grad(levenshtein(s, t, dist=dist, backend=backend).sum(), s)[0]
            for backend in ("cpu", "reference")
        ]
        torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("minimum", ["expected", "log_sum_exp"])
def test_gradients_by_differences(backend, minimum):
    s, t = strings(2, 3, letters=2), strings(2, 2, letters=2)
    beta = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    price = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)

    def run(s, t, beta, price):
        return levenshtein(
            s, t, steepness=beta, insertion=price, substitution=price, deletion=2 * price,
            minimum=minimum, backend=backend,
        )  # fmt: skip

    assert torch.autograd.gradcheck(run, (s, t, beta, price))


def test_equality_is_the_cosine():
    s = torch.tensor([[0.5, 0.5], [1.0, 0.0]], dtype=torch.float64)
    distance = levenshtein(s, s, dist="heaviside")
    assert distance < 1e-12  # equal, although the first symbol is not sharp
    one, other = s[:1], s[1:]
    cosine = 0.5 / np.sqrt(0.5)
    assert abs(levenshtein(one, other, dist="heaviside").item() - (1 - cosine)) < 1e-12


def test_the_free_minimum_is_below_the_hard_and_the_expected_above():
    s, t = strings(20, 8), strings(20, 8)
    hard = levenshtein(s, t, dist="heaviside")
    assert (levenshtein(s, t, minimum="log_sum_exp") <= hard).all()
    assert (levenshtein(s, t) >= hard).all()


def test_any_batch_shape_and_dtype():
    for backend in ("cpu", "reference"):
        s, t = strings(3, 1, 5), strings(4, 6)
        whole = levenshtein(s, t, backend=backend)
        assert whole.shape == (3, 4)
        alone = levenshtein(s[1, 0], t[2], backend=backend)
        assert alone.shape == ()
        torch.testing.assert_close(whole[1, 2], alone, rtol=0, atol=1e-13)
        short = levenshtein(s.float(), t.float(), backend=backend)
        assert short.dtype == torch.float32
        torch.testing.assert_close(short.double(), whole, rtol=0, atol=1e-4)
        lengths = torch.tensor([5, 3, 1])[:, None], torch.tensor([6, 6, 2, 0])
        mixed = levenshtein(s, t, lengths=lengths, backend=backend)
        torch.testing.assert_close(
            mixed[1, 2], levenshtein(s[1, 0, :3], t[2, :2], backend=backend), rtol=0, atol=1e-13
        )
        assert levenshtein(s[:0], t, backend=backend).shape == (0, 4)
        nothing = levenshtein(s[..., :0, :], t, insertion=2.0, backend=backend)
        assert torch.equal(nothing, torch.full((3, 4), 12.0, dtype=torch.float64))


BAD = [
    ({"s": [[1.0]]}, TypeError, "s must be a torch.Tensor"),
    ({"s": torch.ones(3, 2, dtype=torch.float64)}, TypeError, "dtype of s"),
    ({"s": torch.ones(3, 3)}, ValueError, "same alphabet"),
    ({"s": torch.ones(2, 3, 2), "t": torch.ones(3, 3, 2)}, ValueError, "broadcast"),
    ({"s": torch.full((3, 2), torch.inf)}, ValueError, "finite"),
    ({"deletion": -1.0}, ValueError, "deletion must be >= 0"),
    ({"insertion": "1"}, TypeError, "insertion must be a number"),
    ({"substitution": torch.ones(2)}, TypeError, "substitution"),
    ({"minimum": "hard"}, ValueError, "expected"),
    ({"minimum": "log_sum_exp", "dist": "cauchy"}, ValueError, "logistic"),
    ({"dist": "exponential"}, ValueError, "symmetric"),
    ({"lengths": torch.tensor(2)}, TypeError, "two tensors"),
    ({"lengths": (torch.tensor(2), torch.tensor(9))}, ValueError, "second.*0 .. 4"),
    ({"lengths": (torch.tensor(2.0), torch.tensor(1))}, TypeError, "integers"),
    ({"lengths": (torch.tensor([2, 2]), torch.tensor(1))}, ValueError, "shape of the batch"),
]


def test_bad_arguments():
    for options, kind, said in BAD:
        with pytest.raises(kind, match=said):
            levenshtein(**{"s": torch.ones(3, 2), "t": torch.ones(4, 2), **options})
