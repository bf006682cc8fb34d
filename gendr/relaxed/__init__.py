"""Relaxed programs: any simple algorithm, made differentiable.

A plain Python function is decorated with `@gendr.relax`. Called, it runs relaxed: each decision is
taken under noise, and the result is the expectation in closed form, so that gradients pass through
the decisions. `program.hard(...)` runs the same function as plain Python.

    @gendr.relax
    def thermostat(temperature, target, steps=10):
        for _ in range(steps):
            if temperature < target:
                temperature = temperature + 1.0
            else:
                temperature = temperature - 0.5
        return temperature

    thermostat(torch.tensor([15.0, 21.0]), 20.0, scale=0.3)

**Values.** A floating tensor is relaxed, a plain number is exact: comparisons of plain numbers are
Python's own, so that counters cost nothing. A number of a program is a tensor [*batch]; an array
knows its own dimensions, so that one text serves one item and a batch of any shape. Arguments are
arrays if the text indexes them, or if their hint says so (`x: Vector`). Arrays are values: writing
to one makes a new one.

**Decisions** (thesis, chapter 2). `a < b` is F((b - a) / scale), F the CDF of any distribution;
`a == b` the density over its peak; and / or / not a T-norm, its dual T-conorm, 1 - p. `if` is the
convex combination of what its branches change: nested branches are exact, and paths are merged
behind each block. `while` is the expected state over the number of iterations. `max`, `min`,
`argmax` and `argmin` go by the softmax. An array is read and written at a real-valued place by a
kernel, at a categorical one by its probabilities. A decision may have a name,
`smooth("edge", a < b)`, and then a scale and a distribution of its own.

**Two forms.** The decorator rewrites the text of the function to calls of the functions below
(`program.source` shows them), which can be used by themselves, in a block of `smoothing`. What
cannot be relaxed is refused when the function is decorated, with its line and the reason.

| module | holds |
|---|---|
| `settings` | scale, distribution, T-norm; `smoothing`, `smooth` |
| `values` | arrays, categorical values, the blend of two states |
| `comparisons`, `choices`, `indexing`, `flow` | the functional form |
| `syntax`, `rewrite` | what is refused, what is live; the rewriting |
| `execution` | paths merged, kept apart, or sampled |
| `slopes` | long gradients: bounded, and named by their lines |
| `program` | the decorator, arguments and results, calls |
| `compiled` | a program through `torch.compile` |
| `programs` | textbook algorithms in this language |
| `algorithms`, `backends` | the same algorithms as kernels, one or two orders faster |

Source: Petersen, Learning with Differentiable Algorithms (thesis), chapter 2.
"""

from gendr._common.names import lazily

__getattr__, __dir__, __all__ = lazily(globals())
