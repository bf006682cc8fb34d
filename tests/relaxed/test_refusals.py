"""What cannot be relaxed: refused with its line and the reason.

Each function below has one offending line, marked by a comment with a part of the reason.
"""

# pyright: reportUnusedClass=false, reportMatchNotExhaustive=false, reportPossiblyUnboundVariable=false

import inspect
import linecache
import math
import traceback

import pytest
import torch

import gendr
from gendr.relaxed import RelaxError, smooth, zeros

TABLE = [1.0, 2.0]


class Holder:
    value = 0.0


def breaks(x):
    while x > 0:
        x = x - 1
        if x < 3:
            break  # refused: put what ends the loop into its condition
    return x


def continues(x):
    for _ in range(3):
        if x > 0:
            continue  # refused: put what follows into an `if`
        x = x + 1
    return x


def prints(x):
    if x > 0:
        print(x)  # noqa: T201  # refused: `print` cannot be relaxed: both branches of a decision run
    return x


def prints_within_an_expression(x):
    y = [print(v) for v in [x]]  # noqa: T201  # refused: `print` cannot be relaxed
    return y


def changes_a_global(x):
    global TABLE  # refused: `global` cannot be relaxed
    TABLE = x
    return x


def changes_an_outer_variable(x):
    def inner():
        nonlocal x  # refused: `nonlocal` cannot be relaxed
        x = 1
        return x

    return inner()


def tries(x):
    try:  # refused: `try` cannot be relaxed: an error is no matter of probability
        x = 1 / x
    except ZeroDivisionError:
        x = 0
    return x


def raises(x):
    if x < 0:
        raise ValueError("negative")  # refused: `raise` cannot be relaxed
    return x


def enters(x):
    with torch.no_grad():  # refused: `with` cannot be relaxed
        x = x + 1
    return x


def yields(x):
    yield x  # refused: `yield` cannot be relaxed
    return x


def deletes(x):
    y = x
    del y  # refused: `del` cannot be relaxed
    return x


def imports(x):
    import math as m  # refused: `import` has side effects

    return m.sqrt(x)


def defines_a_class(x):
    class Local:  # refused: a class cannot be relaxed
        pass

    return x


def assigns_in_an_expression(x):
    if (y := x + 1) > 0:  # refused: `:=` cannot be relaxed
        return y
    return x


def matches(x):
    match x:  # refused: `match` cannot be relaxed
        case 0:
            x = 1
    return x


def appends(x):
    y = []
    y.append(x)  # refused: the value of this statement is not used
    return y


def pops(x):
    y = [x, x]
    return y.pop()  # refused: `.pop()` changes an object in place


def changes_in_place(x):
    return x.add_(1)  # refused: `.add_()` changes an object in place


def takes_out(x):
    return x.item() + 1  # refused: `.item()` takes a value out of the computation


def sets_an_attribute(x):
    Holder.value = x  # refused: an attribute cannot be set
    return x


def writes_outside(x):
    TABLE[0] = x  # refused: TABLE belongs to the outside
    return x


def changes_what_a_function_reads(x):
    limit = x + 1

    def below(value):
        return value < limit

    if x > 0:  # refused: below reads limit, which changes here: give it to below as an argument
        limit = limit + 1
    return below(x)


def changes_what_a_function_reads_behind_a_return(x):
    moved = lambda value: value + step  # noqa: E731
    step = x
    if x > 0:  # refused: moved reads step, which changes here
        return x
    step = 2 * x
    return moved(x)


def writes_ahead(x):
    for k, value in enumerate(x):
        if value > 0:
            x[2 - k] = 0.0  # refused: x is written to while the loop goes through it
    return x


def writes_into_a_result(x):
    zeros(3)[0] = x  # refused: only cells of a variable can be written
    return x


def never_ends(x):
    while True:  # refused: the loop has no exit: nothing in it changes the condition `True`
        x = x - 1
    return x


def never_changes(x, y):
    while x > 0:  # refused: nothing in it changes the condition `x > 0`
        y = y - 1
    return y


def returns_from_a_loop(x):
    for v in [1, 2]:
        if x < v:
            return v  # refused: `return` inside a loop cannot be relaxed
    return x


def returns_on_one_path(x):
    if x < 0:  # refused: one path returns a value here and another does not
        return 0.0
    x = x + 1


def returns_nothing(x):  # refused: returns nothing, and side effects cannot be relaxed
    x = x + 1


def has_an_else_of_a_loop(x):
    for _ in range(3):
        x = x + 1
    else:
        x = 0  # refused: `else` of a loop means something only after `break`
    return x


def takes_scale(x, scale):  # refused: the argument 'scale' is one of every program
    return x


