"""A tree to a model: pydantic's findings in our words, at the place where the user wrote them."""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fsdpctl.specs.keys import classes_in, hints_of
from fsdpctl.specs.problems import MAX_SHOWN, KeyPath, Problem, SpecError, did_you_mean, show
from fsdpctl.specs.yaml_tree import Document

M = TypeVar("M", bound=BaseModel)

_MAPPING = "must be a mapping of keys to values"
_WORDS = {
    "bool_type": "must be true or false",
    "dataclass_type": _MAPPING,
    "dict_type": _MAPPING,
    "float_type": "must be a number",
    "greater_than_equal": "must be at least {ge}",
    "int_type": "must be a whole number",
    "less_than_equal": "must be at most {le}",
    "model_attributes_type": _MAPPING,
    "model_type": _MAPPING,
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "value_error": "{error}",
}
_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")


def validate(document: Document, model: type[M]) -> M:
    """Build a `model` from a document. Raises SpecError with all problems of the document."""
    problems = list(document.problems)
    try:
        # JSON mode: in Python mode the models, being strict, want tuples and dataclasses for our lists and dicts.
        spec = model.model_validate_json(json.dumps(document.tree))
    except ValidationError as error:
        found = error.errors(include_url=False)
        problems += [_problem(document, model, item) for item in found[:MAX_SHOWN]]  # a suggestion takes its time
        raise SpecError(document.what, problems, num_more=len(found[MAX_SHOWN:])) from None
    if problems:
        raise SpecError(document.what, problems)
    return spec


def _problem(document: Document, model: type[BaseModel], item: ErrorDetails) -> Problem:
    path = _tree_path(document.tree, item["loc"], item["type"])
    if item["type"] in _UNKNOWN_KEY:
        known = _keys_at(model, item["loc"][:-1])
        text = f"unknown key{did_you_mean(str(path[-1]), known) or ';'} known keys: {', '.join(known)}"
    else:
        text = _describe(item["type"], item["input"], item.get("ctx", {}), item["msg"])
    return Problem(document.place(path), path, text)


def _describe(kind: str, given: Any, context: dict[str, Any], message: str) -> str:
    match kind:
        case "missing":
            return "missing; this key is required"
        case "union_tag_not_found":
            return "the key kind is missing; it says which keys may stand here"
        case "literal_error" | "union_tag_invalid":
            given = given["kind"] if kind == "union_tag_invalid" else given
            allowed = re.findall("'([^']*)'", context.get("expected_tags") or context["expected"])
            return f"must be one of {', '.join(allowed)}, got {show(given)}{did_you_mean(str(given), allowed)}"
        case "string_type" if isinstance(given, int | float):
            return f'must be text, got {show(given)}; write "{show(given)}" in quotes to make it text'
    text = _WORDS[kind].format(**context) if kind in _WORDS else message
    return text if isinstance(given, dict) and kind == "value_error" else f"{text}, got {show(given)}"


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
    return [key for hint in hints for cls in classes_in(hint) for key in hints_of(cls)]


def _step(hint: Any, part: str | int) -> Iterator[Any]:
    for cls in classes_in(hint):
        fields = hints_of(cls)
        if part in fields:
            yield fields[str(part)]
        elif isinstance(part, int) or part in typing.get_args(fields.get("kind")):
            yield cls  # an item of a list, or the tag that chose this member of a union
