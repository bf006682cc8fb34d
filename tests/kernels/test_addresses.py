"""Addresses of a function's own arrays, which Numba frees after their last use."""

import ast
from pathlib import Path

import gendr

PACKAGE = Path(gendr.__file__).parent
NEW = {"empty", "zeros", "ones", "full"}


def assigned(function):
    """Each name that is assigned alone, and what it gets."""
    for node in ast.walk(function):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            names, values = [target], [node.value]
            if isinstance(target, ast.Tuple):
                names = target.elts
                values = getattr(node.value, "elts", [node.value] * len(names))
            pairs = zip(names, values, strict=False)
            yield from ((x.id, y) for x, y in pairs if isinstance(x, ast.Name))


def called(node):
    """The names of the functions that are called in an expression."""
    calls = [x.func for x in ast.walk(node) if isinstance(x, ast.Call)]
    return {getattr(x, "attr", getattr(x, "id", "")) for x in calls}


def last_use(function, name):
    """The last line where a name is read, or the last of a loop around it: so long it lives."""
    loops = [x for x in ast.walk(function) if isinstance(x, (ast.For, ast.While))]
    lines = [
        x.lineno
        for x in ast.walk(function)
        if isinstance(x, ast.Name) and x.id == name and isinstance(x.ctx, ast.Load)
    ]
    around = [x.end_lineno for x in loops for line in lines if x.lineno <= line <= x.end_lineno]
    return max(lines + around, default=0)


def used_after(source):
    """Addresses that a function uses when the array they are in may be gone."""
    found = []
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        names = list(assigned(function))
        own = {name for name, value in names if called(value) & NEW}
        # Views hold their array, also under another name.
        holders = {name: [name] for name in own}
        for name, value in names:
            if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name):
                holders.get(value.value.id, []).append(name)
        for name, value in names:
            for call in ast.walk(value):
                if not (isinstance(call, ast.Call) and called(call) & {"pointer", "row"}):
                    continue
                inside = [x.id for x in ast.walk(call) if isinstance(x, ast.Name)]
                for array in own.intersection(inside):
                    alive = max(last_use(function, x) for x in holders[array])
                    if last_use(function, name) > alive:
                        found.append(f"{function.name}: {name} of {array}")
    return found


def test_arrays_live_as_long_as_their_addresses():
    wrong = "def f(n):\n a = np.empty(n)\n b = pointer(a)\n for i in range(n):\n  b[i] = 1.0\n"
    assert used_after(wrong) == ["f: b of a"]
    assert used_after(wrong + " keep_alive((a,))\n") == []
    texts = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    found = {str(k): used_after(x) for k, x in texts.items() if "numba.calls import" in x}
    assert len(found) > 10
    assert not any(found.values()), found
