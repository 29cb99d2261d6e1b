"""Keys whose values are text that often looks like a number: variables and arguments are taken as they are written."""

from __future__ import annotations

import typing
from functools import cache
from typing import Any

from fsdpctl.schema.keys import walk
from fsdpctl.schema.problems import KeyPath
from fsdpctl.schema.types import AS_WRITTEN
from fsdpctl.schema.yaml_tree import YamlDocument


def take_as_written(document: YamlDocument, model: type) -> None:
    """Replace numbers and booleans by their text in the file, below keys of the model that take any text."""
    keys = _keys_as_written(model)
    for path, text in document.written.items():
        names = tuple(part for part in path if isinstance(part, str))
        if (isinstance(path[-1], int) and names in keys) or names[:-1] in keys:
            _replace(document.tree, path, text)


def _replace(tree: Any, path: KeyPath, text: str) -> None:
    for part in path[:-1]:
        tree = tree[part]
    tree[path[-1]] = text


@cache
def _keys_as_written(model: type) -> set[tuple[str, ...]]:
    return {key.path for key in walk(model) if _is_marked(key.hint)}


def _is_marked(hint: Any) -> bool:
    marks = getattr(hint, "__metadata__", ())
    return AS_WRITTEN in marks or any(_is_marked(inner) for inner in typing.get_args(hint))
