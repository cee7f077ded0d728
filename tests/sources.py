"""Read the project's own source files, for tests about them.

Is: which files there are, parsed. Is not: a rule. Above: `test_house.py`, `test_promises.py`.
Below: git, when there is a checkout.
"""

import ast
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ("schemas", "tooling", "workers")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def project_files() -> tuple[Path, ...]:
    """Return every file of the project, relative to its root: what git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = sorted(name for name in listed.split("\0") if name)
    return tuple(Path(name) for name in names if (ROOT / name).is_file())


def python_files(*folders: str) -> Iterator[Path]:
    """Yield the Python files below the folders."""
    for file in project_files():
        if file.suffix == ".py" and file.parts[0] in folders:
            yield file


def read(file: Path) -> str:
    """Return the text of a project file."""
    return (ROOT / file).read_text(encoding="utf-8")


@functools.cache
def parse(file: Path) -> ast.Module:
    """Return the syntax tree of a Python file."""
    return ast.parse(read(file), filename=str(file))


def functions(tree: ast.AST) -> Iterator[Function]:
    """Yield every function in the tree, methods and inner ones included."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node


def dotted(node: ast.AST) -> str:
    """Return `a.b.c` for such an expression, an empty text for any other."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            head = dotted(node.value)
            return f"{head}.{node.attr}" if head else ""
        case _:
            return ""
