"""The state of the user's repository at a submit, as stored beside the copy of the project."""

from __future__ import annotations

from dataclasses import dataclass

from fsdpctl.contract.codec import find_json
from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.paths import RunPaths


@dataclass(frozen=True)
class GitFacts:
    """`git.json`. The edits themselves are in `git.diff`."""

    commit: str
    subject: str  # first line of its message
    branch: str | None  # None: no branch was checked out
    changed: tuple[str, ...]  # files that differ from the commit, below the project
    untracked: tuple[str, ...]


def read_git_facts(run: RunPaths) -> GitFacts | None:
    """Return the state of the repository; None without one, for the bundled trainer, and for a run of an older version.

    Raise CodecError and OSError if the file cannot be read.
    """
    return find_json(GitFacts, run.git)


def read_git_diff(run: RunPaths) -> str:
    """Return the edits that were not committed; empty if there were none."""
    try:
        return read_bytes(run.git_diff).decode(errors="replace")
    except FileNotFoundError:
        return ""
