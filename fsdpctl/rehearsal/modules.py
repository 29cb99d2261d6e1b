"""Look for the modules of a job's own script before any rank starts."""

from __future__ import annotations

from pathlib import Path

from fsdpctl.errors import RunFailed
from fsdpctl.launch.snapshot import list_project
from fsdpctl.own_scripts.modules import find_missing, find_module, only_outside, read_needed
from fsdpctl.verbs.submit import Request


def check_modules(request: Request, python: str) -> None:
    """Raise RunFailed with each import of a module that the ranks would not have."""
    entry, project = request.plan.entry, Path(request.plan.submit_dir)
    files = list_project(project)
    if (file := _entry_file(entry.kind, entry.target, files)) is None:
        return  # a module that is installed
    needed = read_needed(project, files, file, is_module=entry.kind == "module")
    plan, outside = request.plan, only_outside(needed, files)
    missing = find_missing(python, plan.setup, plan.env, list(outside), project) or frozenset()
    lines = list(needed.problems)
    for name, one in outside.items():
        if name in missing:
            lines.append(f"{one.file}:{one.line}: import {one.module}: {python} has no module {name}")
    if lines:
        raise RunFailed(
            "\n".join([f"job {request.job.name} cannot start; nothing was queued", *lines]),
            hint="install it there, or set `environment` of the profile, or its `python` or `venv`",
        )


def _entry_file(kind: str, target: str, files: list[str]) -> str | None:
    """Return the file of an entrypoint in the project."""
    if kind == "script":
        return target
    return find_module(target, files)
