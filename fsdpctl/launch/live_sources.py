"""Find sources of the user's project that ranks would import where they are, and not from the run's copy."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Collection, Iterable
from pathlib import Path

from fsdpctl.launch.snapshot import list_project

_ASK = """
import json, sys
found = [path for path in sys.path if path]
for finder in sys.meta_path:  # editable installs of setuptools
    table = getattr(sys.modules.get(getattr(finder, "__module__", "")), "MAPPING", {})
    found += [path for path in table.values() if isinstance(path, str)] if isinstance(table, dict) else []
print(json.dumps({"prefix": sys.prefix, "path": found}))
"""
ASK_LIMIT_S = 20.0


def find_live_sources(python: str, project: Path) -> list[str]:
    """Return directories on the import path of `python` that are of the project's repository, and in no copy of it.

    Empty if this machine cannot answer: on the nodes the path may be another one.
    """
    ask = [python, "-c", _ASK]
    try:
        env = {**os.environ, "PYTHONSAFEPATH": "1"}
        answer = subprocess.run(ask, env=env, cwd="/", capture_output=True, check=True, timeout=ASK_LIMIT_S).stdout
        found = json.loads(answer)
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
    return select_live(found["path"], found["prefix"], _repository(project), project, list_project(project))


def select_live(
    path: Iterable[str], prefix: str, repository: Path, project: Path, copied: Collection[str]
) -> list[str]:
    """Return the entries in the repository of which nothing is copied; `prefix` is of the interpreter itself."""
    real = [entry.resolve() for entry in map(Path, path) if entry.is_absolute() and entry.exists()]
    own = [entry for entry in real if entry.is_relative_to(repository) and not entry.is_relative_to(prefix)]
    return sorted({str(entry) for entry in own if not _is_copied(entry, project, copied)})


def _is_copied(entry: Path, project: Path, copied: Collection[str]) -> bool:
    if not entry.is_relative_to(project):
        return False
    name = str(entry.relative_to(project))
    return name == "." or any(file == name or file.startswith(f"{name}/") for file in copied)


def _repository(project: Path) -> Path:
    """Return the root of the git repository of a directory, else the directory itself."""
    ask = ["git", "-C", str(project), "rev-parse", "--show-toplevel"]
    try:
        return Path(os.fsdecode(subprocess.run(ask, capture_output=True, check=True, timeout=60).stdout).rstrip("\n"))
    except (OSError, subprocess.SubprocessError):
        return project
