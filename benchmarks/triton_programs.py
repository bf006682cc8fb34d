"""Triton kernels evaluated with NumPy, all programs at once: results, and how often they loop.

Triton's own interpreter runs program after program; here a scalar is an array [P] over the programs
of a launch and a block an array [P, ...], so that small kernels take milliseconds. For kernels that
only their loops are wanted of, `trips` evaluates what the conditions of the loops depend on and
leaves the rest out. Only what kernels of gendr use is known here; anything else is an error that
names it.
"""

from __future__ import annotations

import ast
import itertools
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from pretend_gpu import Launch
from torch import Tensor

LANES = 2_000_000  # elements of an array over programs and blocks
LARGEST = 1 << 12  # elements of a block of a kernel that is evaluated whole
MANY = 1_000_000  # rounds of loops after which a kernel is not evaluated whole

Loop = tuple[str, int]  # function and line, counted from its first


class Unknown(NotImplementedError):
    """Something of Triton that is not known here."""


@dataclass(frozen=True)
class Pointer:
    """Addresses: a flat array and offsets into it."""

    base: np.ndarray
    offset: Any = 0


# -- numbers and blocks over programs


class Block:
    """An array whose first axis runs over programs (or is 1) and whose others are the block's."""

    def __init__(self, data: Any) -> None:
        self.data = np.asarray(data)

    @property
    def rank(self) -> int:
        """The number of axes of the block: 0 for a scalar."""
        return self.data.ndim - 1

    def raised(self, rank: int) -> np.ndarray:
        """The array with axes of 1 before those of the block, so that they are `rank`."""
        ones = (1,) * (rank - self.rank)
        return self.data.reshape(self.data.shape[:1] + ones + self.data.shape[1:])


def together(function: Callable[..., Any], *xs: Any) -> Any:
    """A NumPy function of blocks and numbers."""
    rank = max((x.rank for x in xs if isinstance(x, Block)), default=None)
    if rank is None:
        return function(*xs)
    return Block(function(*(x.raised(rank) if isinstance(x, Block) else x for x in xs)))


def _divide(x: Any, y: Any) -> Any:
    """Towards zero, as on a GPU; division by zero gives 0."""
    with np.errstate(divide="ignore"):
        q = np.floor_divide(np.abs(x), np.abs(y))
    return np.where(np.sign(x) * np.sign(y) < 0, -q, q).astype(np.result_type(x, y))


def _remainder(x: Any, y: Any) -> Any:
    return (x - _divide(x, y) * y).astype(np.result_type(x, y))


def _true_divide(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        return x / y


_BINARY: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: _true_divide,
    ast.FloorDiv: _divide, ast.Mod: _remainder, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.Pow: operator.pow,
}  # fmt: skip
_NUMBERS: dict[type[ast.AST], Callable[..., Any]] = {
    **_BINARY, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Div: operator.truediv,
}  # fmt: skip
_COMPARE: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip


def binary(kind: type[ast.AST], x: Any, y: Any) -> Any:
    """The value of `x + y` and the like, of pointers too."""
    if isinstance(x, Pointer):
        return Pointer(x.base, binary(kind, x.offset, y))
    if isinstance(y, Pointer):
        return Pointer(y.base, binary(kind, y.offset, x))
    if not isinstance(x, Block) and not isinstance(y, Block):
        return _NUMBERS[kind](x, y)
    with np.errstate(all="ignore"):
        return together(_BINARY[kind], x, y)


def _reduce(function: Callable[..., Any], x: Any, axis: int | None) -> Block:
    if axis is None:
        return Block(function(x.data, axis=tuple(range(1, x.data.ndim))))
    return Block(function(x.data, axis=axis + 1 if axis >= 0 else axis))


def _dtype(x: Any) -> Any:
    """A NumPy type for one of Triton's."""
    name = str(getattr(x, "value", x)).removeprefix("triton.language.")
    names = {"fp16": "float16", "fp32": "float32", "fp64": "float64", "int1": "bool"}
    return np.dtype(names.get(name, name))


# -- what a kernel says


@cache
def _parsed(function: Any) -> ast.FunctionDef:
    tree = function.parse()
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    return definition


@cache
def _scope(function: Any) -> dict[str, Any]:
    return function.get_capture_scope()


