"""Jobs and profiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Created:
    """A file or directory that was created."""

    path: str


@dataclass(frozen=True)
class ListedFile:
    """A job or a profile."""

    name: str
    summary: str
    path: str
    error: str | None  # why it does not load


@dataclass(frozen=True)
class Checked:
    """A profile or prepared data that was checked."""

    name: str
    ok: bool
    problems: tuple[str, ...]


@dataclass(frozen=True)
class LintFinding:
    """A rule that applies to a job on a profile."""

    rule: str  # its id, in [lint.md](lint.md)
    severity: Literal["warning", "advice"]
    location: str  # file and line of its key, or the option that set it
    key: str
    text: str
    why: str
    change: str
    source: str  # the page that has more


@dataclass(frozen=True)
class CheckedJob(Checked):
    """A job that was checked, and what the rules of [lint.md](lint.md) find in it."""

    summary: str | None  # the job in a few words
    profile: str | None  # that the rules were applied with; null if the job does not fit the default one
    findings: tuple[LintFinding, ...]


@dataclass(frozen=True)
class LintRule:
    """One rule of `jobs check`."""

    id: str
    severity: Literal["warning", "advice"]
    what: str
    why: str
    change: str
    source: str


@dataclass(frozen=True)
class ImportNote:
    """A key of an imported file that does not carry over, or that was decided by the import."""

    file: str
    line: int | None
    key: str
    text: str
    must_change: bool  # the job needs an edit before it can run


@dataclass(frozen=True)
class ImportedJob:
    """A job that was made of a file of another program."""

    kind: str
    job: Mapping[str, Any]
    profile: Mapping[str, Any] | None  # null: the file describes no cluster
    notes: tuple[ImportNote, ...]
    path: str | None  # the file that was created; null: none
    profile_path: str | None


@dataclass(frozen=True)
class ExportedJob:
    """A job as the file of another launcher."""

    target: str
    text: str
    notes: tuple[str, ...]  # what of the job is not in it, or needs an edit
    path: str | None  # the file that was created; null: none


@dataclass(frozen=True)
class DefaultProfile:
    """The profile that `submit` uses where none is given."""

    profile: str
    source: str
