"""What a function's text says before it is rewritten: its source, what is refused, what is live.

Errors are `RelaxError`s, which are SyntaxErrors: Python shows the line of the user's file and
marks the place in it.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast


class RelaxError(SyntaxError):
    """Something in a function that cannot be relaxed, with its file, line and reason."""


class Source:
    """The text of a function and its tree, with the line numbers of the file.

    Raises:
        RelaxError: the text cannot be found, or is not that of one plain function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function: Any = function
        code = self.function.__code__
        self.file: str = code.co_filename
        unknown = RelaxError(
            f"the source of {function.__name__} cannot be found, so that it cannot be relaxed; "
            "write it in a file or a notebook"
        )
        try:
            lines, start = inspect.getsourcelines(function)
        except (OSError, TypeError):
            raise unknown from None
        start = max(start, 1)
        self.lines, self.start = lines, start
        text = "".join(lines)
        indented = text[:1] in " \t"
        try:
            tree = ast.parse("if 1:\n" + text if indented else text)
        except SyntaxError:
            tree = ast.Module([], [])
        node: Any = tree.body[0] if tree.body else None
        if indented and node is not None:
            node = node.body[0]
        if code.co_name != "<lambda>" and getattr(node, "name", "") != code.co_name:
            raise unknown  # from Python 3.13 the program of `python -c` has the file of any `exec`
        if not isinstance(node, ast.FunctionDef):
            error = RelaxError("only a function written with `def` can be relaxed, got a lambda")
            if isinstance(node, ast.AsyncFunctionDef):
                error = RelaxError("an async function cannot be relaxed")
            error.filename, error.lineno = self.file, start
            error.offset, error.text = 1, lines[0]
            raise error
        ast.increment_lineno(node, start - (2 if indented else 1))
        node.decorator_list = []
        self.tree: ast.FunctionDef = _Assignments().visit(node)

    def refuse(self, node: ast.AST, reason: str) -> RelaxError:
        """The error for a node, with its line."""
        error = RelaxError(reason)
        line = getattr(node, "lineno", self.start)
        error.filename, error.lineno = self.file, line
        error.offset = getattr(node, "col_offset", 0) + 1
        error.end_lineno = getattr(node, "end_lineno", line)
        error.end_offset = getattr(node, "end_col_offset", 0) + 1
        place = line - self.start
        error.text = self.lines[place] if 0 <= place < len(self.lines) else None
        return error


