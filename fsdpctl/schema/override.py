"""`--set key=value`: changes a job's tree before validation, so that the same rules apply as to the file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fsdpctl.schema.problems import KeyPath, LocatedProblem, Location, fail, key_path, shorten, show
from fsdpctl.schema.yaml_tree import MAX_DEPTH, YamlDocument, parse_yaml, read_scalar

_KEY = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_SURROGATE = re.compile("[\ud800-\udfff]")


def apply_overrides(document: YamlDocument, overrides: Sequence[str]) -> None:
    """Set each `key.path=value` in the document, in order. Raise SpecError for malformed ones.

    An option of the command line for a key is given as `--procs-per-node=4`; messages name it like that.
    """
    for override in overrides:
        key, equals, value = override.partition("=")
        location = Location(f"--set {shorten(override)}")
        if override.startswith("--"):
            key, location = key[2:].replace("-", "_"), Location(shorten(override).replace("=", " ", 1))
        path: KeyPath = tuple(key.split("."))
        if not equals or not _KEY.fullmatch(key):
            fail(document.what, location, "must be like trainer.steps=50: keys joined by dots, '=', a value")
        if len(path) > MAX_DEPTH:
            fail(document.what, location, f"nested more than {MAX_DEPTH} deep")
        if _SURROGATE.search(value):  # how Python represents bytes of the command line that are not UTF-8
            fail(document.what, location, "the value is not UTF-8")
        set_value(document, path, read_value(document.what, value, location), location)


def read_value(what: str, value: str, location: Location) -> YamlDocument:
    """Read a list, mapping or quoted text as YAML, anything else as one scalar up to its end, including `#`."""
    if value.startswith(("[", "{", "'", '"')):
        return parse_yaml(value, location, what)
    try:
        scalar = read_scalar(value)
    except ValueError as error:
        fail(what, location, str(error))
    return YamlDocument(what, scalar, written={(): value} if isinstance(scalar, int | float) else {})


def set_value(document: YamlDocument, path: KeyPath, given: YamlDocument, location: Location) -> None:
    """Set one key. Raise SpecError if a key above it is no mapping."""
    document.problems += [LocatedProblem(location, path + problem.path, problem.text) for problem in given.problems]
    inner = document.tree
    for depth, key in enumerate(path[:-1], start=1):
        if inner.get(key) is None:
            inner[key] = {}
            document.locations[path[:depth]] = location
        inner = inner[key]
        if not isinstance(inner, dict):
            fail(document.what, location, f"{key_path(path[:depth])} is not a mapping, but {show(inner)}")
    inner[path[-1]] = given.tree
    for parts in (document.locations, document.written):
        for old in [known for known in parts if known[: len(path)] == path]:
            del parts[old]
    document.locations |= {path + below: location for below in ((), *given.locations)}
    document.written |= {path + below: text for below, text in given.written.items()}
