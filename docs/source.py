"""Descriptions of fields and enum members from the source of their class: the docstring below or the comment behind."""

from __future__ import annotations

import ast
import inspect
from enum import Enum
from functools import cache


def sentences(cls: type) -> dict[str, str]:
    """Return the description of each field, from the source of the class and of those that it inherits from."""
    own = [one for one in reversed(cls.__mro__) if one.__module__.partition(".")[0] == cls.__module__.partition(".")[0]]
    return {name: text for one in own for name, text in _own_sentences(one).items()}


@cache
def _own_sentences(cls: type) -> dict[str, str]:
    lines = inspect.getsource(cls).splitlines()
    (tree,) = ast.parse("\n".join(lines)).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            text = str(after.value.value)
        else:
            assert field.end_lineno is not None
            text = lines[field.end_lineno - 1][field.end_col_offset :].strip().removeprefix("#")
        found[field.target.id] = " ".join(text.split())
    return found


def member_comments(cls: type[Enum]) -> dict[str, str]:
    """Return the comment behind each member of an enum, by the member's value."""
    lines = inspect.getsource(cls).splitlines()
    comments = {}
    for line in lines:
        name, _, rest = line.partition(" = ")
        if name.strip() in cls.__members__:
            comments[str(cls[name.strip()].value)] = rest.partition("# ")[2].strip()
    return comments
