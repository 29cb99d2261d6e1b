"""Strict YAML: text to a plain tree with the line of every key.

A subset on purpose: no anchors, no tags, no repeated keys, one document, and the scalars of YAML 1.2's core schema
in decimal only. PyYAML reads `10:00:00` as 36000, `no` as False, `017` as 15 and `1e-4` as text.
The parser's events are processed one by one with an explicit stack, so that neither depth nor size can do harm.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import yaml

from fsdpctl.schema.problems import KeyPath, LocatedProblem, Location, fail, shorten, show

MAX_DEPTH = 50
MAX_DIGITS = 18  # fits 64 bits; int() takes quadratic time

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # only its parser is used; C where the wheel has it

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# U+0085, U+2028 and U+2029 are line ends in YAML but not in editors: line numbers would differ.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]|\r(?!\n)")
_TAB_INDENT = re.compile(r"^ *\t", re.MULTILINE)


@dataclass
class YamlDocument:
    """A tree of dicts, lists and scalars, the location of each part, and the problems found so far."""

    what: str  # the subject of messages, like "job jobs/llm.yaml"
    tree: Any = None
    locations: dict[KeyPath, Location] = field(default_factory=dict)
    problems: list[LocatedProblem] = field(default_factory=list)
    written: dict[KeyPath, str] = field(default_factory=dict)  # numbers and booleans, as they are in the file
    notices: list[LocatedProblem] = field(default_factory=list)  # what a reader should know, and nothing prevents

    def locate(self, path: KeyPath) -> Location:
        """Return the location of `path`, or of the closest enclosing key in the file."""
        while path and path not in self.locations:
            path = path[:-1]
        return self.locations[path]

    @cached_property
    def by_last_key(self) -> dict[str | int, list[KeyPath]]:
        """The paths by their last key, for a tree that no longer changes."""
        found: dict[str | int, list[KeyPath]] = {}
        for path in self.locations:
            if path:
                found.setdefault(path[-1], []).append(path)
        return found


def parse_yaml(text: str, start: Location, what: str) -> YamlDocument:
    """Parse one YAML document. Raise SpecError if it cannot be parsed; repeated keys are added to `problems`."""
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


def parse_mapping(text: str, source: str, what: str) -> YamlDocument:
    """Parse a file that must contain a mapping. Raise SpecError as `parse_yaml` does."""
    document = parse_yaml(text, Location(source, 1), what)
    if document.tree is None:
        fail(what, document.locate(()), "empty; must be a mapping of keys to values")
    if not isinstance(document.tree, dict):
        fail(what, document.locate(()), f"must be a mapping of keys to values, got {show(document.tree)}")
    return document


def read_scalar(text: str) -> str | int | float | bool | None:
    """Return the value of an unquoted scalar. Raise ValueError for a number that is out of range."""
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


def _check_characters(text: str, start: Location, what: str) -> None:
    if found := _FORBIDDEN.search(text):
        problem = f"the character U+{ord(found[0]):04X} is not allowed; this must be plain text"
    elif found := _TAB_INDENT.search(text):
        problem = "indented with a tab; YAML is indented with spaces"
    else:
        return
    fail(what, start.at(text.count("\n", 0, found.start()) + 1), problem)


@dataclass
class _Open:
    """A mapping or list whose end has not been parsed yet."""

    value: dict[str, Any] | list[Any]
    path: KeyPath
    key: str | None = None  # of a mapping: the key whose value comes next


class _Builder:
    def __init__(self, start: Location, what: str) -> None:
        self.start = start
        self.document = YamlDocument(what, locations={(): start})
        self.stack: list[_Open] = []
        self.num_documents = 0

    def take(self, event: Any) -> None:
        location = self.start.at(event.start_mark.line + 1)
        match event:
            case yaml.DocumentStartEvent():
                self.num_documents += 1
                if self.num_documents > 1:
                    self.fail(location, "a second document starts here; a file contains one document")
            case yaml.NodeEvent():
                self.take_node(event, location)
            case yaml.CollectionEndEvent():
                self.stack.pop()

    def take_node(self, event: Any, location: Location) -> None:
        if event.anchor is not None:
            self.fail(location, "anchors (&) and aliases (*) are not allowed; write the value out, or quote the text")
        if event.tag is not None:
            self.fail(location, f"the tag {shorten(event.tag)} is not allowed; quote the text if it is not a tag")
        if isinstance(event, yaml.ScalarEvent):
            if self.waits_for_key():
                self.take_key(event.value, location)
            else:
                value = self.scalar(event, location)
                path = self.put(value, location)
                if isinstance(value, int | float):
                    self.document.written[path] = event.value
            return
        if self.waits_for_key():
            self.fail(location, "a key must be plain text, not a mapping or list")
        if len(self.stack) >= MAX_DEPTH:
            self.fail(location, f"nested more than {MAX_DEPTH} deep")
        opened: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self.stack.append(_Open(opened, self.put(opened, location)))

    def waits_for_key(self) -> bool:
        return bool(self.stack) and isinstance(self.stack[-1].value, dict) and self.stack[-1].key is None

    def take_key(self, key: str, location: Location) -> None:
        mapping = self.stack[-1]
        path = (*mapping.path, key)
        if key in mapping.value:
            first = self.document.locations[path].line
            text = f"given twice{f', first on line {first}' if first else ''}; keep one of them"
            self.document.problems.append(LocatedProblem(location, path, text))
        mapping.key = key
        self.document.locations[path] = location

    def put(self, value: Any, location: Location) -> KeyPath:
        """Add a value to the open mapping or list and return its path."""
        if not self.stack:
            self.document.tree = value
            self.document.locations[()] = location
            return ()
        top = self.stack[-1]
        if isinstance(top.value, list):
            path: KeyPath = (*top.path, len(top.value))
            top.value.append(value)
            self.document.locations[path] = location
            return path
        assert top.key is not None
        path = (*top.path, top.key)
        top.value[top.key] = value
        top.key = None
        return path

    def scalar(self, event: Any, location: Location) -> Any:
        if not event.implicit[0]:  # quoted: text
            return event.value
        try:
            return read_scalar(event.value)
        except ValueError as error:
            self.fail(location, str(error))

    def fail(self, location: Location, text: str) -> NoReturn:
        fail(self.document.what, location, text, self.stack[-1].path if self.stack else ())