class _Assignments(ast.NodeTransformer):
    """Augmented and annotated assignments become plain ones, so that there is one kind."""

    def __init__(self) -> None:
        self.temporary = 0

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        """`x[i] += y` is `x[i] = x[i] + y`."""
        before: list[ast.stmt] = []
        target = node.target
        if isinstance(target, ast.Subscript):
            base, places = places_of(target)
            target = ast.Subscript(base, index_of([self._once(p, before) for p in places]))
        old, target.ctx = copy.deepcopy(target), ast.Store()
        old.ctx = ast.Load()
        assignment = ast.Assign([target], ast.BinOp(old, node.op, node.value))
        return [*before, placed(assignment, node)]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        """The annotation goes."""
        plain = ast.Assign([node.target], node.value) if node.value else ast.Pass()
        return placed(plain, node)

    def _once(self, place: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """An index that stands twice: computed once, in a statement before, unless it is simple."""
        simple = (ast.BinOp, ast.Name, ast.Constant, ast.operator, ast.expr_context)
        if isinstance(place, ast.Slice) or all(isinstance(x, simple) for x in ast.walk(place)):
            return place
        self.temporary += 1
        name = f"_at{self.temporary}"
        before.append(placed(ast.Assign([ast.Name(name, ast.Store())], place), place))
        return ast.Name(name, ast.Load())


# -- what is refused

_STATEMENTS: dict[type[ast.AST], str] = {
    ast.Break: "`break` cannot be relaxed: put what ends the loop into its condition",
    ast.Continue: "`continue` cannot be relaxed: put what follows into an `if`",
    ast.Global: "`global` cannot be relaxed: both branches of a decision run, so that what they "
    "change must be theirs; return the value",
    ast.Nonlocal: "`nonlocal` cannot be relaxed: both branches of a decision run, so that what "
    "they change must be theirs; return the value",
    ast.Try: "`try` cannot be relaxed: an error is no matter of probability",
    ast.Raise: "`raise` cannot be relaxed: both branches of a decision run, and would raise; check "
    "the arguments before the program",
    ast.With: "`with` cannot be relaxed: it has side effects; enter it before the program",
    ast.AsyncWith: "`with` cannot be relaxed: it has side effects; enter it before the program",
    ast.AsyncFor: "an async loop cannot be relaxed",
    ast.Await: "`await` cannot be relaxed",
    ast.Yield: "`yield` cannot be relaxed: return a tuple, a list or an array",
    ast.YieldFrom: "`yield` cannot be relaxed: return a tuple, a list or an array",
    ast.Delete: "`del` cannot be relaxed: whether a variable exists is no matter of probability",
    ast.ClassDef: "a class cannot be relaxed; define it outside of the program",
    ast.AsyncFunctionDef: "an async function cannot be relaxed",
    ast.Import: "`import` has side effects; put it at the top of the file",
    ast.ImportFrom: "`import` has side effects; put it at the top of the file",
    ast.NamedExpr: "`:=` cannot be relaxed: assign in a statement of its own",
    ast.Match: "`match` cannot be relaxed: write `if` and `elif`",
}
_TRY_STAR: Any = getattr(ast, "TryStar", None)  # Python 3.11
if _TRY_STAR:
    _STATEMENTS[_TRY_STAR] = _STATEMENTS[ast.Try]

_OUTSIDE = {"print", "input", "open", "exec", "eval", "setattr", "delattr", "breakpoint"}
_CHANGING = {
    "append", "extend", "insert", "pop", "popitem", "remove", "clear", "sort", "reverse", "update",
    "setdefault", "add", "discard", "appendleft", "popleft", "fill", "backward", "item", "numpy",
    "tolist",
}  # fmt: skip
_READING_OUT = {"item", "numpy", "tolist"}
RESERVED = (
    "scale", "dist", "tconorm", "tolerance", "max_iterations", "clip", "normaliser", "execution",
)  # fmt: skip


def check(source: Source) -> None:
    """Look through a function for what cannot be relaxed.

    Raises:
        RelaxError: with the line and the reason.
    """
    tree = source.tree
    arguments = tree.args
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        if argument.arg in RESERVED:
            raise source.refuse(
                argument, f"the argument {argument.arg!r} is one of every program; rename yours"
            )
    for node in ast.walk(tree):
        _check_node(source, node)
    _check_writes(source, tree, set())
    if not any(isinstance(node, ast.Return) and node.value for node in own_nodes(tree)):
        raise source.refuse(
            tree, f"{tree.name} returns nothing, and side effects cannot be relaxed; return a value"
        )


def _check_node(source: Source, node: ast.AST) -> None:
    reason = _STATEMENTS.get(type(node))
    if reason:
        raise source.refuse(node, reason)
    if isinstance(node, ast.Expr) and type(node.value) in _STATEMENTS:
        raise source.refuse(node, _STATEMENTS[type(node.value)])
    if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant):
        name = _called(node.value)
        if name in _OUTSIDE:
            raise source.refuse(node, _side_effect(name))
        raise source.refuse(
            node,
            "the value of this statement is not used, so that it can only have side effects, which "
            "cannot be relaxed: both branches of a decision run",
        )
    if isinstance(node, ast.Call):
        name = _called(node)
        if isinstance(node.func, ast.Name) and name in _OUTSIDE:
            raise source.refuse(node, _side_effect(name))
        if isinstance(node.func, ast.Attribute):
            _check_method(source, node, node.func.attr)
    if isinstance(node, (ast.For, ast.While)) and node.orelse:
        raise source.refuse(
            node.orelse[0], "`else` of a loop means something only after `break`; put it after"
        )
    if isinstance(node, (ast.For, ast.While)):
        for inner in own_nodes(node):
            if isinstance(inner, ast.Return):
                raise source.refuse(
                    inner,
                    "`return` inside a loop cannot be relaxed: keep the result in a variable, put "
                    "what ends the loop into its condition, and return after it",
                )
    if isinstance(node, ast.While):
        _check_exit(source, node)
    if isinstance(node, ast.For):
        _check_cells(source, node)
    if isinstance(node, ast.FunctionDef) and node is not source.tree and node.decorator_list:
        raise source.refuse(node, "a decorated function inside a program cannot be relaxed")


