"""The text of a new job for a script of the current directory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from fsdpctl.errors import UsageError
from fsdpctl.launch.snapshot import list_project
from fsdpctl.own_scripts.facts import read_facts
from fsdpctl.own_scripts.imports import read_imports
from fsdpctl.own_scripts.job_text import job_text
from fsdpctl.own_scripts.modules import find_module, read_needed
from fsdpctl.schema.secret_names import is_secret_option


def make_job(name: str, script: str, args: Sequence[str]) -> str:
    """Return a commented job for a script, or a module by its file or name.

    Raise UsageError for a script that is not here, or does not compile.
    """
    project = Path.cwd()
    files = list_project(project)
    path = os.path.normpath(find_module(script, files) or script)
    if not (project / path).is_file() or path.startswith(("..", "/")):
        raise UsageError(
            f"{script} is no file below {project}",
            hint="run this in the directory of the project, with a relative path; for `-m package.train` give"
            " package.train",
        )
    _refuse_secrets(args)
    is_module = path != os.path.normpath(script) or _imports_its_package(project / path)
    needed = read_needed(project, {*files, path}, path, is_module=is_module)
    if path not in needed.files:
        raise UsageError("\n".join(needed.problems))
    sources = {file: (project / file).read_bytes() for file in needed.files}
    entry = {"module": _module_name(path)} if is_module else {"script": path}
    return job_text(name, path, entry, tuple(args), read_facts(sources))


def _imports_its_package(file: Path) -> bool:
    """Return whether a file imports by `from .`, which a script cannot."""
    try:
        return any(one.level for one in read_imports(file.read_bytes(), file.name))
    except (OSError, SyntaxError, ValueError):
        return False


def _module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__main__").replace("/", ".")


def _refuse_secrets(args: Sequence[str]) -> None:
    for flag, following in pairwise([*args, ""]):
        name, equals, value = flag.partition("=")
        if flag.startswith("-") and is_secret_option(name, value if equals else following):
            raise UsageError(
                f"{name} is a secret, which is not written into a job",
                hint="let the script read a variable of `pass_env` of the profile",
            )