def _is_kernel(x: Any) -> bool:
    """Whether it is a function for kernels that is not Triton's own."""
    return hasattr(x, "parse") and not x.fn.__module__.startswith("triton.")


def _name(x: Any) -> str:
    return getattr(x, "__name__", None) or getattr(getattr(x, "fn", None), "__name__", str(x))


def _names(node: ast.AST) -> set[str]:
    return {x.id for x in ast.walk(node) if isinstance(x, ast.Name)}


def _called(node: ast.AST, scope: dict[str, Any]) -> Iterator[Any]:
    """The functions for kernels that a part of one calls."""
    for x in ast.walk(node):
        if isinstance(x, ast.Call) and isinstance(x.func, ast.Name):
            found = scope.get(x.func.id)
            if _is_kernel(found):
                yield found


def _stores(node: ast.AST) -> Iterator[ast.Call]:
    for x in ast.walk(node):
        if isinstance(x, ast.Call) and isinstance(x.func, ast.Attribute):
            if x.func.attr == "store" or x.func.attr.startswith("atomic_"):
                yield x


def loops(function: Any, scope: dict[str, Any] | None = None) -> list[Loop]:
    """The loops of a kernel that a GPU runs as loops, those of functions it calls included."""
    tree, own = _parsed(function), _scope(function) | (scope or {})
    found = [
        (_name(function), x.lineno)
        for x in ast.walk(tree)
        if isinstance(x, ast.While) or (isinstance(x, ast.For) and not _is_static(x))
    ]
    for callee in dict.fromkeys(_called(tree, own)):
        found += loops(callee, scope)
    return found


def _is_static(loop: ast.For) -> bool:
    return "static_range" in ast.unparse(loop.iter)


