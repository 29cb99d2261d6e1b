"""Find the modules that a script needs and that its ranks would not have: in the project, and in the interpreter."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from fsdpctl.commands.setup_lines import with_setup
from fsdpctl.own_scripts.imports import Import, read_imports

ASK_LIMIT_S = 30.0
_ASK = """
import importlib.util, json, sys
def is_there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return name in sys.modules
print(json.dumps([name for name in json.loads(sys.argv[1]) if not is_there(name)]))
"""


@dataclass
class Needed:
    """What a script imports: modules from elsewhere, each where it is first imported, and what is wrong by itself."""

    outside: dict[str, Import] = field(default_factory=dict)  # top-level name -> its first import
    problems: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)  # of the project, the script first
    changes_path: bool = False  # a file names sys.path: modules may be in places that only running it shows


def read_needed(project: Path, files: Collection[str], entry: str, *, is_module: bool = False) -> Needed:
    """Follow the imports of a file of the project through the project. `files`: what is copied of it.

    `is_module`: ranks run it by the name of its module, and look in the project first; else in the file's directory.
    """
    needed, known = Needed(), set(files)
    root = PurePosixPath() if is_module else PurePosixPath(entry).parent
    waiting, seen = [entry], {entry}
    while waiting:
        file = waiting.pop(0)
        try:
            source = (project / file).read_bytes()
            found = read_imports(source, file)
        except SyntaxError as error:
            needed.problems.append(f"{file}:{error.lineno}: does not compile: {error.msg}")
            continue
        except (OSError, ValueError) as error:
            needed.problems.append(f"{file}: cannot be read: {error}")
            continue
        needed.files.append(file)
        needed.changes_path |= b"sys.path" in source
        for one in found:
            own = _own_files(one, root, known)
            waiting += [name for name in own if name not in seen]
            seen.update(own)
            if not own and one.level == 0:
                _add_outside(needed, one, root, project)
    return needed


def only_outside(needed: Needed, files: Collection[str]) -> dict[str, Import]:
    """Return the imports that no file of the project can be: none where the script changes the places of modules, and
    of none by whose name there is a folder, a file of Python or an extension module."""
    if needed.changes_path:
        return {}
    paths = [PurePosixPath(file) for file in files]
    own = {part for path in paths for part in path.parts[:-1]}
    own |= {path.name.partition(".")[0] for path in paths if path.suffix in (".py", ".so", ".pyd")}
    return {name: one for name, one in needed.outside.items() if name not in own}


def find_module(name: str, files: Collection[str]) -> str | None:
    """Return the file of the project that `python -m` runs for a name; None for a module from elsewhere."""
    path = name.replace(".", "/")
    return next((file for file in (f"{path}.py", f"{path}/__main__.py") if file in files), None)


def _add_outside(needed: Needed, one: Import, root: PurePosixPath, project: Path) -> None:
    """Add a module that is in no file of the copy; one that the project has is left out of the copy."""
    for place in (root / f"{one.top}.py", root / one.top / "__init__.py"):
        if (project / place).is_file():
            text = f"{place} is not copied into the run: git ignores it, or it has the name of a secret"
            needed.problems.append(f"{one.file}:{one.line}: import {one.module}: {text}")
            return
    needed.outside.setdefault(one.top, one)


def _own_files(one: Import, root: PurePosixPath, known: Collection[str]) -> list[str]:
    """Return the files of the project that an import runs; none for a module from elsewhere."""
    base = root
    if one.level:
        base = PurePosixPath(one.file)
        for _ in range(one.level):
            base = base.parent
    parts = one.module.split(".") if one.module else []
    paths = [base.joinpath(*parts[:depth]) for depth in range(1, len(parts) + 1)]
    paths += [base.joinpath(*parts, name) for name in one.names]
    candidates = [str(name) for path in paths for name in (path.with_suffix(".py"), path / "__init__.py")]
    return [name for name in dict.fromkeys(candidates) if name in known]


def find_missing(
    python: str, setup: Sequence[str], env: Mapping[str, str], names: Collection[str], project: Path
) -> frozenset[str] | None:
    """Return which top-level modules an interpreter does not have; None if it cannot be asked here.

    It is asked in the project, where a relative PYTHONPATH leads to the same modules as in the copy.
    """
    argv = with_setup(setup, [python, "-c", _ASK, json.dumps(sorted(names))])
    environment = {**os.environ, **env, "PYTHONSAFEPATH": "1"}
    try:
        answer = subprocess.run(
            argv, env=environment, cwd=project, capture_output=True, check=True, timeout=ASK_LIMIT_S
        ).stdout
        return frozenset(json.loads(answer.splitlines()[-1]))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