def names_by_a_variable(x, name):
    return smooth(name, x < 0)  # refused: the name in quotes


def names_by_a_number(x):
    return smooth(3, x < 0)  # refused: the name of a decision is text, got 3


def decorates_inside(x):
    @gendr.relax
    def inner(y):  # refused: a decorated function inside a program cannot be relaxed
        return y

    return inner(x)


def counts_in_a_cell(x):
    y = zeros(2)
    for y[0] in range(3):  # refused: a loop counts in a plain variable
        x = x + y[0]
    return x


async def waits(x):  # refused: async
    return x


REFUSED = [
    f
    for f in list(globals().values())
    if inspect.isfunction(f) and f.__module__ == __name__ and "# refused:" in inspect.getsource(f)
]


def test_refused_with_line_and_reason():
    for function in REFUSED:
        lines, start = inspect.getsourcelines(function)
        ((number, line),) = [(start + k, x) for k, x in enumerate(lines) if "# refused:" in x]
        reason = line.split("# refused: ")[1].strip()
        with pytest.raises(RelaxError) as caught:
            gendr.relax(function)
        error = caught.value
        assert reason in error.msg
        assert (error.filename, error.lineno) == (__file__, number)
        shown = "".join(traceback.format_exception_only(error))
        assert f'File "{__file__}", line {number}' in shown
        assert line.strip() in shown


def test_a_lambda_and_a_function_without_source(monkeypatch):
    with pytest.raises(RelaxError, match="only a function written with `def`"):
        gendr.relax(lambda x: x)
    scope = {}
    exec("def f(x):\n    return x", scope)
    with pytest.raises(RelaxError, match="the source of f cannot be found"):
        gendr.relax(scope["f"])
    # Python 3.13 takes the program of `python -c` for the source of all that has no file.
    other = ["def g(x):\n", "    return 2 * x\n"]
    monkeypatch.setitem(linecache.cache, "<string>", (1, None, other, "<string>"))
    with pytest.raises(RelaxError, match="the source of f cannot be found"):
        gendr.relax(scope["f"])
    with pytest.raises(TypeError, match="relax takes a function, got builtin"):
        gendr.relax(len)


# -- what only the run shows


@gendr.relax
def divides(x):
    return x // 2


@gendr.relax
def takes_a_remainder(x):
    return x % 2


@gendr.relax
def rounds(x):
    return round(x)


@gendr.relax
def floors(x):
    return math.floor(x)


@gendr.relax
def sorts(x):
    return sorted([x, x])


@gendr.relax
def counts_to(x):
    total = 0
    for i in range(x):
        total += i
    return total


@gendr.relax
def makes_an_array(x):
    return zeros(x)


@gendr.relax
def filters(x):
    return [v for v in [x, 1.0] if v > 0]


@gendr.relax
def asserts(x):
    assert x > 0
    return x


@gendr.relax
def asks_a_number(x):
    return 1.0 if x else 2.0


@gendr.relax
def ends_differently(x):
    return "small" if x < 1 else "large"


@gendr.relax
def has_no_value(x):
    if x > 0:
        y = x
    return y


@gendr.relax
def unpacks(x):
    a, b = x + 1, x
    (c, d) = a
    return c + d + b


def test_refused_when_it_runs_at_the_users_line():
    for program, error, reason in [
        (divides, TypeError, "`//` of a relaxed number would be a hard decision"),
        (takes_a_remainder, TypeError, "`%` of a relaxed number would be a hard decision"),
        (rounds, TypeError, "round of a relaxed number would be a hard decision"),
        (floors, TypeError, "floor of a relaxed number would be a hard decision"),
        (sorts, TypeError, "sorted of a relaxed number"),
        (counts_to, TypeError, "the number of iterations cannot be a relaxed number"),
        (makes_an_array, TypeError, "the shape of an array may not depend on a relaxed number"),
        (filters, TypeError, "cannot decide how long a list is"),
        (asserts, TypeError, "cannot decide"),
        (asks_a_number, ValueError, r"a condition is a probability in \[0, 1\]"),
        (ends_differently, TypeError, "one branch has str 'small', the other str 'large'"),
        (has_no_value, UnboundLocalError, "y has no value on one side of a relaxed decision"),
        (unpacks, TypeError, "a relaxed number cannot be gone through"),
    ]:
        with pytest.raises(error, match=reason) as caught:
            program(torch.tensor(3.0))
        lines, start = inspect.getsourcelines(program.function)
        frames = traceback.extract_tb(caught.tb)
        mine = [f for f in frames if f.filename == __file__ and f.lineno >= start]
        assert start < mine[-1].lineno < start + len(lines)
        assert mine[-1].line == lines[mine[-1].lineno - start].strip()