def _check_method(source: Source, node: ast.Call, method: str) -> None:
    if method in _READING_OUT:
        raise source.refuse(
            node, f"`.{method}()` takes a value out of the computation, so that no gradient passes"
        )
    if method in _CHANGING or (method.endswith("_") and not method.endswith("__")):
        raise source.refuse(
            node,
            f"`.{method}()` changes an object in place, which cannot be relaxed: both branches of "
            "a decision run; make a new value, or write cells of an array of fixed size",
        )


def _side_effect(name: str) -> str:
    if name == "print":
        return (
            "`print` cannot be relaxed: both branches of a decision run, and would print; return "
            "the value, or look at `program.hard`"
        )
    return f"`{name}` has side effects, which cannot be relaxed"


def _called(node: ast.AST) -> str:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id
    return ""


def _check_exit(source: Source, node: ast.While) -> None:
    """A loop whose condition nothing in it changes never ends."""
    test = node.test
    if any(isinstance(inner, (ast.Call, ast.Attribute)) for inner in ast.walk(test)):
        return
    if isinstance(test, ast.Constant) and not test.value:
        return
    if not reads([test]) & assigned(node.body):
        what = ast.unparse(test)
        raise source.refuse(
            test, f"the loop has no exit: nothing in it changes the condition `{what}`"
        )


def _check_cells(source: Source, node: ast.For) -> None:
    """Arrays are values: a loop goes through what was there before it, and Python through cells."""
    through = [node.iter]
    for part in through:
        if isinstance(part, ast.Call) and _called(part) in ("enumerate", "zip", "reversed"):
            through += part.args
    bases = [places_of(x)[0] if isinstance(x, ast.Subscript) else x for x in through]
    names = {x.id for x in bases if isinstance(x, ast.Name)}
    # What a counter from 0 points at was read already.
    first = isinstance(node.iter, ast.Call) and _called(node.iter) == "enumerate"
    first = first and len(cast(ast.Call, node.iter).args) == 1
    first = first and not any(_called(part) == "reversed" for part in through)
    counter = flat_targets(node.target)[0] if first else None
    for inner in own_nodes(node):
        for target in inner.targets if isinstance(inner, ast.Assign) else ():
            for cell in flat_targets(target):
                if not isinstance(cell, ast.Subscript):
                    continue
                base, places = places_of(cell)
                if not isinstance(base, ast.Name) or base.id not in names:
                    continue
                if counter is None or ast.dump(places[0]) != ast.dump(_read(counter)):
                    raise source.refuse(
                        cell,
                        f"{base.id} is written to while the loop goes through it; loop over "
                        f"range(len({base.id})), or over {base.id}.copy()",
                    )


def _read(target: ast.expr) -> ast.expr:
    return ast.Name(target.id, ast.Load()) if isinstance(target, ast.Name) else target


def _check_writes(source: Source, function: ast.FunctionDef, outer: set[str]) -> None:
    """Only variables of the function itself may be written."""
    own = parameters(function) | {
        target.id
        for node in own_nodes(function)
        for target in ast.walk(node)
        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
    }
    own |= {node.name for node in own_nodes(function) if isinstance(node, ast.FunctionDef)}
    for node in own_nodes(function):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.For):
            targets = [node.target]
        for target in targets:
            for inner in flat_targets(target):
                _check_target(source, inner, own)
        if isinstance(node, ast.FunctionDef) and node is not function:
            _check_writes(source, node, outer | own)


def _check_target(source: Source, target: ast.expr, own: set[str]) -> None:
    if isinstance(target, ast.Attribute):
        raise source.refuse(
            target,
            "an attribute cannot be set: both branches of a decision run, and the object is "
            "outside of the program; use a variable, and return it",
        )
    if isinstance(target, ast.Starred):
        target = target.value
    if isinstance(target, ast.Subscript):
        base, _ = places_of(target)
        if not isinstance(base, ast.Name):
            raise source.refuse(target, "only cells of a variable can be written")
        if base.id not in own:
            raise source.refuse(
                target,
                f"{base.id} belongs to the outside, so that writing into it is a side effect, "
                f"which cannot be relaxed; begin with `{base.id} = {base.id}.copy()`",
            )


