"""Make ranks import the copy of the user's project, never the project itself.

An editable install and an absolute PYTHONPATH name directories of the project: each is replaced by its copy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path


def use_copy(project: Path, copy: Path) -> None:
    """Replace directories of the project on the path of this process, and of those that it starts."""
    wanted = in_copy(sys.path, project, copy)
    moved = [entry for entry, before in zip(wanted, sys.path, strict=True) if entry != before]
    sys.path[:] = wanted
    moved += _use_copy_in_finders(project, copy)
    inherited = in_copy(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), project, copy)
    # Editable installs come after PYTHONPATH in a process that a rank starts: there the copy is found first.
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*inherited, *moved]))


def in_copy(entries: Iterable[str], project: Path, copy: Path) -> list[str]:
    """Return the entries of a path with the copy of each that is in the project; what was not copied stays."""
    return [_in_copy(entry, project, copy) for entry in entries]


def _in_copy(entry: str, project: Path, copy: Path) -> str:
    real, root = Path(entry).resolve(), project.resolve()
    if not Path(entry).is_absolute() or not real.is_relative_to(root):
        return entry
    copied = copy / real.relative_to(root)
    return str(copied) if copied.exists() else entry


def _use_copy_in_finders(project: Path, copy: Path) -> list[str]:
    """Do the same for editable installs of setuptools that are no .pth file: a finder with a table of packages.

    Return the directories that have the copies of these packages.
    """
    parents = []
    for finder in sys.meta_path:
        module = sys.modules.get(getattr(finder, "__module__", ""))
        table = getattr(module, "MAPPING", None)  # setuptools/command/editable_wheel.py, _FINDER_TEMPLATE
        if isinstance(table, dict):
            for name, path in table.items():
                if (copied := _in_copy(str(path), project, copy)) != str(path):
                    table[name] = copied
                    parents.append(str(Path(copied).parent))
    return parents
