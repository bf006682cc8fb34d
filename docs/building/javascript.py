"""Kernel functions of distributions and T-conorms in JavaScript, for a page of the site.

A kernel function is plain Python on numbers (see `gendr.kernels.vocabulary`), so it can be
translated word by word. The page then has the formulas that the kernels have, not a copy that
somebody keeps up.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import json
import math
import textwrap
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

from gendr.distributions.kernel_functions import has_shape, kernel_functions
from gendr.distributions.registry import standard_distributions
from gendr.tnorms.base import Parametric
from gendr.tnorms.kernel_functions import kernel_function
from gendr.tnorms.registry import family
from gendr.tnorms.registry import names as tconorms

# What JavaScript calls the functions of the module `math`; those of `support` are written below.
_MATH = {
    "exp": "Math.exp", "expm1": "Math.expm1", "log": "Math.log", "log1p": "Math.log1p",
    "sqrt": "Math.sqrt", "sin": "Math.sin", "cos": "Math.cos", "asin": "Math.asin",
    "atan": "Math.atan", "atan2": "Math.atan2", "erf": "support.erf", "erfc": "support.erfc",
    "lgamma": "support.lgamma", "isinf": "support.isinf",
}  # fmt: skip
_BUILTIN = {abs: "Math.abs", min: "Math.min", max: "Math.max"}
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**",
    ast.BitAnd: "&", ast.BitOr: "|", ast.And: "&&", ast.Or: "||",
    ast.USub: "-", ast.UAdd: "+", ast.Not: "!",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "===", ast.NotEq: "!==",
}  # fmt: skip


class Translation:
    """JavaScript functions that are translated from Python ones, with all that they call."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._kept: list[FunctionType] = []  # an id is taken only while its function lives
        self._text: list[str] = []

    def name(self, function: Callable[..., Any]) -> str:
        """Translate a function unless that is done; returns its name in JavaScript.

        Raises:
            NotImplementedError: if it has a construct or a name that has no translation.
        """
        if not isinstance(function, FunctionType):
            raise NotImplementedError(f"no translation for {function!r}, which is not Python")
        if id(function) not in self._names:
            name = f"{function.__name__.strip('_')}_{len(self._names)}"
            self._names[id(function)] = name
            self._kept.append(function)
            self._text.append(_Function(self, function).text(name))
        return self._names[id(function)]

    def text(self) -> str:
        """The definitions of all functions."""
        return "\n".join(self._text)


