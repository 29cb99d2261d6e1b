"""Shared by `jobs` and `profiles`: list files, print one with all defaults, check and copy files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fsdpctl.cli.new_file import create_files
from fsdpctl.cli.output import print_data, print_json, print_table
from fsdpctl.errors import UsageError

if TYPE_CHECKING:
    from fsdpctl.schema.spec import Spec
    from fsdpctl.specs.job import JobSpec


def print_list(files: Mapping[str, Path], summarize: Callable[[str], str], *, as_json: bool) -> None:
    """Print one line for each file; one that does not load is shown as broken."""
    from fsdpctl.cli.shapes.specs import ListedFile

    found = []
    for name, path in files.items():
        try:
            found.append(ListedFile(name, summarize(str(path)), str(path), None))
        except UsageError as error:
            found.append(ListedFile(name, "broken, see `check`", str(path), error.message))
    if as_json:
        print_json(found)
    else:
        print_table(("NAME", "WHAT", "FILE"), [[item.name, item.summary, item.path] for item in found])


def print_spec(spec: Spec, *, as_json: bool) -> None:
    """Print a spec with all defaults filled in, as YAML that loads again."""
    from fsdpctl.schema.dump import dump_yaml

    if as_json:
        print_json(spec.model_dump(mode="json"))
    else:
        print_data(dump_yaml(spec).rstrip())


def check_all(names: Sequence[str], summarize: Callable[[str], str], *, as_json: bool) -> None:
    """Print a line for each good file, then raise one UsageError with the problems of all others."""
    from fsdpctl.cli.shapes.specs import Checked

    errors, checked = [], []
    for name in names:
        try:
            summary = summarize(name)
        except UsageError as error:
            errors.append(error)
            checked.append(Checked(name, False, tuple(error.message.splitlines())))
        else:
            checked.append(Checked(name, True, ()))
            if not as_json:
                print_data(f"{name}: ok, {summary}")
    if as_json:
        print_json(checked)
    if errors:
        hints = [error.hint for error in errors if error.hint]
        raise UsageError("\n".join(error.message for error in errors), hint=hints[0] if hints else None)


def find_target(name_or_path: str, folder: Path) -> Path:
    """Return the file that `init` makes: a path if it ends in .yaml, else a file in `folder`. Raise UsageError."""
    from fsdpctl.schema.types import NAME
    from fsdpctl.specs.search import SUFFIXES

    is_path = name_or_path.endswith(SUFFIXES)
    name = Path(name_or_path).stem if is_path else name_or_path
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name: letters, digits, '.', '_' and '-', at most 64")
    return Path(name_or_path) if is_path else folder / f"{name}.yaml"


def copy_spec(source: Path, target: Path, *, as_json: bool) -> None:
    """Copy a spec's file under another name, with its comments. Raise UsageError if the target exists."""
    text, found = re.subn(r"(?m)^name: *[^ #\n]+", f"name: {target.stem}", source.read_text(encoding="utf-8"), count=1)
    if not found:
        raise UsageError(f"{source} has no line `name: ...` to change; copy it by hand")
    create_files({target: text})
    print_created(target, as_json=as_json)


def print_created(path: Path, *, as_json: bool) -> None:
    from fsdpctl.cli.shapes.specs import Created

    if as_json:
        print_json(Created(str(path)))
    else:
        print_data(str(path))


def summarize_job(job: JobSpec) -> str:
    """Return a job in a few words."""
    if job.trainer:
        summary = f"{plural(job.trainer.model.num_parameters, 'parameter')}, {plural(job.trainer.steps, 'step')}"
    else:
        summary = job.entrypoint.script or f"module {job.entrypoint.module}"
    return f"{plural(job.nodes, 'node')}, {summary}"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
