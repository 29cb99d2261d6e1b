"""The imports that a Python file does whenever it is run. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Import:
    """One module that a file imports; `names` are what `from` takes of it, each of which may be a module too."""

    file: str
    line: int
    module: str  # "" for `from . import x`
    names: tuple[str, ...] = ()
    level: int = 0  # number of dots in front

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


def read_imports(source: str | bytes, file: str) -> list[Import]:
    """Return the imports of a file outside of functions, conditions and `try`. Raise SyntaxError, ValueError."""
    return list(_imports(ast.parse(source, file).body, file))


def _imports(body: Sequence[ast.stmt], file: str) -> Iterator[Import]:
    for statement in body:
        match statement:
            case ast.Import():
                for alias in statement.names:
                    yield Import(file, statement.lineno, alias.name)
            case ast.ImportFrom():
                names = tuple(alias.name for alias in statement.names)
                yield Import(file, statement.lineno, statement.module or "", names, statement.level)
            case ast.With() | ast.ClassDef():
                yield from _imports(statement.body, file)
            case ast.If() if _is_main(statement.test):
                yield from _imports(statement.body, file)


def _is_main(test: ast.expr) -> bool:
    """Return whether a condition is `__name__ == "__main__"`."""
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"
