"""From a plain Python function to the functional form, by way of `ast`.

`if` becomes `cond`, `while` becomes `while_loop`, comparisons, `and`, `or`, `not` and indexing
become functions; assignment to cells makes a new array. Every node keeps the line and column of
the user's text, and the code is compiled under the user's file name: tracebacks show that file.
"""

from __future__ import annotations

import ast
import builtins
import copy
import types
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch

from gendr.relaxed.slopes import CODE
from gendr.relaxed.syntax import (
    RESERVED,
    Source,
    assigned,
    check,
    check_captured,
    flat_targets,
    index_of,
    is_tensors,
    live,
    own_nodes,
    parameters,
    placed,
    places_of,
    ranks,
    resolved,
    single_exit,
)

_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal",
    ast.Eq: "equal", ast.NotEq: "not_equal",
}  # fmt: skip
_WHOLE: dict[type[ast.operator], str] = {
    ast.FloorDiv: "//", ast.Mod: "%", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip
_BUILTINS = {"max", "min", "abs", "sum", "any", "all"}  # each has a relaxed form of its name
# Of torch, on hard conditions alone.
_ON_BITS = ("where", "logical_and", "logical_or", "logical_not", "logical_xor")
# Of these a program may ask whatever it likes.
_PLAIN = {
    "len", "enumerate", "zip", "reversed", "list", "tuple", "isinstance", "slice", "dict",
    "hasattr", "getattr", "type", "callable",
}  # fmt: skip
# Functions of `gendr.relaxed` that take the name of a decision.
NAMED = {
    "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "contains", "argmax",
    "argmin", "max", "min", "abs", "index", "write", "and_", "or_", "any", "all",
}  # fmt: skip


@dataclass(frozen=True)
class Rewritten:
    """A function in functional form.

    Attributes:
        function: to be called.
        hard: as it was written, but that settings of a call inside reach programs only.
        source: its text.
        decisions: the names of its decisions.
        ranks: the own dimensions of arguments, as they are used.
        changed: the variables that it sets or writes to.
    """

    function: Callable[..., Any]
    hard: Callable[..., Any]
    source: str
    decisions: tuple[str, ...]
    ranks: dict[str, int]
    changed: set[str]


def is_rewritten(function: Any) -> bool:
    """Whether a function is part of a rewritten program."""
    return id(getattr(function, "__code__", None)) in CODE


def rewrite(function: Callable[..., Any], toolbox: types.ModuleType) -> Rewritten:
    """The functional form of a function.

    Args:
        function: a plain Python function.
        toolbox: the module `gendr.relaxed`.

    Raises:
        RelaxError: something in it cannot be relaxed.
    """
    original = cast("types.FunctionType", function)
    source = Source(function)
    check(source)
    code = original.__code__
    free = dict(zip(code.co_freevars, original.__closure__ or (), strict=True))
    scope = dict(original.__globals__)
    for name, cell in free.items():
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # not set yet: a function that calls itself
            scope[name] = None
    names = {node.id for node in ast.walk(source.tree) if isinstance(node, ast.Name)}
    tool = "relaxed"
    while tool in names and scope.get(tool) is not toolbox:
        tool += "_"
    tree, known_ranks = source.tree, ranks(source.tree)
    changed = assigned(tree.body)
    hard = original
    if any(isinstance(node, ast.Call) and _settings_of(node) for node in ast.walk(tree)):
        hard = _made(original, source, _Settings(tool).visit(copy.deepcopy(tree)), tool, toolbox)
    rewriter = _Rewriter(source, scope, tool, toolbox)
    rewriter.function(tree)
    text = ast.unparse(ast.fix_missing_locations(tree))
    made = _made(original, source, tree, tool, toolbox)
    _mark(made.__code__)
    return Rewritten(made, hard, text, tuple(rewriter.decisions), known_ranks, changed)


def _made(
    original: types.FunctionType,
    source: Source,
    tree: ast.FunctionDef,
    tool: str,
    toolbox: types.ModuleType,
) -> types.FunctionType:
    """The function of a tree, in the place of the original."""
    # A function inside a function, so that the free variables are free in it, too; by another
    # name, for its own may be one of them, or a global.
    free = dict(zip(original.__code__.co_freevars, original.__closure__ or (), strict=True))
    tree.name = "_program"
    factory = _function("factory", [*(name for name in free if name != tool), tool], [tree])
    module = ast.Module([placed(factory, tree)], [])
    compiled = compile(ast.fix_missing_locations(module), source.file, "exec")
    code = _code_of(_code_of(compiled, "factory"), tree.name)
    code = code.replace(co_name=original.__name__)
    cells = {**free, tool: types.CellType(toolbox)}
    closure = tuple(cells[name] for name in code.co_freevars)
    made = types.FunctionType(
        code, original.__globals__, original.__name__, original.__defaults__, closure
    )
    made.__kwdefaults__ = original.__kwdefaults__
    return made


def _settings_of(node: ast.Call) -> list[ast.keyword]:
    """The arguments of a call that are settings of a program."""
    return [x for x in node.keywords if x.arg in RESERVED]


class _Settings(ast.NodeTransformer):
    """Calls with settings go by way of `plainly`."""

    def __init__(self, tool: str) -> None:
        self.tool = tool

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """f(x, scale=0.1) as plainly(f, x, scale=0.1)."""
        new = cast(ast.Call, self.generic_visit(node))
        if not _settings_of(node):
            return new
        function = ast.Attribute(
            ast.Attribute(_load(self.tool), "program", ast.Load()), "plainly", ast.Load()
        )
        return placed(ast.Call(function, [new.func, *new.args], new.keywords), node)


def _code_of(code: types.CodeType, name: str) -> types.CodeType:
    return next(x for x in code.co_consts if isinstance(x, types.CodeType) and x.co_name == name)


def _mark(code: types.CodeType) -> None:
    CODE[id(code)] = code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _mark(constant)


def _arguments(names: Sequence[str] = (), defaults: Sequence[str] = ()) -> ast.arguments:
    """The arguments of a function; the last of them have variables as defaults."""
    own = [ast.arg(name) for name in (*names, *defaults)]
    return ast.arguments([], own, None, [], [], None, [_load(name) for name in defaults])


def _function(
    name: str, names: Sequence[str], body: list[ast.stmt], defaults: Sequence[str] = ()
) -> ast.FunctionDef:
    arguments = _arguments(names, defaults)
    new = ast.FunctionDef(name=name, args=arguments, body=body, decorator_list=[])
    if "type_params" in ast.FunctionDef._fields:  # Python 3.12
        new.__dict__["type_params"] = []
    return new


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def _tuple(names: Sequence[str]) -> ast.expr:
    return index_of([_load(x) for x in names])


def _thunk(value: ast.expr) -> ast.Lambda:
    return placed(ast.Lambda(_arguments(), value), value)


class _Rewriter(ast.NodeTransformer):
    """Expressions by `visit`, statements by `block`."""

    def __init__(
        self, source: Source, scope: dict[str, Any], tool: str, toolbox: types.ModuleType
    ) -> None:
        self.source = source
        self.scope = scope
        self.tool = tool
        self.toolbox = toolbox
        self.local: set[str] = set()
        self.decisions: list[str] = []
        self.name: str | None = None  # of the decisions in this expression
        self.unset: set[str] = set()  # variables that a block needs before they have a value
        self.temporary = 0
        self.guarded = (
            False  # whether what is read here may have no derivative where it is not taken
        )

    # -- helpers

    def make(self, tool: str, arguments: Sequence[ast.expr], at: ast.AST, **more: ast.expr) -> Any:
        """A call of a function of the toolbox, with the name of the decision."""
        if self.name is not None and tool in NAMED:
            more["name"] = ast.Constant(self.name)
        function: ast.expr = _load(self.tool)
        for part in tool.split("."):
            function = ast.Attribute(function, part, ast.Load())
        keywords = [ast.keyword(key, value) for key, value in more.items()]
        return placed(ast.Call(function, list(arguments), keywords), at)

    @contextmanager
    def named(self, decision: str | None) -> Generator[None]:
        """Let the decisions inside the block have this name, if it is one."""
        saved, self.name = self.name, decision or self.name
        yield
        self.name = saved

    @contextmanager
    def within(self, nodes: Sequence[ast.AST]) -> Generator[None]:
        """Guard what is read in a part of a decision that computes what may not exist."""
        saved, self.guarded = self.guarded, self.guarded or not _is_tame(nodes)
        yield
        self.guarded = saved

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A variable."""
        if self.guarded and isinstance(node.ctx, ast.Load) and node.id in self.local:
            return self.make("flow.here", [node], node)
        return node

    def fresh(self) -> str:
        """A name that nobody has."""
        self.temporary += 1
        return f"_{self.temporary}"

    def truth(self, node: ast.expr) -> ast.expr:
        """An expression as a condition."""
        new = self.visit(node)
        known = isinstance(node, (ast.Compare, ast.Constant, ast.BoolOp)) or (
            isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        )
        return new if known else self.make("truth", [new], node)

    def visit(self, node: ast.AST) -> Any:
        """The new node, which stands where the old one did."""
        return placed(super().visit(node), node)

    # -- functions

    def function(self, node: ast.FunctionDef) -> None:
        """Rewrite a function definition in place."""
        saved = self.local
        stored = {
            x.id
            for x in own_nodes(node)
            if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)
        }
        inner = {x.name for x in own_nodes(node) if isinstance(x, ast.FunctionDef)}
        self.local = saved | parameters(node) | stored | inner
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        node.returns = None
        body = single_exit(self.source, node.body)
        check_captured(self.source, body)
        node.body, _ = self.scoped(body, set(), parameters(node))
        self.local = saved

    def scoped(
        self, body: Sequence[ast.stmt], after: set[str], defined: set[str]
    ) -> tuple[list[ast.stmt], set[str]]:
        """The statements of a new function, which begin with what has no value yet."""
        saved, self.unset = self.unset, set()
        new, defined_after = self.block(body, after, defined)
        first: list[ast.stmt] = []
        for name in sorted(self.unset):
            nothing = self.make("flow.undefined", [ast.Constant(name)], body[0])
            first.append(placed(ast.Assign([_store(name)], nothing), body[0]))
        self.unset = saved
        docstring = bool(new) and isinstance(new[0], ast.Expr)  # which stays first
        return [*new[:docstring], *first, *new[docstring:]], defined_after

    # -- statements

    def block(
        self, body: Sequence[ast.stmt], after: set[str], defined: set[str]
    ) -> tuple[list[ast.stmt], set[str]]:
        """The new statements, and the variables that surely have a value behind them."""
        behind = [after]
        for node in reversed(body):
            behind.append(live([node], behind[-1]))
        behind.reverse()
        new: list[ast.stmt] = []
        defined = set(defined)
        for node, alive in zip(body, behind[1:], strict=True):
            statements, defined = self.statement(node, alive, defined)
            new += [placed(statement, node) for statement in statements]
        return new or [ast.Pass()], defined

    def statement(
        self, node: ast.stmt, after: set[str], defined: set[str]
    ) -> tuple[list[ast.stmt], set[str]]:
        if isinstance(node, ast.If):
            return self.branches(node, after, defined)
        if isinstance(node, ast.While):
            return self.loop(node, after, defined)
        if isinstance(node, ast.For):
            own = assigned([ast.For(node.target, node.iter, [], [])])
            before = self.loop_source(node.iter)
            inner_after = live([node], after) | after
            body, _ = self.block(node.body, inner_after, defined | own)
            if not all(isinstance(x, ast.Name) for x in flat_targets(node.target)):
                raise self.source.refuse(node.target, "a loop counts in a plain variable")
            return [ast.For(node.target, before, body, [])], defined
        if isinstance(node, ast.FunctionDef):
            self.function(node)
            return [node], defined | {node.name}
        if isinstance(node, ast.Assign):
            return self.assignment(node), defined | assigned([node])
        if isinstance(node, ast.Assert):
            node.test = self.make("comparisons.decided", [self.truth(node.test)], node)
            return [node], defined
        return [self.visit(node)], defined

    def loop_source(self, node: ast.expr) -> ast.expr:
        """What a `for` loop goes through."""
        new = self.visit(node)
        plain = isinstance(node, (ast.Constant, ast.Tuple, ast.List)) or (
            isinstance(node, ast.Call)
            and resolved(node.func, self.local, self.scope) in (range, enumerate, zip, reversed)
        )
        return new if plain else self.make("flow.each", [new], node)

    def assignment(self, node: ast.Assign) -> list[ast.stmt]:
        new = self.visit(node.value)
        unpacking = any(isinstance(target, (ast.Tuple, ast.List)) for target in node.targets)
        if unpacking and isinstance(node.value, (ast.Name, ast.Subscript)):
            new = self.make("flow.each", [new], node.value)
        if all(isinstance(x, ast.Name) for target in node.targets for x in flat_targets(target)):
            return [ast.Assign(node.targets, new)]
        if len(node.targets) == 1:
            return self.unpacked(node.targets[0], new)
        temporary = self.fresh()
        result: list[ast.stmt] = [ast.Assign([_store(temporary)], new)]
        for target in node.targets:
            result += self.unpacked(target, _load(temporary))
        return result

    def unpacked(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        """Assign to nested targets, cells among them, one after the other."""
        if isinstance(target, ast.Subscript):
            return [self.write(target, value)]
        if not isinstance(target, (ast.Tuple, ast.List)):
            return [placed(ast.Assign([target], value), target)]
        names = [self.fresh() for _ in target.elts]
        stars = [isinstance(x, ast.Starred) for x in target.elts]
        members: list[ast.expr] = [
            ast.Starred(_store(name), ast.Store()) if star else _store(name)
            for name, star in zip(names, stars, strict=True)
        ]
        result: list[ast.stmt] = [ast.Assign([ast.Tuple(members, ast.Store())], value)]
        for member, name in zip(target.elts, names, strict=True):
            inner = member.value if isinstance(member, ast.Starred) else member
            result += self.unpacked(inner, _load(name))
        return result

    def write(self, target: ast.Subscript, value: ast.expr) -> ast.stmt:
        """An assignment to cells: the variable becomes what `write` returns."""
        base, places = places_of(target)
        name = cast(ast.Name, base).id
        places, decision = self.places(places)
        with self.named(decision):
            call = self.make("write", [_load(name), value, *places], target)
        return placed(ast.Assign([_store(name)], call), target)

    def places(self, nodes: list[ast.expr]) -> tuple[list[ast.expr], str | None]:
        """The indices, and the name that `smooth` around one of them gives."""
        decision = None
        new: list[ast.expr] = []
        for node in nodes:
            if isinstance(node, ast.Call) and self.is_smooth(node):
                decision = self.decision(node)
            if isinstance(node, ast.Slice):
                ends = (node.lower, node.upper, node.step)
                plain: list[ast.expr] = [self.visit(x) if x else ast.Constant(None) for x in ends]
                new.append(placed(ast.Call(_load("slice"), plain, []), node))
            else:
                new.append(self.visit(node))
        return new, decision

    def branches(
        self, node: ast.If, after: set[str], defined: set[str]
    ) -> tuple[list[ast.stmt], set[str]]:
        """`if` as `cond` over functions of the variables that it changes."""
        test = self.truth(node.test)
        if _ends(node):  # both branches return
            functions = [
                self.inner(f"{word}_{node.lineno}", body, (), set(), defined)
                for word, body in (("then", node.body), ("otherwise", node.orelse))
            ]
            call = self.make("cond", [test, *(_load(f.name) for f in functions)], node)
            return [*functions, ast.Return(call)], defined
        order = _in_order([*node.body, *node.orelse])
        state = [x for x in order if x in after]
        if not state:
            return [ast.Expr(test)], defined
        self.unset |= set(state) - defined
        inside = defined | set(state)
        functions = [self.inner(f"then_{node.lineno}", node.body, state, after, inside)]
        other: ast.expr = ast.Constant(None)
        if set(state) & assigned(node.orelse):
            name = f"otherwise_{node.lineno}"
            functions.append(self.inner(name, node.orelse, state, after, inside))
            other = _load(name)
        arguments = [test, _load(functions[0].name), other, *map(_load, state)]
        result = ast.Assign([_assigning(_tuple(state))], self.make("cond", arguments, node))
        both = assigned_surely(node.body) & assigned_surely(node.orelse)
        return [*functions, result], defined | both

    def inner(
        self,
        name: str,
        body: Sequence[ast.stmt],
        state: Sequence[str],
        after: set[str],
        defined: set[str],
        returned: Sequence[str] | None = None,
    ) -> ast.FunctionDef:
        """The function of a block: its arguments are the state, which it returns."""
        own = assigned(body)
        # A variable that the block reads before it sets it for itself keeps its value by a default.
        needed = sorted((own & live(body, set(state) | after)) - set(state))
        self.unset |= set(needed) - defined
        outgoing = list(state if returned is None else returned)
        # What the block sets is its own: a value from outside comes in as an argument only.
        inside = (defined - own) | set(state) | set(needed)
        with self.within(body):
            new, _ = self.scoped(body, set(outgoing) or after, inside)
        if not isinstance(new[-1], ast.Return):
            several = ast.Tuple([_load(x) for x in outgoing], ast.Load())
            new = [*new, ast.Return(_tuple(outgoing) if returned is None else several)]
        return _function(name, state, new, needed)

    def loop(
        self, node: ast.While, after: set[str], defined: set[str]
    ) -> tuple[list[ast.stmt], set[str]]:
        """`while` as `while_loop` over the variables that it changes."""
        head = live([node], after)
        order = _in_order(node.body)
        wanted = [x for x in order if x in after]
        state = [*wanted, *(x for x in order if x in head and x not in after)]
        if not wanted:
            return [], defined
        self.unset |= set(state) - defined
        inside = defined | set(state)
        body = self.inner(f"body_{node.lineno}", node.body, state, head, inside, state)
        with self.within([node.test]):
            going_on = self.truth(node.test)
        test = _function(f"going_on_{node.lineno}", state, [ast.Return(going_on)])
        start = ast.Tuple([_load(x) for x in state], ast.Load())
        more = {"keep": ast.Constant(len(wanted))} if len(wanted) < len(state) else {}
        call = self.make("while_loop", [_load(test.name), _load(body.name), start], node, **more)
        target = ast.Tuple([_store(x) for x in wanted], ast.Store())
        return [test, body, ast.Assign([target], call)], defined

    # -- expressions

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """A comparison, or a chain of them."""
        left: ast.expr = self.visit(node.left)
        parts: list[ast.expr] = []
        for k, (operation, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            new: ast.expr = self.visit(right)
            again = new
            if k + 1 < len(node.ops) and not isinstance(new, (ast.Name, ast.Constant)):
                name = self.fresh()
                again = placed(_load(name), right)
                new = placed(ast.NamedExpr(_store(name), new), right)
            parts.append(self.comparison(operation, left, new, node))
            left = copy.deepcopy(again)
        # Nested, so that each part sees what the parts before it have computed.
        whole = parts.pop()
        while parts:
            whole = self.make("and_", [parts.pop(), _thunk(whole)], node)
        return whole

    def comparison(
        self, operation: ast.cmpop, left: ast.expr, right: ast.expr, at: ast.Compare
    ) -> ast.expr:
        tool = _COMPARE.get(type(operation))
        if tool:
            return self.make(tool, [left, right], at)
        if isinstance(operation, (ast.In, ast.NotIn)):
            result = self.make("contains", [right, left], at)
            return result if isinstance(operation, ast.In) else self.make("not_", [result], at)
        return ast.Compare(left, [operation], [right])

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """`and`, `or`; what stands behind is evaluated only where Python would."""
        first = self.visit(node.values[0])
        with self.within(node.values[1:]):
            others = [self.visit(value) for value in node.values[1:]]
        tool = "and_" if isinstance(node.op, ast.And) else "or_"
        return self.make(tool, [first, *map(_thunk, others)], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """`not`, and `~`, which is for plain numbers."""
        if isinstance(node.op, ast.Not):
            return self.make("not_", [self.truth(node.operand)], node)
        new = cast(ast.UnaryOp, self.generic_visit(node))
        if isinstance(node.op, ast.Invert):
            return self.make("program.inverted", [new.operand], node)
        return new

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """`//`, `%`, `&`, `|` and `^`, which are for plain numbers; the others stay."""
        new = cast(ast.BinOp, self.generic_visit(node))
        symbol = _WHOLE.get(type(node.op))
        if symbol:
            return self.make("program.whole", [new.left, new.right, ast.Constant(symbol)], node)
        return new

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """`a if c else b`."""
        test = self.truth(node.test)
        with self.within([node.body, node.orelse]):
            parts = [_thunk(self.visit(x)) for x in (node.body, node.orelse)]
        return self.make("cond", [test, *parts], node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """x[i], read."""
        base, places = places_of(node)
        if is_tensors(places):
            return cast(ast.expr, self.generic_visit(node))
        value = self.visit(base)
        new, decision = self.places(places)
        with self.named(decision):
            read = self.make("index", [value, *new], node)
        return self.make("flow.here", [read], node) if self.guarded else read

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        """Filters must be plain: they decide how long a list is."""
        node.iter = self.loop_source(node.iter)
        node.ifs = [self.make("comparisons.decided", [self.truth(test)], test) for test in node.ifs]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        """A function within an expression."""
        saved, self.local = self.local, self.local | parameters(node)
        node.body = self.visit(node.body)
        self.local = saved
        return node

    def is_smooth(self, node: ast.Call) -> bool:
        """Whether a call names a decision."""
        callee = resolved(node.func, self.local, self.scope)
        return callee is not None and callee is getattr(self.toolbox, "smooth", None)

    def decision(self, node: ast.Call) -> str:
        """The name in smooth("name", ...)."""
        name = node.args[0] if node.args else None
        if len(node.args) != 2 or node.keywords or not isinstance(name, ast.Constant):
            raise self.source.refuse(node, 'write smooth("name", expression), the name in quotes')
        if not isinstance(name.value, str):
            raise self.source.refuse(node, f"the name of a decision is text, got {name.value!r}")
        if name.value not in self.decisions:
            self.decisions.append(name.value)
        return name.value

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Builtins by their relaxed forms, functions of the user's by way of `call`."""
        if self.is_smooth(node):
            with self.named(self.decision(node)):
                return self.visit(node.args[1])
        arguments = [self.visit(x) for x in node.args]
        keywords = [ast.keyword(x.arg, self.visit(x.value)) for x in node.keywords]
        callee = resolved(node.func, self.local, self.scope)
        tool = self.known(callee)
        if tool and not (tool in _BUILTINS and keywords):
            new = self.make(tool, arguments, node)
            new.keywords = [*keywords, *new.keywords]
            return new
        is_plain = self.is_plain(node.func, callee)  # of the text: visits change it
        function = node.func if isinstance(node.func, ast.Name) else self.visit(node.func)
        if is_plain:
            return ast.Call(function, arguments, keywords)
        new = self.make("program.call", [function, *arguments], node)
        new.keywords = keywords
        return new

    def known(self, callee: Any) -> str | None:
        """The function of the toolbox that takes the place of one in the text."""
        if callee is range:
            return "flow.counted"
        for name in _ON_BITS:
            if callee is getattr(torch, name):
                return f"program.{name}"
        for name in _BUILTINS:
            if callee is getattr(builtins, name):
                return name
        if isinstance(callee, types.FunctionType):
            for name in NAMED:
                if callee is getattr(self.toolbox, name, None):
                    return name
        return None

    def is_plain(self, node: ast.expr, callee: Any) -> bool:
        """Whether a call can stay as it is: of a program, of torch, of a method of a value."""
        if isinstance(node, ast.Attribute):
            owner = resolved(node.value, self.local, self.scope)
            if not isinstance(owner, types.ModuleType):
                # A method of a value; that of an object from outside may hold decisions.
                root = node.value
                while isinstance(root, ast.Attribute):
                    root = root.value
                return not isinstance(root, ast.Name) or (
                    root.id in self.local and root.id != "self"
                )
            if owner.__name__.split(".")[0] == "torch":
                return True
        if callee is None:
            return False
        if isinstance(callee, self.toolbox.Program):
            return True
        if any(callee is getattr(builtins, name) for name in _PLAIN):
            return True
        module = (getattr(callee, "__module__", None) or "").split(".")
        return module[0] == "torch" or (
            module[:2] == ["gendr", "relaxed"] and module[2:3] != ["programs"]
        )


# What a program may call where it is not taken: no value that does not exist, no infinite slope.
_TAME = {
    "len", "range", "enumerate", "zip", "reversed", "list", "tuple", "int", "float", "isinstance",
    "max", "min", "abs", "sum", "any", "all", "smooth", "argmax", "argmin", "zeros", "full",
    "array", "copy",
}  # fmt: skip


def _is_tame(nodes: Sequence[ast.AST]) -> bool:
    """Whether nothing but sums, products and comparisons is computed."""
    for node in (x for part in nodes for x in ast.walk(part)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name not in _TAME:
                return False
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Pow)):
            tame = (int, float) if isinstance(node.op, ast.Div) else int  # not a root
            if not (isinstance(node.right, ast.Constant) and isinstance(node.right.value, tame)):
                return False
    return True


