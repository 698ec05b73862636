"""Counts of the source: how much there is to read, and how far apart, beside what is allowed.

Code is lines without docstrings, comments and blank ones. The walk is what a second, small fit of
``LinearClassifier("hinge")`` passes: functions, each once; their files; and how often two functions
that follow each other, in the order of their first calls, are in different files. Ends with status
1 if anything is over its budget.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import cutplane

PACKAGE = Path(cutplane.__file__).parent
CONSTANT = re.compile(r"_*[A-Z][A-Z0-9_]*")
UNTYPED = re.compile(r"(risk|loss|regularizer|point|map|row)s?")
BUDGETS = {
    "source files": 240,
    "lines of code": 39000,
    "walk of a fit: functions": 180,
    "walk of a fit: files": 30,
    "walk of a fit: switches between files": 100,
    "before minimize: functions": 50,
    "before minimize: files": 15,
    "own modules for cp.LinearClassifier": 120,
    "own modules for cutplane fit": 160,
    "risk, loss, ... annotated as Any": 0,
    "capabilities asked by string": 0,
    "own classes in the MRO of LinearClassifier": 5,
    "constants of modules": 250,
}

WALK = """
import inspect, json, os, sys, warnings
import numpy as np
import cutplane as cp

def own_modules():
    return len([name for name in sys.modules if name.startswith("cutplane")])

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 8))
y = np.where(X[:, 0] > 0, 1, -1)
cp.LinearClassifier("hinge")
modules = own_modules()
cp.LinearClassifier("hinge").fit(X, y)  # with what is done once only, such as compilation
package = os.path.dirname(cp.__file__) + os.sep
door = inspect.unwrap(cp.minimize).__code__
walk, before = {}, []

def passed(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(package) and code.co_name[0] != "<":
        if code is door and not before:
            before.append(list(walk))
        walk.setdefault((code.co_filename, code.co_qualname))

sys.setprofile(passed)
cp.LinearClassifier("hinge").fit(X, y)
sys.setprofile(None)
files = [file for file, _ in walk]
print(json.dumps({
    "walk of a fit: functions": len(files),
    "walk of a fit: files": len(set(files)),
    "walk of a fit: switches between files": sum(a != b for a, b in zip(files, files[1:])),
    "before minimize: functions": len(before[0]),
    "before minimize: files": len({file for file, _ in before[0]}),
    "own modules for cp.LinearClassifier": modules,
    "own classes in the MRO of LinearClassifier": sum(
        # What an older scikit-learn lacks has a stand-in here.
        of.__module__.startswith("cutplane") and of.__name__ != "CallbackSupportMixin"
        for of in cp.LinearClassifier.__mro__
    ),
}))
"""

COMMAND = """
import contextlib, io, sys
from cutplane.cli import main

sys.argv = ["cutplane", "fit", "--help"]
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
print(len([name for name in sys.modules if name.startswith("cutplane")]))
"""


def run(program: str) -> str:
    """Return what a program prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def lines_of_code(text: str, tree: ast.Module) -> int:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    words = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            words.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = [line.strip() for i, line in enumerate(text.split("\n"), 1) if i not in words]
    return sum(bool(line) and not line.startswith("#") for line in lines)


def is_number(node: ast.expr) -> bool:
    """Say whether an expression is made of numbers alone."""
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def constants(tree: ast.Module) -> Iterator[str]:
    """Yield the names in capitals that stand for numbers at the top of a module."""
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        if not all(map(is_number, values)):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [part for target in targets for part in getattr(target, "elts", [target])]
        for name in names:
            if isinstance(name, ast.Name) and CONSTANT.fullmatch(name.id):
                yield name.id


def annotated(node: ast.AST) -> tuple[str, ast.expr | None]:
    """Return name and annotation of a parameter, attribute or variable."""
    if isinstance(node, ast.arg):
        return node.arg, node.annotation
    if isinstance(node, ast.AnnAssign):
        return ast.unparse(node.target).rpartition(".")[2], node.annotation
    return "", None


def is_untyped(node: ast.AST) -> bool:
    name, annotation = annotated(node)
    said = "" if annotation is None else ast.unparse(annotation)
    return bool(UNTYPED.fullmatch(name) and re.match(r"Any\b", said))


def asks_by_string(node: ast.AST) -> bool:
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return called.rpartition(".")[2] == "offers"


def counts() -> dict[str, int]:
    """Return all counts by name: those with a budget, then others."""
    found, others = Counter[str](), Counter[str]()
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        code, nodes = lines_of_code(text, tree), list(ast.walk(tree))
        parts = path.relative_to(PACKAGE).parts
        found["source files"] += 1
        found["lines of code"] += code
        found["constants of modules"] += len(list(constants(tree)))
        found["risk, loss, ... annotated as Any"] += sum(map(is_untyped, nodes))
        found["capabilities asked by string"] += sum(map(asks_by_string, nodes))
        imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
        others["import lines"] += sum((n.end_lineno or 0) - n.lineno + 1 for n in imports)
        others[f"lines of code: {parts[0] if len(parts) > 1 else '(top level)'}"] += code
    measured = json.loads(run(WALK)) | {"own modules for cutplane fit": int(run(COMMAND))}
    known = dict(found) | measured
    return {name: known[name] for name in BUDGETS} | dict(sorted(others.items()))


def main() -> None:
    print(f"{'count':<44}{'now':>8}{'budget':>8}")
    over = []
    for name, count in counts().items():
        budget = BUDGETS.get(name)
        mark = "  over" if budget is not None and count > budget else ""
        over += [name] if mark else []
        print(f"{name:<44}{count:>8}{'' if budget is None else budget:>8}{mark}")
    sys.exit(bool(over))


if __name__ == "__main__":
    main()
