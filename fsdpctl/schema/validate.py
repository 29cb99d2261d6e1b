"""Build a model from a tree: pydantic's errors become problems in plain words, with the location in the user's file."""

from __future__ import annotations

import json
import re
import shlex
import typing
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fsdpctl.contract.problems import RuleError
from fsdpctl.schema.as_written import take_as_written
from fsdpctl.schema.keys import classes_in, hints_of, walk
from fsdpctl.schema.problems import (
    MAX_SHOWN,
    KeyPath,
    LocatedProblem,
    Location,
    SpecError,
    did_you_mean,
    key_path,
    show,
)
from fsdpctl.schema.spec import Spec
from fsdpctl.schema.yaml_tree import YamlDocument

M = TypeVar("M", bound=Spec)

_MAPPING = "must be a mapping of keys to values"
_MESSAGES = {
    "bool_type": "must be true or false",
    "dataclass_type": _MAPPING,
    "dict_type": _MAPPING,
    "float_type": "must be a number",
    "greater_than": "must be greater than {gt}",
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


def validate(document: YamlDocument, model: type[M]) -> M:
    """Build a `model` from a document. Raise SpecError with all problems of the document."""
    problems = list(document.problems)
    take_as_written(document, model)
    try:
        # JSON mode: in Python mode, strict models require tuples and dataclasses instead of lists and dicts.
        spec = model.model_validate_json(json.dumps(document.tree))
    except ValidationError as error:
        found = error.errors(include_url=False)
        for item in found[:MAX_SHOWN]:  # suggestions are slow
            problems += _problems(document, model, item)
        raise SpecError(document.what, problems, num_more=len(found[MAX_SHOWN:])) from None
    if problems:
        raise SpecError(document.what, problems)
    return spec


def _problems(document: YamlDocument, model: type[Spec], item: ErrorDetails) -> Iterator[LocatedProblem]:
    path = _tree_path(document.tree, item["loc"], item["type"])
    if item["type"] in _UNKNOWN_KEY:
        text = _unknown_key(str(path[-1]), _keys_at(model, item["loc"][:-1]), model)
        yield LocatedProblem(document.locate(path), path, text)
    elif isinstance(rule := item.get("ctx", {}).get("error"), RuleError):
        for problem in rule.problems:
            where = _written(document, path, problem.key) or path
            yield LocatedProblem(_locate_rule(document, path, problem.keys), where, problem.text)
    else:
        text = _describe(item["type"], item["input"], item.get("ctx", {}), item["msg"])
        if item["type"] == "string_type":
            text += _how_to_quote(document.locate(path), path, item["input"])
        yield LocatedProblem(document.locate(path), path, text)


def _how_to_quote(location: Location, path: KeyPath, given: Any) -> str:
    """Return how to write a number, or nothing, as text. The shell removes one of two pairs of quotes."""
    if not isinstance(given, int | float | None):
        return ""
    quoted = json.dumps("" if given is None else show(given))
    if location.source.startswith("--set ") and not any(isinstance(part, int) for part in path):
        return f"; as text: --set {shlex.quote(f'{key_path(path)}={quoted}')}"
    return f"; write {quoted} in quotes to make it text"


def _unknown_key(key: str, known: Sequence[str], model: type[Spec]) -> str:
    elsewhere = _keys_by_name(model)
    if key in elsewhere:
        hint = f"{did_you_mean(key, known) or ';'} there is {' and '.join(elsewhere[key][:3])};"
    elif key.lower() in model.OTHER_NAMES:
        return f"unknown key; here it is {model.OTHER_NAMES[key.lower()]}"
    else:
        hint = did_you_mean(key, known) or ";"
    return f"unknown key{hint} known keys: {', '.join(known)}"


@cache
def _keys_by_name(model: type[BaseModel]) -> dict[str, list[str]]:
    """Return key name -> the paths of all keys of this name, with the kind if the mapping has several."""
    found: dict[str, list[str]] = {}
    for key in walk(model):
        kinds = typing.get_args(hints_of(key.owner).get("kind"))
        found.setdefault(key.path[-1], []).append(f"{key.dotted}{f' of kind {kinds[0]}' if kinds else ''}")
    return found


def _locate_rule(document: YamlDocument, path: KeyPath, keys: Sequence[str]) -> Location:
    """Return the location of the keys that a rule names: all from the command line, else the first in the file."""
    named = [document.locations[key] for word in keys if (key := _written(document, path, word))]
    typed = [location for location in dict.fromkeys(named) if location.line is None]
    if typed:
        return Location(", ".join(location.source for location in typed))
    return named[0] if named else document.locate(path)


def _written(document: YamlDocument, path: KeyPath, word: str) -> KeyPath:
    """Return the key in the file below `path` that ends in `word`, like `steps` or `nodes[1].id`; () for none."""
    if not word:
        return ()
    keys = tuple(int(part) if part.isdecimal() else part for part in re.findall(r"\w+", word))
    ending = [found for found in document.by_last_key.get(keys[-1], ()) if found[-len(keys) :] == keys]
    return min((found for found in ending if found != path and found[: len(path)] == path), key=len, default=())


def _describe(kind: str, given: Any, context: dict[str, Any], message: str) -> str:
    match kind:
        case "missing":
            return "missing; this key is required"
        case "union_tag_not_found":
            return "the key kind is missing; it determines which keys are allowed here"
        case "literal_error" | "union_tag_invalid":
            given = given["kind"] if kind == "union_tag_invalid" else given
            allowed = re.findall("'([^']*)'", context.get("expected_tags") or context["expected"])
            return f"must be one of {', '.join(allowed)}, got {show(given)}{did_you_mean(str(given), allowed)}"
    text = _MESSAGES[kind].format(**context) if kind in _MESSAGES else message
    return f"{text}, got {show(given)}"


def _tree_path(tree: Any, loc: tuple[str | int, ...], kind: str) -> KeyPath:
    """Return the keys of `loc` as the user wrote them, without pydantic's union tags and `[key]`."""
    path: KeyPath = ()
    for part in loc:
        if isinstance(tree, list) or (isinstance(tree, dict) and part in tree):
            tree = tree[part]  # type: ignore[index]
            path = (*path, part)
    return (*path, loc[-1]) if kind == "missing" else path


def _keys_at(model: Any, loc: tuple[str | int, ...]) -> list[str]:
    """Return the keys that a user may write in the mapping at `loc`."""
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
