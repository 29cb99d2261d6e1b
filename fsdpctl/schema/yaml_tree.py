"""Strict YAML: text to a plain tree in which every key knows its line.

A subset on purpose: no anchors, no tags, no repeated keys, one document, and the scalars of YAML 1.2's core schema
in decimal only. PyYAML reads `10:00:00` as 36000, `no` as False, `017` as 15 and `1e-4` as text.
The parser's events are read one by one with a stack of our own, so that neither depth nor size can hurt.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import yaml

from fsdpctl.schema.problems import KeyPath, LocatedProblem, Place, fail, shorten, show

MAX_DEPTH = 50
MAX_DIGITS = 18  # what fits 64 bits; int() takes quadratic time

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # only its parser is used; C where the wheel has it

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# YAML takes U+0085, U+2028 and U+2029 as line ends, which no editor does: their lines would be counted wrongly.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]|\r(?!\n)")
_TAB_INDENT = re.compile(r"^ *\t", re.MULTILINE)


@dataclass
class Document:
    """A tree of dicts, lists and scalars, where each part of it was written, and what was wrong on the way."""

    what: str  # like "job jobs/llm.yaml": the subject of messages
    tree: Any = None
    places: dict[KeyPath, Place] = field(default_factory=dict)
    problems: list[LocatedProblem] = field(default_factory=list)

    def place(self, path: KeyPath) -> Place:
        """The place of `path`, or of the nearest thing around it that was written."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places[path]

    @cached_property
    def by_last_key(self) -> dict[str | int, list[KeyPath]]:
        """The paths of a tree that no longer changes, by what they end in."""
        found: dict[str | int, list[KeyPath]] = {}
        for path in self.places:
            if path:
                found.setdefault(path[-1], []).append(path)
        return found


def parse_yaml(text: str, start: Place, what: str) -> Document:
    """Read one YAML document. Raises SpecError for what cannot be read; repeated keys stay in `problems`."""
    _check_characters(text, start, what)
    builder = _Builder(start, what)
    try:
        for event in yaml.parse(text, Loader=_Loader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        fail(what, start.at(mark.line + 1 if mark else 1), f"not valid YAML: {shorten(reason, 120)}")
    return builder.document


def parse_mapping(text: str, source: str, what: str) -> Document:
    """Read a file that must hold a mapping. Raises SpecError as `parse_yaml` does."""
    document = parse_yaml(text, Place(source, 1), what)
    if document.tree is None:
        fail(what, document.place(()), "empty; a mapping of keys to values is wanted")
    if not isinstance(document.tree, dict):
        fail(what, document.place(()), f"must be a mapping of keys to values, got {show(document.tree)}")
    return document


def read_scalar(text: str) -> str | int | float | bool | None:
    """Read an unquoted scalar. Raises ValueError for a number that is out of range."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        if len(text) > MAX_DIGITS:
            raise ValueError(f"the number {shorten(text)} is too long")
        return int(text)
    if _FLOAT.fullmatch(text):
        if not math.isfinite(number := float(text)):
            raise ValueError(f"the number {shorten(text)} is too large")
        return number
    return text


def _check_characters(text: str, start: Place, what: str) -> None:
    if found := _FORBIDDEN.search(text):
        problem = f"the character U+{ord(found[0]):04X} is not allowed; this must be plain text"
    elif found := _TAB_INDENT.search(text):
        problem = "indented with a tab; YAML is indented with spaces"
    else:
        return
    fail(what, start.at(text.count("\n", 0, found.start()) + 1), problem)


@dataclass
class _Open:
    """A mapping or list whose end has not come yet."""

    value: dict[str, Any] | list[Any]
    path: KeyPath
    key: str | None = None  # of a mapping: the key that waits for its value


class _Builder:
    def __init__(self, start: Place, what: str) -> None:
        self.start = start
        self.document = Document(what, places={(): start})
        self.stack: list[_Open] = []
        self.num_documents = 0

    def take(self, event: Any) -> None:
        place = self.start.at(event.start_mark.line + 1)
        match event:
            case yaml.DocumentStartEvent():
                self.num_documents += 1
                if self.num_documents > 1:
                    self.fail(place, "a second document starts here; one file holds one document")
            case yaml.NodeEvent():
                self.take_node(event, place)
            case yaml.CollectionEndEvent():
                self.stack.pop()

    def take_node(self, event: Any, place: Place) -> None:
        if event.anchor is not None:
            self.fail(place, "anchors (&) and aliases (*) are not allowed; write the value out, or quote the text")
        if event.tag is not None:
            self.fail(place, f"the tag {shorten(event.tag)} is not allowed; quote the text if it is not a tag")
        if isinstance(event, yaml.ScalarEvent):
            if self.waits_for_key():
                self.take_key(event.value, place)
            else:
                self.put(self.scalar(event, place), place)
            return
        if self.waits_for_key():
            self.fail(place, "a key must be plain text, not a mapping or list")
        if len(self.stack) >= MAX_DEPTH:
            self.fail(place, f"nested more than {MAX_DEPTH} deep")
        value: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self.stack.append(_Open(value, self.put(value, place)))

    def waits_for_key(self) -> bool:
        return bool(self.stack) and isinstance(self.stack[-1].value, dict) and self.stack[-1].key is None

    def take_key(self, key: str, place: Place) -> None:
        mapping = self.stack[-1]
        path = (*mapping.path, key)
        if key in mapping.value:
            first = self.document.places[path].line
            text = f"given twice{f', first on line {first}' if first else ''}; keep one of them"
            self.document.problems.append(LocatedProblem(place, path, text))
        mapping.key = key
        self.document.places[path] = place

    def put(self, value: Any, place: Place) -> KeyPath:
        """Hang a value where it belongs and return its path."""
        if not self.stack:
            self.document.tree = value
            self.document.places[()] = place
            return ()
        top = self.stack[-1]
        if isinstance(top.value, list):
            path: KeyPath = (*top.path, len(top.value))
            top.value.append(value)
            self.document.places[path] = place
            return path
        assert top.key is not None
        path = (*top.path, top.key)
        top.value[top.key] = value
        top.key = None
        return path

    def scalar(self, event: Any, place: Place) -> Any:
        if not event.implicit[0]:  # quoted: text as it stands
            return event.value
        try:
            return read_scalar(event.value)
        except ValueError as error:
            self.fail(place, str(error))

    def fail(self, place: Place, text: str) -> NoReturn:
        fail(self.document.what, place, text, self.stack[-1].path if self.stack else ())