class _Function:
    """One function on its way to JavaScript."""

    def __init__(self, translation: Translation, function: FunctionType) -> None:
        self._translation = translation
        self._globals = function.__globals__
        self._where = f"{function.__module__}.{function.__qualname__}"
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        self._tree = tree
        self._arguments = [each.arg for each in tree.args.args]

    def text(self, name: str) -> str:
        own = {
            node.id: None
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        self._locals = {*own, *self._arguments}
        new = [each for each in own if each not in self._arguments]
        declared = [f"  let {', '.join(new)};"] if new else []
        lines = [*declared, *self._block(self._tree.body, "  ")]
        return "\n".join([f"function {name}({', '.join(self._arguments)}) {{", *lines, "}"])

    def _block(self, body: list[ast.stmt], indent: str) -> list[str]:
        return [line for each in body for line in self._statement(each, indent)]

    def _statement(self, node: ast.stmt, indent: str) -> list[str]:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                return []  # the docstring
            case ast.Return(value=ast.expr() as value):
                return [f"{indent}return {self._value(value)};"]
            case ast.Assign(targets=[target], value=value):
                return [f"{indent}{self._value(target)} = {self._value(value)};"]
            case ast.AugAssign(target=target, op=op, value=value):
                return [f"{indent}{self._value(target)} {_operator(op)}= {self._value(value)};"]
            case ast.Break():
                return [f"{indent}break;"]
            case ast.If(test=test, body=body, orelse=orelse):
                lines = [f"{indent}if ({self._value(test)}) {{", *self._block(body, indent + "  ")]
                if orelse:
                    lines += [f"{indent}}} else {{", *self._block(orelse, indent + "  ")]
                return [*lines, f"{indent}}}"]
            case ast.While(test=test, body=body, orelse=[]):
                head = f"{indent}while ({self._value(test)}) {{"
                return [head, *self._block(body, indent + "  "), f"{indent}}}"]
            case ast.For(target=target, iter=ast.Call(args=args), body=body, orelse=[]):
                i = self._value(target)
                first, last, step = self._range(args)
                sign = ">" if step.startswith("(-") else "<"
                head = f"{indent}for ({i} = {first}; {i} {sign} {last}; {i} += {step}) {{"
                return [head, *self._block(body, indent + "  "), f"{indent}}}"]
            case _:
                raise self._refused(node)

    def _range(self, args: list[ast.expr]) -> tuple[str, str, str]:
        values = [self._value(each) for each in args]
        if len(values) == 1:
            return "0", values[0], "1"
        return (values[0], values[1], values[2] if len(values) == 3 else "1")

    def _value(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=bool() as value):
                return str(value).lower()
            case ast.Constant(value=int() | float() as value):
                return _number(value)
            case ast.Name(id=name) if name in self._locals:
                return name
            case ast.Name(id=name):
                value = self._globals.get(name, getattr(builtins, name, None))
                return self._outside(value, node)
            case ast.Attribute(value=ast.Name(id="math"), attr=attr):
                return self._outside(getattr(math, attr), node)
            case ast.Tuple(elts=parts):
                return f"[{', '.join(self._value(each) for each in parts)}]"
            case ast.Call(func=function, args=args, keywords=[]):
                return f"{self._value(function)}({', '.join(self._value(each) for each in args)})"
            case ast.Subscript(value=value, slice=ast.Constant(value=int() as i)):
                return f"{self._value(value)}[{i}]"
            case ast.BinOp(left=left, op=op, right=right):
                return f"({self._value(left)} {_operator(op)} {self._value(right)})"
            case ast.BoolOp(op=op, values=values):
                return f"({f' {_operator(op)} '.join(self._value(each) for each in values)})"
            case ast.UnaryOp(op=op, operand=operand):
                return f"({_operator(op)}{self._value(operand)})"
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return f"({self._value(left)} {_operator(op)} {self._value(right)})"
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return f"({self._value(test)} ? {self._value(body)} : {self._value(orelse)})"
            case _:
                raise self._refused(node)

    def _outside(self, value: Any, node: ast.expr) -> str:
        """A global of the function."""
        if isinstance(value, (int, float)):
            return _number(value)
        if isinstance(value, FunctionType):
            return self._translation.name(value)
        if isinstance(value, BuiltinFunctionType):
            if value.__module__ == "math" and value.__name__ in _MATH:
                return _MATH[value.__name__]
            if value in _BUILTIN:
                return _BUILTIN[value]
        raise self._refused(node)

    def _refused(self, node: ast.AST) -> NotImplementedError:
        return NotImplementedError(f"no translation of `{ast.unparse(node)}` in {self._where}")


def _operator(op: ast.AST) -> str:
    try:
        return _OPERATORS[type(op)]
    except KeyError:
        raise NotImplementedError(f"no translation of {type(op).__name__}") from None


def _number(value: float) -> str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "(-Infinity)"
    return repr(value)


# Functions of `math` that JavaScript lacks. The error function is a sum of positive terms up to 2.5
# and Lentz's continued fraction beyond; the logarithm of gamma has the coefficients of Lanczos
# (g = 7, 9 terms) that the GNU Scientific Library uses.
_SUPPORT = """
const support = {
  isinf(x) { return x === Infinity || x === -Infinity; },
  erf(x) {
    if (x < 0) return -support.erf(-x);
    if (x > 2.5) return 1 - support.erfc(x);
    let term = x, total = x;
    for (let n = 1; n < 200 && term > 1e-17 * total; n++) {
      term *= 2 * x * x / (2 * n + 1);
      total += term;
    }
    return 2 / Math.sqrt(Math.PI) * Math.exp(-x * x) * total;
  },
  erfc(x) {
    if (x < 0) return 2 - support.erfc(-x);
    if (x <= 2.5) return 1 - support.erf(x);
    if (x > 27) return 0;
    let c = x, d = 0, h = x;
    for (let n = 1; n < 500; n++) {
      d = 1 / (x + n / 2 * d);
      c = x + n / 2 / c;
      h *= c * d;
      if (Math.abs(c * d - 1) < 1e-16) break;
    }
    return Math.exp(-x * x) / (h * Math.sqrt(Math.PI));
  },
  lgamma(x) {
    if (x < 0.5) return Math.log(Math.PI / Math.abs(Math.sin(Math.PI * x))) - support.lgamma(1 - x);
    const c = [676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
      12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7];
    let total = 0.99999999999980993;
    for (let i = 0; i < 8; i++) total += c[i] / (x + i);
    const t = x + 6.5;
    return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(total);
  },
};
"""


def formulas() -> str:
    """All distributions and families of T-conorms as JavaScript.

    Returns:
        Definitions of "distributions" and "families", objects by name. A distribution has
        `tails(z, shape, constant)`, which returns [cdf, sf], `density(z, shape, constant)`,
        `constant(shape)`, the default `shape` or null, its `formula`, and whether it `isSymmetric`.
        A family has its `kind`, `formula`, an example `p` or null, and, if a sum folds it,
        `generator(a, s, p)`, `inverse(t, p)`, which returns [A, S], and `weight(a, s, A, S, p)`,
        dA/da.
    """
    made = Translation()
    out = ["const distributions = {};", "const families = {};"]
    for name, cls in standard_distributions().items():
        of = kernel_functions(name)
        facts = {
            "formula": cls.formula,
            "shape": float(cls().shape) if has_shape(of) else None,  # pyright: ignore[reportAttributeAccessIssue]
            "isSymmetric": cls.is_symmetric,
        }
        names = {kind: made.name(of.for_float64(kind)) for kind in ("tails", "density")}
        if has_shape(of):
            names["constant"] = made.name(of.for_float64("constant"))
        out.append(_entry("distributions", name, facts, names))
    for name in tconorms():
        cls = family(name)
        facts = {
            "formula": cls.formula,
            "kind": cls.kind,
            "p": cls.example_p[0] if issubclass(cls, Parametric) else None,
        }
        kinds = ("generator", "inverse", "weight") if cls.kind == "archimedean" else ()
        names = {kind: made.name(kernel_function(name, kind)) for kind in kinds}
        out.append(_entry("families", name, facts, names))
    return "\n".join([_SUPPORT.strip(), made.text(), *out, ""])


def _entry(table: str, name: str, facts: dict[str, Any], functions: dict[str, str]) -> str:
    parts = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in facts.items()]
    parts += [f"{key}: {function}" for key, function in functions.items()]
    return f"{table}[{json.dumps(name)}] = {{{', '.join(parts)}}};"