def written(function: Any, scope: dict[str, Any]) -> set[str]:
    """The parameters that a kernel stores through."""
    tree = _parsed(function)
    bases = {name: name for name in function.arg_names}

    def base(node: ast.AST) -> str | None:
        """The parameter that a sum of pointer and offsets begins with."""
        while isinstance(node, ast.BinOp):
            node = node.left
        return bases.get(node.id) if isinstance(node, ast.Name) else None

    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found = base(node.value)
            if found is not None and node.targets[0].id not in bases:
                bases[node.targets[0].id] = found
    out = {base(call.args[0]) for call in _stores(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            callee: Any = (_scope(function) | scope).get(node.func.id)
            if _is_kernel(callee):
                through = written(callee, scope)
                pairs = zip(callee.arg_names, node.args, strict=False)  # keywords are no pointers
                out |= {base(x) for name, x in pairs if name in through}
    return {name for name in out if name is not None}


def _slice(function: Any, scope: dict[str, Any]) -> ast.FunctionDef:
    """What the conditions of a kernel's loops and branches depend on."""
    tree = _parsed(function)
    needed: set[str] = set()
    size = -1
    while size != len(needed):
        size = len(needed)
        for x in ast.walk(tree):
            if isinstance(x, ast.While | ast.If):
                needed |= _names(x.test)
            elif isinstance(x, ast.For):
                needed |= _names(x.iter)
            elif _is_needed(x, needed, scope):
                needed |= _names(x)

    def kept(body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for x in body:
            if isinstance(x, ast.While):
                out.append(ast.While(x.test, kept(x.body), [], lineno=x.lineno))
            elif isinstance(x, ast.For):
                new = ast.For(x.target, x.iter, kept(x.body), [], lineno=x.lineno)
                if new.body or not _is_static(x):
                    out.append(new)
            elif isinstance(x, ast.If):
                then, other = kept(x.body), kept(x.orelse)
                if then or other:
                    out.append(ast.If(x.test, then, other, lineno=x.lineno))
            elif _is_needed(x, needed, scope):
                out.append(x)
        return out

    return ast.FunctionDef(tree.name, tree.args, kept(tree.body), [], lineno=tree.lineno)


def _is_needed(x: ast.AST, needed: set[str], scope: dict[str, Any]) -> bool:
    if isinstance(x, ast.Expr | ast.Assign) and any(loops(f, scope) for f in _called(x, scope)):
        return True
    targets = x.targets if isinstance(x, ast.Assign) else [getattr(x, "target", None)]
    if not isinstance(x, ast.Assign | ast.AugAssign | ast.AnnAssign):
        return False
    return bool(needed & set().union(*(_names(t) for t in targets if t is not None)))


# -- running it


class Returned(Exception):
    """A function's value."""


class Machine:
    """Programs of a launch that run side by side.

    Args:
        launch: whose kernel.
        first: of its programs.
        last: of its programs, not included.
        dry: nothing is stored, and only what loops depend on is computed.
    """

    def __init__(self, launch: Launch, first: int, last: int, dry: bool) -> None:
        self.launch, self.dry = launch, dry
        grid = (*launch.grid, 1, 1)[:3]
        number = np.arange(first, last, dtype=np.int32)
        self.ids = (number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1]))
        self.grid, self.count = grid, last - first
        self.mask: np.ndarray | None = None  # [P] programs that are active
        self.trips: dict[Loop, np.ndarray] = {}
        self.entered: np.ndarray | None = None  # the mask when the running function began

    def run(self) -> None:
        """Run the kernel from its first line to its last."""
        kernel, constants = self.launch.kernel, self.launch.constants
        env = {n: _given(x) for n, x in zip(kernel.arg_names, self.launch.args, strict=False)}
        env |= {name: _given(x) for name, x in constants.items() if name in kernel.arg_names}
        tree = _slice(kernel, _scope(kernel) | constants) if self.dry else _parsed(kernel)
        with np.errstate(all="ignore"):
            self.body(tree.body, env, kernel)

    # statements

    def body(self, body: list[ast.stmt], env: dict[str, Any], function: Any) -> None:
        """Run one statement after the other."""
        for x in body:
            self.statement(x, env, function)

    def statement(self, x: ast.stmt, env: dict[str, Any], function: Any) -> None:
        """Do what a statement says."""

        def value(node: ast.expr) -> Any:
            return self.value(node, env, function)

        match x:
            case ast.Assign(targets=[target]):
                self.assign(target, value(x.value), env)
            case ast.AnnAssign(value=ast.expr() as given):
                self.assign(x.target, value(given), env)
            case ast.AugAssign(target=ast.Name(id=name)):
                self.assign(ast.Name(name), binary(type(x.op), env[name], value(x.value)), env)
            case ast.Expr():
                if not isinstance(x.value, ast.Constant):
                    value(x.value)
            case ast.Return():
                if self.mask is not self.entered:
                    raise Unknown("a return that not all programs reach")
                raise Returned(None if x.value is None else value(x.value))
            case ast.If():
                self.branch(value(x.test), x, env, function)
            case ast.While():
                self.loop(x, env, function)
            case ast.For():
                self.steps(x, env, function)
            case ast.Pass() | ast.Assert():
                pass
            case _:
                raise Unknown(ast.unparse(x))

    def assign(self, target: ast.expr, value: Any, env: dict[str, Any]) -> None:
        """Set a name where programs are active; elsewhere its value stays."""
        if isinstance(target, ast.Tuple):
            for t, v in zip(target.elts, value, strict=True):
                self.assign(t, v, env)
            return
        if not isinstance(target, ast.Name):
            raise Unknown(ast.unparse(target))
        env[target.id] = self.merged(value, env.get(target.id))

    def merged(self, new: Any, old: Any) -> Any:
        """New where programs are active."""
        if self.mask is None or old is None or new is old or self.mask.all():
            return new
        if isinstance(new, Pointer) and isinstance(old, Pointer):
            return Pointer(new.base, self.merged(new.offset, old.offset))
        if isinstance(new, list | tuple):
            return [self.merged(x, before) for x, before in zip(new, old, strict=True)]
        return together(np.where, Block(self.mask), new, old)

    def branch(self, test: Any, x: ast.If, env: dict[str, Any], function: Any) -> None:
        """Both sides, where programs differ."""
        if not isinstance(test, Block):
            self.body(x.body if test else x.orelse, env, function)
            return
        before = self.mask
        taken = np.broadcast_to(test.data.astype(bool), (self.count,))
        for side, body in ((taken, x.body), (~taken, x.orelse)):
            self.mask = side if before is None else before & side
            if self.mask.any() and body:
                self.body(body, env, function)
        self.mask = before

    def loop(self, x: ast.While, env: dict[str, Any], function: Any) -> None:
        """Until no program is left in it."""
        key = (_name(function), x.lineno)
        trips = self.trips.setdefault(key, np.zeros(self.count, np.int64))
        before = self.mask
        inside = np.ones(self.count, bool) if before is None else before
        while True:
            test = self.value(x.test, env, function)
            inside = inside & (test.data.astype(bool) if isinstance(test, Block) else bool(test))
            if not inside.any():
                break
            trips += inside
            self.mask = inside
            self.body(x.body, env, function)
        self.mask = before

    def steps(self, x: ast.For, env: dict[str, Any], function: Any) -> None:
        """`range` and `tl.static_range`."""
        call = x.iter
        if not isinstance(call, ast.Call) or not isinstance(x.target, ast.Name):
            raise Unknown(ast.unparse(x))
        bounds = [self.value(a, env, function) for a in call.args]
        first, last, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: tuple(bounds)}[len(bounds)]
        if _is_static(x) or not any(isinstance(b, Block) for b in bounds):
            key = (_name(function), x.lineno)
            for k in range(first, last, step):
                if not _is_static(x):
                    trips = self.trips.setdefault(key, np.zeros(self.count, np.int64))
                    trips += True if self.mask is None else self.mask
                env[x.target.id] = k
                self.body(x.body, env, function)
            return
        name = x.target.id
        env[name] = together(lambda a, b: a + 0 * b, first, Block(self.ids[0]))
        end = f"{name} end"
        env[end] = last
        move = ast.AugAssign(ast.Name(name), ast.Add(), ast.Constant(step))
        test = ast.Compare(ast.Name(name), [ast.Lt()], [ast.Name(end)])
        self.loop(ast.While(test, [*x.body, move], [], lineno=x.lineno), env, function)

    # expressions

    def value(self, x: ast.expr, env: dict[str, Any], function: Any) -> Any:
        """The value of an expression."""

        def value(node: ast.expr) -> Any:
            return self.value(node, env, function)

        match x:
            case ast.Constant():
                return x.value
            case ast.Name(id=name):
                return env[name] if name in env else _plain(_global(function, name))
            case ast.Tuple() | ast.List():
                return [value(e) for e in x.elts]
            case ast.BinOp():
                return binary(type(x.op), value(x.left), value(x.right))
            case ast.UnaryOp():
                return self.unary(x.op, value(x.operand))
            case ast.BoolOp():
                return self.joined(x, [value(v) for v in x.values])
            case ast.Compare(ops=[op]):
                left, right = value(x.left), value(x.comparators[0])
                if isinstance(op, ast.Is | ast.IsNot):
                    return (left is right) == isinstance(op, ast.Is)
                return together(_COMPARE[type(op)], left, right)
            case ast.IfExp():
                test = value(x.test)
                if isinstance(test, Block):
                    return together(np.where, test, value(x.body), value(x.orelse))
                return value(x.body) if test else value(x.orelse)
            case ast.Attribute():
                return _plain(getattr(value(x.value), x.attr))
            case ast.Subscript():
                return _indexed(value(x.value), x.slice, value)
            case ast.Call():
                return self.call(x, env, function)
            case _:
                raise Unknown(ast.unparse(x))

    @staticmethod
    def unary(op: ast.unaryop, x: Any) -> Any:
        """-x, ~x, not x."""
        if isinstance(op, ast.USub):
            return together(operator.neg, x)
        if isinstance(op, ast.Not) and not isinstance(x, Block):
            return not x
        return together(np.logical_not if isinstance(op, ast.Not) else np.invert, x)

    @staticmethod
    def joined(x: ast.BoolOp, values: list[Any]) -> Any:
        """`and`, `or`."""
        both = isinstance(x.op, ast.And)
        if not any(isinstance(v, Block) for v in values):
            return all(values) if both else any(values)
        out = values[0]
        for v in values[1:]:
            out = together(np.logical_and if both else np.logical_or, out, v)
        return out

    def call(self, x: ast.Call, env: dict[str, Any], function: Any) -> Any:
        """A function for kernels, one of Triton's, or a method of a block."""
        args = [self.value(a, env, function) for a in x.args]
        named = {k.arg: self.value(k.value, env, function) for k in x.keywords if k.arg}
        if isinstance(x.func, ast.Attribute) and not isinstance(x.func.value, ast.Name):
            return self.method(x.func.attr, [self.value(x.func.value, env, function), *args], named)
        if isinstance(x.func, ast.Attribute):
            owner = self.value(x.func.value, env, function)
            if isinstance(owner, Block | Pointer | int | float | np.generic):
                return self.method(x.func.attr, [owner, *args], named)
            return self.method(x.func.attr, args, named)
        callee = self.value(x.func, env, function)
        if not _is_kernel(callee):
            return self.method(_name(callee), args, named)
        inner = dict(zip(callee.arg_names, args, strict=False)) | named
        defaults = {p.name: p.default for p in callee.params if p.has_default}
        inner = {name: _plain(v) for name, v in defaults.items()} | inner
        before, self.entered = self.entered, self.mask
        try:
            self.body(_parsed(callee).body, inner, callee)
        except Returned as returned:
            return returned.args[0]
        finally:
            self.entered = before
        return None

    def method(self, name: str, args: list[Any], named: dict[str, Any]) -> Any:
        """What Triton calls so."""
        own = getattr(self, f"_{name}", None)
        if own is None:
            raise Unknown(f"tl.{name}")
        return own(*args, **named)

    # what Triton offers

    def _program_id(self, axis: int) -> Block:
        return Block(self.ids[axis])

    def _num_programs(self, axis: int) -> Block:
        return Block(np.full(1, self.grid[axis], np.int32))

    def _arange(self, first: int, last: int) -> Block:
        return Block(np.arange(first, last, dtype=np.int32)[None])

    def _zeros(self, shape: Any, dtype: Any) -> Block:
        return self._full(shape, 0, dtype)

    def _full(self, shape: Any, value: Any, dtype: Any) -> Block:
        sizes = [int(n) for n in (shape if isinstance(shape, list | tuple) else [shape])]
        zeros = Block(np.zeros((1, *sizes), _dtype(dtype)))
        return together(lambda z, v: z + np.asarray(v).astype(z.dtype), zeros, value)

    def _zeros_like(self, x: Block) -> Block:
        return Block(np.zeros_like(x.data))

    def _where(self, test: Any, x: Any, y: Any) -> Any:
        if not isinstance(test, Block) and not isinstance(x, Block) and not isinstance(y, Block):
            return x if test else y
        if isinstance(x, Pointer):
            if not isinstance(y, Pointer) or y.base is not x.base:
                raise Unknown("a choice between two tensors")
            return Pointer(x.base, self._where(test, x.offset, y.offset))
        return together(np.where, test, x, y)

    def _minimum(self, x: Any, y: Any, **_: Any) -> Any:
        return together(np.fmin, x, y)

    def _maximum(self, x: Any, y: Any, **_: Any) -> Any:
        return together(np.fmax, x, y)

    def _min(self, x: Any, axis: Any = None, **_: Any) -> Any:
        if isinstance(axis, Block) or not isinstance(x, Block):
            return together(np.fmin, x, axis)  # min(a, b)
        return _reduce(np.min, x, axis)

    def _max(self, x: Any, axis: Any = None, **_: Any) -> Any:
        if isinstance(axis, Block) or not isinstance(x, Block):
            return together(np.fmax, x, axis)
        return _reduce(np.max, x, axis)

    def _sum(self, x: Block, axis: int | None = None, **_: Any) -> Block:
        return Block(_reduce(np.sum, x, axis).data.astype(_summed(x.data.dtype)))

    def _cumsum(self, x: Block, axis: int = 0, **_: Any) -> Block:
        return Block(np.cumsum(x.data, axis=axis + 1, dtype=_summed(x.data.dtype)))

    def _fma(self, x: Any, y: Any, z: Any) -> Any:
        return binary(ast.Add, binary(ast.Mult, x, y), z)

    def _abs(self, x: Any) -> Any:
        return together(np.abs, x)

    def _to(self, x: Any, dtype: Any, bitcast: bool = False, **_: Any) -> Any:
        kind = _dtype(dtype)
        x = x if isinstance(x, Block) else Block(np.asarray([x]))
        if not bitcast:
            return Block(x.data.astype(kind))
        # NumPy may have made wider numbers of them than Triton does.
        same = np.dtype(f"{x.data.dtype.kind}{kind.itemsize}")
        return Block(x.data.astype(same, copy=False).view(kind))

    _cast = _to

    def _cdiv(self, x: Any, y: Any) -> Any:
        return binary(ast.FloorDiv, binary(ast.Add, x, binary(ast.Sub, y, 1)), y)

    def _broadcast_to(self, x: Any, *shape: Any) -> Block:
        sizes = shape[0] if isinstance(shape[0], list | tuple) else shape
        return together(lambda v, z: v + z, x, Block(np.zeros((1, *sizes), x.data.dtype)))

    def _expand_dims(self, x: Block, axis: int) -> Block:
        return Block(np.expand_dims(x.data, axis + 1))

    def _reshape(self, x: Block, *shape: Any) -> Block:
        sizes = shape[0] if isinstance(shape[0], list | tuple) else shape
        return Block(x.data.reshape(x.data.shape[0], *sizes))

    def _nothing(self, *_: Any, **__: Any) -> None:
        return None

    _debug_barrier = _static_assert = _device_assert = _assume = _nothing

    def _multiple_of(self, x: Any, *_: Any) -> Any:
        return x

    _max_contiguous = _max_constancy = _multiple_of

    def _load(self, where: Pointer, mask: Any = None, other: Any = 0, **_: Any) -> Any:
        offset, on = self._addresses(where, mask)
        if where.base.size == 0:
            found = np.zeros(offset.shape, where.base.dtype)
        else:
            found = where.base[np.where(on, offset, 0)]
        if mask is None:
            return Block(found)
        return together(np.where, Block(on), Block(found), self._to_kind(other, where))

    @staticmethod
    def _to_kind(other: Any, where: Pointer) -> Any:
        kind = where.base.dtype
        return Block(other.data.astype(kind)) if isinstance(other, Block) else kind.type(other or 0)

    def _store(self, where: Pointer, value: Any, mask: Any = None, **_: Any) -> None:
        if self.dry:
            return
        offset, on = self._addresses(where, mask)
        shape = together(lambda o, v: np.broadcast_arrays(o, v)[1], Block(offset), value)
        given = shape.data
        on = np.broadcast_to(on, given.shape)
        where.base[np.broadcast_to(offset, given.shape)[on]] = given[on]

    def _addresses(self, where: Pointer, mask: Any) -> tuple[np.ndarray, np.ndarray]:
        """Offsets and whether they are on, arrays over programs and block."""
        offset = where.offset if isinstance(where.offset, Block) else Block([where.offset])
        on: Any = Block(np.ones((self.count,), bool) if self.mask is None else self.mask)
        if mask is not None:
            on = together(np.logical_and, on, mask)
        rank = max(on.rank, offset.rank)
        pair = np.broadcast_arrays(offset.raised(rank), on.raised(rank))
        return pair[0], pair[1]

    def _atomic(self, where: Pointer, value: Any, mask: Any, join: Any) -> Block:
        """Join values with memory in the order of programs and lanes; return what was there."""
        offset, on = self._addresses(where, mask)
        given = together(lambda o, v: np.broadcast_arrays(o, v)[1], Block(offset), value).data
        before = np.zeros(given.shape, where.base.dtype)
        if not self.dry:
            for i in zip(*np.nonzero(np.broadcast_to(on, given.shape)), strict=True):
                before[i] = where.base[offset[i]]
                where.base[offset[i]] = join(before[i], given[i])
        return Block(before)

    def _atomic_add(self, where: Pointer, value: Any, mask: Any = None, **_: Any) -> Block:
        return self._atomic(where, value, mask, operator.add)

    def _atomic_or(self, where: Pointer, value: Any, mask: Any = None, **_: Any) -> Block:
        return self._atomic(where, value, mask, operator.or_)

    def _atomic_max(self, where: Pointer, value: Any, mask: Any = None, **_: Any) -> Block:
        return self._atomic(where, value, mask, max)


