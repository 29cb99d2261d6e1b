"""The text of an imported job: its keys as YAML, below comments with what still needs an edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fsdpctl.importers.imported import Imported
from fsdpctl.other_launchers.draft import Note
from fsdpctl.schema.dump import dump_tree
from fsdpctl.schema.problems import MAX_SHOWN, one_line


def job_text(imported: Imported, source: str) -> str:
    """Return the job as YAML that loads."""
    return _text(imported.job, source, [note for note in imported.notes if note.must_change])


def profile_text(imported: Imported, source: str) -> str:
    """Return the profile as YAML that loads."""
    return _text(imported.profile, source, [])


def _text(tree: Mapping[str, Any], source: str, notes: Sequence[Note]) -> str:
    lines = [
        f"From {source}, by `fsdpctl jobs import`.",
        *(f"CHANGE {note.key}: {note.text}" for note in notes[:MAX_SHOWN]),
    ]
    return "".join(f"# {one_line(line)}\n" for line in lines) + dump_tree(tree)