def _assigning(node: ast.expr) -> ast.expr:
    for inner in ast.walk(node):
        if isinstance(inner, (ast.Name, ast.Tuple)):
            inner.ctx = ast.Store()
    return node


def _in_order(body: Sequence[ast.stmt]) -> list[str]:
    """The variables that statements change, in the order of their appearance."""
    result: list[str] = []
    for node in body:
        for name in sorted(assigned([node]), key=lambda x: _first(node, x)):
            if name not in result:
                result.append(name)
    return result


def _first(node: ast.AST, name: str) -> tuple[int, int]:
    places = [
        (x.lineno, x.col_offset) for x in ast.walk(node) if isinstance(x, ast.Name) and x.id == name
    ]
    return min(places, default=(0, 0))


def assigned_surely(body: Sequence[ast.stmt]) -> set[str]:
    """The variables that statements surely set."""
    result: set[str] = set()
    for node in body:
        if isinstance(node, ast.If):
            result |= assigned_surely(node.body) & assigned_surely(node.orelse)
        elif not isinstance(node, (ast.For, ast.While)):
            result |= assigned([node])
    return result


def _ends(node: ast.If) -> bool:
    """Whether both branches of a settled `if` return."""
    return any(isinstance(x, ast.Return) for x in own_nodes(node))