def _summed(kind: Any) -> Any:
    """Triton adds small integers as int32."""
    return np.dtype(np.int32) if kind.kind in "bi" and kind.itemsize < 4 else kind


def _elementwise(function: Any) -> Any:
    return lambda self, x: together(function, x)


for _function in ("floor", "ceil", "sqrt", "exp", "exp2", "log", "log2", "sin", "cos"):
    setattr(Machine, f"_{_function}", _elementwise(getattr(np, _function)))
Machine._rsqrt = _elementwise(lambda x: 1 / np.sqrt(x))  # pyright: ignore
for _function in ("sqrt_rn",):
    setattr(Machine, f"_{_function}", _elementwise(np.sqrt))
Machine._div_rn = lambda self, x, y: binary(ast.Div, x, y)  # pyright: ignore
Machine._int = lambda self, x: int(x)  # pyright: ignore
Machine._float = lambda self, x: float(x)  # pyright: ignore


def _global(function: Any, name: str) -> Any:
    scope = _scope(function)
    if name in scope:
        return scope[name]
    builtin = {"range": range, "min": min, "max": max, "float": float, "int": int, "abs": abs}
    if name in builtin:
        return builtin[name]
    raise Unknown(f"{name} in {_name(function)}")


def _plain(x: Any) -> Any:
    """The value of a constant."""
    return x.value if type(x).__name__ == "constexpr" else x