def check_captured(source: Source, body: Sequence[ast.stmt]) -> None:
    """What a function inside reads may not change in a later block, whose variables are its own."""
    nodes = [x for top in body for x in (top, *own_nodes(top))]
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            name, inner = node.name, node
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Lambda)
            and isinstance(node.targets[0], ast.Name)
        ):
            name, inner = node.targets[0].id, node.value
        else:
            continue
        own = assigned(inner.body) if isinstance(inner, ast.FunctionDef) else set[str]()
        free = reads([inner]) - parameters(inner) - own
        for block in nodes:
            if not isinstance(block, (ast.If, ast.While)) or block.lineno <= node.lineno:
                continue
            changed = sorted(free & assigned([*block.body, *block.orelse]))
            if changed and any(
                isinstance(x, ast.Name) and x.id == name and x.lineno >= block.lineno
                for top in body
                for x in ast.walk(top)
            ):
                raise source.refuse(
                    block,
                    f"{name} reads {changed[0]}, which changes here: give it to {name} as an "
                    f"argument, or define {name} after this block",
                )


# -- reading trees

T = TypeVar("T", bound=ast.AST)


def placed(new: T, at: ast.AST) -> T:
    """A tree whose new nodes stand where another node stands, for tracebacks."""
    for node in ast.walk(new):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            ast.copy_location(node, at)
    return new


def index_of(places: list[ast.expr]) -> ast.expr:
    """What stands between the brackets of x[i, j]."""
    return places[0] if len(places) == 1 else ast.Tuple(places, ast.Load())


def parameters(function: ast.FunctionDef | ast.Lambda) -> set[str]:
    """The names of all arguments."""
    args = function.args
    result = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    result += [x for x in (args.vararg, args.kwarg) if x]
    return {x.arg for x in result}


def own_nodes(node: ast.AST) -> Iterable[ast.AST]:
    """The nodes below, but not those inside nested functions."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (ast.FunctionDef, ast.Lambda, ast.AsyncFunctionDef)):
            yield from own_nodes(child)


def places_of(node: ast.Subscript) -> tuple[ast.expr, list[ast.expr]]:
    """X and [i, j] of x[i][j] and x[i, j]; an index of a slice stays apart."""
    places = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    base = node.value
    if isinstance(base, ast.Subscript) and not any(isinstance(p, ast.Slice) for p in places):
        inner_base, inner = places_of(base)
        if not any(isinstance(p, ast.Slice) for p in inner):
            return inner_base, inner + places
    return base, places


def is_tensors(places: Sequence[ast.expr]) -> bool:
    """Whether an index is one of torch, with `...` or None, and no place in an array."""
    return any(isinstance(p, ast.Constant) and p.value in (..., None) for p in places)


def flat_targets(target: ast.expr) -> list[ast.expr]:
    """The members of nested tuples of targets."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return [x for member in target.elts for x in flat_targets(member)]
    return [target]


