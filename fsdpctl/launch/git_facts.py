"""Ask git which commit a project is at, and what was edited since."""

from __future__ import annotations

import subprocess
from pathlib import Path

from fsdpctl.contract.codec import write_json, write_text
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.git_facts import GitFacts

MAX_DIFF_BYTES = 2**20
_TIMEOUT_S = 30


def record_git(project: Path, run: RunPaths, secrets: tuple[str, ...]) -> None:
    """Store commit and edits of the project; nothing where there is no repository, or no commit yet.

    `secrets` are patterns of files whose content must not be stored.
    """
    facts = ask_git(project)
    if facts is None:
        return
    write_json(run.git, facts)
    left_out = [f":(exclude,glob)**/{pattern}" for pattern in secrets]
    diff = _git(project, "diff", "--no-color", "--no-ext-diff", "--relative", "HEAD", "--", ".", *left_out) or ""
    if diff:
        write_text(run.git_diff, diff.encode()[:MAX_DIFF_BYTES].decode(errors="ignore"))


def ask_git(project: Path) -> GitFacts | None:
    """Return the state of the repository of a project; None without one, and before its first commit."""
    head = _git(project, "log", "-1", "--format=%H%n%s")
    if not head:
        return None
    commit, _, subject = head.rstrip("\n").partition("\n")
    branch = (_git(project, "symbolic-ref", "--short", "--quiet", "HEAD") or "").strip()
    changed = _git(project, "diff", "--name-only", "--relative", "-z", "HEAD", "--", ".") or ""
    untracked = _git(project, "ls-files", "--others", "--exclude-standard", "-z") or ""
    return GitFacts(commit, subject, branch or None, _names(changed), _names(untracked))


def _names(listing: str) -> tuple[str, ...]:
    return tuple(sorted(name for name in listing.split("\0") if name))


def _git(project: Path, *words: str) -> str | None:
    """Return what git prints; None if it fails. Optional locks are not taken: another git may be at work."""
    command = ["git", "--no-optional-locks", "-C", str(project), *words]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", errors="replace")