def _given(x: Any) -> Any:
    """An argument as kernels see it."""
    if isinstance(x, Tensor):
        length = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
        with torch._C._DisableTorchDispatch():
            flat = torch.as_strided(x.detach(), (length,), (1,), x.storage_offset())
        return Pointer(flat.numpy())
    return np.float32(x) if isinstance(x, float) else _plain(x)


def _indexed(x: Any, index: ast.expr, value: Callable[[ast.expr], Any]) -> Any:
    """x[None, :] and the like; an element of a tuple."""
    if isinstance(x, list | tuple):
        return x[value(index)]
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    keys: list[Any] = []
    for part in parts:
        if isinstance(part, ast.Slice):
            keys.append(slice(None))
        elif isinstance(part, ast.Constant) and part.value is None:
            keys.append(None)
        else:
            raise Unknown(ast.unparse(index))
    return Block(x.data[(slice(None), *keys)])


# -- the door


def execute(launch: Launch) -> dict[Loop, np.ndarray]:
    """Do what a launch would, if later launches may depend on it; else find its loops.

    A kernel is run whole if it stores integers (boxes, counts, lists) or has no loop, for then it
    is cheap; of others, only what their loops depend on.

    Returns:
        For every loop, how often each program goes around it, [programs] int64.

    Raises:
        Unknown: for what is not known here of Triton.
    """
    found = trips(launch)
    given = dict(zip(launch.kernel.arg_names, launch.args, strict=False)) | launch.constants
    integers = any(
        isinstance(x := given[name], Tensor) and x.numel() and not x.dtype.is_floating_point
        for name in written(launch.kernel, launch.constants)
        if name in given
    )
    few = sum(int(n.sum()) for n in found.values()) <= MANY
    if (integers and few) or not loops(launch.kernel, launch.constants):
        # A block is at most as large as the product of its compile-time sizes, and never huge.
        sizes = [x for x in launch.constants.values() if isinstance(x, int) and x > 1]
        _all(launch, False, min(LARGEST, max(1, math.prod(sizes))))
    return found


def trips(launch: Launch) -> dict[Loop, np.ndarray]:
    """How often each program of a launch goes around each loop; nothing is stored."""
    found = _all(launch, True, 1)
    programs = math.prod(launch.grid)
    every = loops(launch.kernel, launch.constants)
    return {loop: found.get(loop, np.zeros(programs, np.int64)) for loop in every}


def _all(launch: Launch, dry: bool, lanes: int) -> dict[Loop, np.ndarray]:
    programs = math.prod(launch.grid)
    step = max(1, LANES // lanes)
    parts: list[dict[Loop, np.ndarray]] = []
    for first in range(0, programs, step):
        machine = Machine(launch, first, min(first + step, programs), dry)
        try:
            machine.run()
        except Returned:
            pass
        parts.append(machine.trips)
    keys = dict.fromkeys(itertools.chain.from_iterable(parts))
    sizes = [min(step, programs - first) for first in range(0, programs, step)]
    return {
        key: np.concatenate(
            [p.get(key, np.zeros(n, np.int64)) for p, n in zip(parts, sizes, strict=True)]
        )
        for key in keys
    }
