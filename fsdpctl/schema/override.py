"""`--set key=value`: changes to a job's tree before it is checked, so that they meet the same rules as the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from fsdpctl.schema.problems import KeyPath, LocatedProblem, Place, fail, key_path, shorten, show
from fsdpctl.schema.yaml_tree import MAX_DEPTH, Document, parse_yaml, read_scalar

_KEY = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_SURROGATE = re.compile("[\ud800-\udfff]")


def apply_overrides(document: Document, overrides: Sequence[str]) -> None:
    """Set each `key.path=value` in the document, in order. Raises SpecError for what is no such thing.

    An option of the command line that stands for a key comes as `--procs-per-node=4`, and messages call it that.
    """
    for override in overrides:
        key, equals, value = override.partition("=")
        place = Place(f"--set {shorten(override)}")
        if override.startswith("--"):
            key, place = key[2:].replace("-", "_"), Place(shorten(override).replace("=", " ", 1))
        path: KeyPath = tuple(key.split("."))
        if not equals or not _KEY.fullmatch(key):
            fail(document.what, place, "must be like trainer.steps=50: keys joined by dots, '=', a value")
        if len(path) > MAX_DEPTH:
            fail(document.what, place, f"nested more than {MAX_DEPTH} deep")
        if _SURROGATE.search(value):  # how Python passes on bytes of the command line that are not UTF-8
            fail(document.what, place, "the value is not UTF-8")
        _set(document, path, _read_value(document, path, value, place), place)


def _read_value(document: Document, path: KeyPath, value: str, place: Place) -> Any:
    """A list, a mapping or quoted text is YAML; anything else is one scalar to its last character, `#` included."""
    if value.startswith(("[", "{", "'", '"')):
        given = parse_yaml(value, place, document.what)
        document.problems += [LocatedProblem(place, path + problem.path, problem.text) for problem in given.problems]
        return given.tree
    try:
        return read_scalar(value)
    except ValueError as error:
        fail(document.what, place, str(error))


def _set(document: Document, path: KeyPath, value: Any, place: Place) -> None:
    inner = document.tree
    for depth, key in enumerate(path[:-1], start=1):
        if inner.get(key) is None:
            inner[key] = {}
            document.places[path[:depth]] = place
        inner = inner[key]
        if not isinstance(inner, dict):
            fail(document.what, place, f"{key_path(path[:depth])} is no mapping, but {show(inner)}")
    inner[path[-1]] = value
    for old in [known for known in document.places if known[: len(path)] == path]:
        del document.places[old]
    document.places[path] = place
