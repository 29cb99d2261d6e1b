"""Read a file of another program: find out what it is, and return the job that it makes."""

from __future__ import annotations

from pathlib import Path

from fsdpctl.errors import UsageError
from fsdpctl.importers import script
from fsdpctl.importers.build import Wanted, build
from fsdpctl.importers.imported import Imported
from fsdpctl.importers.table import KINDS, SCRIPT, detect
from fsdpctl.other_launchers.draft import Draft
from fsdpctl.schema.problems import one_line
from fsdpctl.schema.yaml_tree import YamlDocument, parse_mapping
from fsdpctl.specs.text import read_text

_OF_A_JOB = ("trainer", "entrypoint", "command")
_YAML = (".yaml", ".yml")


def read_file(path: Path, wanted: Wanted, kind: str | None = None) -> Imported:
    """Return the job of a file; `kind` None: found from its content. Raise UsageError with all problems."""
    return read(read_text(path, "configuration"), one_line(str(path)), wanted, kind)


def read(text: str, source: str, wanted: Wanted, kind: str | None = None) -> Imported:
    """Return the job of a text; `source` is its name in messages. Pure."""
    what = f"file {source}"
    if kind == SCRIPT or (kind is None and script.looks_like(text)):
        draft = Draft(source)
        script.read(text, draft)
        return build(SCRIPT, what, draft, wanted)
    document = parse_tree(text, source, what)
    if any(isinstance(document.tree.get(key), dict) for key in _OF_A_JOB):
        raise UsageError(f"{source} is a job of fsdpctl already", hint=f"fsdpctl jobs check {source}")
    kind = kind or detect(document)
    draft = Draft(source, problems=list(document.problems))
    KINDS[kind].read(document, draft)
    return build(kind, what, draft, wanted)


def recognize(text: str, source: str) -> str | None:
    """Return the kind of a file that can be imported; None for a job, even one with problems. Raise UsageError."""
    if not source.endswith(_YAML) and script.looks_like(text):
        return SCRIPT
    document = parse_tree(text, source, source)
    return None if any(key in document.tree for key in _OF_A_JOB) else detect(document)


def parse_tree(text: str, source: str, what: str) -> YamlDocument:
    """Parse YAML, or JSON as a part of it: tabs between its values are blanks, for it has none within."""
    is_json = text.lstrip().startswith("{")
    return parse_mapping(text.replace("\t", " ") if is_json else text, source, what)
