"""A tree to a model: pydantic's findings in our words, at the place where the user wrote them."""

from __future__ import annotations

import dataclasses
import json
import re
import typing
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from fsdpctl.specs.problems import MAX_SHOWN, KeyPath, Problem, SpecError, did_you_mean, fail, show
from fsdpctl.specs.yaml_tree import Document

M = TypeVar("M", bound=BaseModel)

_PLAIN = {
    "missing": "missing; this key is required",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "model_attributes_type": "must be a mapping of keys to values",
    "dataclass_type": "must be a mapping of keys to values",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "union_tag_invalid": "kind must be one of {expected_tags}",
    "union_tag_not_found": "needs the key kind",
    "value_error": "{error}",
}
_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")


def validate(document: Document, model: type[M]) -> M:
    """Build a `model` from a document. Raises SpecError with all problems of the document."""
    if document.tree is None:
        fail(document.what, document.place(()), "empty; a mapping of keys to values is wanted")
    if not isinstance(document.tree, dict):
        fail(document.what, document.place(()), f"must be a mapping of keys to values, got {show(document.tree)}")
    problems = list(document.problems)
    try:
        # JSON mode, because python mode is strict about tuples and wants dataclasses where we have mappings.
        spec = model.model_validate_json(json.dumps(document.tree), strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False)
        # Nobody reads a thousand problems, and each suggestion costs time.
        problems += [_problem(document, model, item) for item in found[: MAX_SHOWN * 5]]
    if problems:
        raise SpecError(document.what, problems)
    return spec


def _problem(document: Document, model: type[BaseModel], item: Any) -> Problem:
    path = _tree_path(document.tree, item["loc"], item["type"])
    place = document.place(path)
    if item["type"] in _UNKNOWN_KEY:
        known = _keys_at(model, item["loc"][:-1])
        return Problem(place, path, f"unknown key{did_you_mean(str(path[-1]), known)}; known keys: {', '.join(known)}")
    context = item.get("ctx", {})
    text = _PLAIN.get(item["type"], item["msg"].replace("Input should", "must")).format(**context)
    if item["type"] == "missing":
        return Problem(place, path, text)
    if item["type"] == "string_type" and isinstance(item["input"], int | float | bool):
        text += f'; in quotes it is: "{show(item["input"])}"'
    if item["type"] in ("literal_error", "union_tag_invalid"):
        allowed = re.findall(r"'([^']*)'", context.get("expected") or context["expected_tags"])
        given = str(context.get("tag", item["input"]))
        return Problem(
            place, path, f"must be one of {', '.join(allowed)}, got {show(given)}{did_you_mean(given, allowed)}"
        )
    if isinstance(item["input"], dict):
        return Problem(place, path, text)
    return Problem(place, path, f"{text}, got {show(item['input'])}")


def _tree_path(tree: Any, loc: tuple[str | int, ...], kind: str) -> KeyPath:
    """The keys of `loc` as the user wrote them: pydantic adds union tags and `[key]`."""
    path: KeyPath = ()
    for part in loc:
        if isinstance(tree, list) or (isinstance(tree, dict) and part in tree):
            tree = tree[part]  # type: ignore[index]
            path = (*path, part)
    return (*path, loc[-1]) if kind == "missing" else path


def _keys_at(model: Any, loc: tuple[str | int, ...]) -> list[str]:
    """The keys that a user may write in the mapping at `loc`."""
    hints: list[Any] = [model]
    for part in loc:
        hints = [hint for outer in hints for hint in _step(outer, part)]
    return [key for hint in hints for cls in _classes(hint) for key in _fields(cls)]


def _step(hint: Any, part: str | int) -> Iterator[Any]:
    for cls in _classes(hint):
        fields = _fields(cls)
        if part in fields:
            yield fields[str(part)]
        elif isinstance(part, int) or part in typing.get_args(fields.get("kind")):
            yield cls  # an item of a list, or the tag that chose this member of a union


def _classes(hint: Any) -> Iterator[type]:
    """The models and dataclasses in a hint, whatever list, optional or annotation is around them."""
    if isinstance(hint, type) and (issubclass(hint, BaseModel) or dataclasses.is_dataclass(hint)):
        yield hint
    for inner in typing.get_args(hint):
        yield from _classes(inner)


def _fields(cls: type) -> dict[str, Any]:
    if issubclass(cls, BaseModel):
        return {name: info.annotation for name, info in cls.model_fields.items()}
    return typing.get_type_hints(cls)