def reads(nodes: Iterable[ast.AST]) -> set[str]:
    """All names that are read."""
    return {
        node.id
        for top in nodes
        for node in ast.walk(top)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _written(target: ast.expr) -> set[str]:
    """The variables that an assignment to a target changes."""
    result: set[str] = set()
    for inner in flat_targets(target):
        if isinstance(inner, ast.Starred):
            inner = inner.value
        if isinstance(inner, ast.Subscript):
            inner = places_of(inner)[0]
        if isinstance(inner, ast.Name):
            result.add(inner.id)
    return result


def assigned(body: Sequence[ast.AST]) -> set[str]:
    """The variables that statements change."""
    result: set[str] = set()
    for node in body:
        for inner in (node, *own_nodes(node)) if not isinstance(node, ast.FunctionDef) else (node,):
            if isinstance(inner, ast.Assign):
                for target in inner.targets:
                    result |= _written(target)
            elif isinstance(inner, ast.For):
                result |= _written(inner.target)
            elif isinstance(inner, ast.FunctionDef):
                result.add(inner.name)
    return result


def live(body: Sequence[ast.stmt], after: set[str]) -> set[str]:
    """The variables whose values matter before statements, if those in `after` matter behind."""
    alive = set(after)
    for node in reversed(body):
        alive = _live(node, alive)
    return alive


def _live(node: ast.stmt, after: set[str]) -> set[str]:
    if isinstance(node, ast.Return):
        return reads([node])
    if isinstance(node, ast.If):
        return reads([node.test]) | live(node.body, after) | live(node.orelse, after)
    if isinstance(node, ast.While):
        alive = after | reads([node.test])
        while True:
            more = alive | live(node.body, alive)
            if more == alive:
                return alive
            alive = more
    if isinstance(node, ast.For):
        alive = set(after)
        own = _names_of(node.target)
        while True:
            more = alive | (live(node.body, alive) - own)
            if more == alive:
                return alive | reads([node.iter, node.target])
            alive = more
    if isinstance(node, ast.FunctionDef):
        return (after - {node.name}) | (reads([node]) - parameters(node))
    if isinstance(node, ast.Assign):
        own = {x for target in node.targets for x in _names_of(target)}
        writes = {x for target in node.targets for x in _written(target)} - own
        return (after - own) | reads([node.value, *node.targets]) | writes
    return after | reads([node])


def _names_of(target: ast.expr) -> set[str]:
    """The variables that a target sets as a whole."""
    members = [x.value if isinstance(x, ast.Starred) else x for x in flat_targets(target)]
    return {x.id for x in members if isinstance(x, ast.Name)}


def returns(body: Sequence[ast.stmt]) -> bool:
    """Whether statements, after `settled`, end with a return on every path."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return returns(last.body) and returns(last.orelse)
    return isinstance(last, ast.Return)


def has_return(node: ast.AST) -> bool:
    """Whether a statement of the function itself returns."""
    return isinstance(node, ast.Return) or any(isinstance(x, ast.Return) for x in own_nodes(node))


def single_exit(source: Source, body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements with every return at the end of its block.

    What follows an `if` that returns in one branch goes into the other, so that early returns are
    nested decisions, and exact.

    Raises:
        RelaxError: a value is returned on one path only.
    """
    for k, node in enumerate(body):
        if isinstance(node, ast.Return):
            return list(body[: k + 1])
        if isinstance(node, ast.If) and has_return(node):
            rest = body[k + 1 :]
            branches: list[list[ast.stmt]] = []
            for branch in (node.body, node.orelse):
                following = [*branch, *(copy.deepcopy(x) for x in rest)]
                branches.append(single_exit(source, following))
                if not returns(branches[-1]):
                    raise source.refuse(
                        node, "one path returns a value here and another does not; return on both"
                    )
            new = ast.If(node.test, *branches)
            return [*body[:k], ast.copy_location(new, node)]
    return list(body)


def ranks(function: ast.FunctionDef) -> dict[str, int]:
    """The own dimensions of arguments, from how they are used.

    x[i, j] and x[i][j] show two, x[i], len(x), `for v in x` and `a, b = x` at least one.
    """
    names = parameters(function)
    result: dict[str, int] = {}
    inner: set[int] = set()

    def seen(node: ast.AST, rank: int) -> None:
        if isinstance(node, ast.Name) and node.id in names:
            result[node.id] = max(result.get(node.id, 0), rank)

    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and id(node) not in inner:
            base, places = places_of(node)
            step = node.value
            while isinstance(step, ast.Subscript):
                inner.add(id(step))
                step = step.value
            if not isinstance(base, ast.Attribute) and not is_tensors(places):
                seen(base, len(places))
        elif isinstance(node, ast.Call) and _called(node) in (
            "len",
            "enumerate",
            "zip",
            "reversed",
        ):
            for argument in node.args:
                seen(argument, 1)
        elif isinstance(node, (ast.For, ast.comprehension)):
            seen(node.iter, 1)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            if isinstance(node.targets[0], (ast.Tuple, ast.List)):
                seen(node.value, 1)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute):
            if node.value.attr == "shape" and isinstance(node.targets[0], ast.Tuple):
                seen(node.value.value, len(node.targets[0].elts))
    return result


def resolved(node: ast.expr, local: set[str], scope: dict[str, Any]) -> Any:
    """The object behind a name, or an attribute of a module, if it is known now; else None."""
    if isinstance(node, ast.Name) and node.id not in local:
        return scope.get(node.id, getattr(builtins, node.id, None))
    if isinstance(node, ast.Attribute):
        owner = resolved(node.value, local, scope)
        if inspect.ismodule(owner):
            return cast(Any, getattr(owner, node.attr, None))
    return None
