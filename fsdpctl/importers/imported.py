"""What an importer returns: a job that loads, and what its user has to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fsdpctl.other_launchers.draft import Note, Program


@dataclass(frozen=True)
class Imported:
    """A job that loads, and what its user has to know."""

    kind: str
    program: Program
    job: Mapping[str, Any]
    profile: Mapping[str, Any]  # empty: the file describes no cluster
    notes: tuple[Note, ...]
