"""`fsdpctl jobs init`: a new job to edit, of another job or for an own script."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fsdpctl.cli.complete import complete_job
from fsdpctl.cli.new_file import create_files
from fsdpctl.cli.options import Json
from fsdpctl.cli.out_path import file_only
from fsdpctl.cli.output import log
from fsdpctl.cli.spec_files import copy_spec, find_target, print_created
from fsdpctl.errors import UsageError


def init(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Name of the new job, or a .yaml file to make; with --from-script the arguments of the script.",
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            "--from", help="The job to copy; default: the one of that name, else llm-tiny.", autocompletion=complete_job
        ),
    ] = None,
    script: Annotated[
        str | None,
        typer.Option(
            "--from-script",
            help="Make a job for this script, or module like package.train; what it needs is found by reading it.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", callback=file_only, help="With --from-script: file to make; default: jobs/SCRIPT.yaml."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a commented job into ./jobs, to edit."""
    if script is not None and base is not None:
        raise UsageError("--from copies a job, --from-script makes one for a script: give one of them")
    if script is not None:
        _make(script, words or [], out, as_json=as_json)
    else:
        _copy(_one_name(words or [], out), base, as_json=as_json)


def _one_name(words: list[str], out: Path | None) -> str:
    """Return the name. Raise UsageError for anything else, as of arguments of a script."""
    if out is not None:
        raise UsageError("--out is the file of --from-script", hint="a name that ends in .yaml is a file, too")
    if options := [word for word in words if word.startswith("-")]:
        raise UsageError(f"no such option: {options[0]}", hint="only --from-script takes arguments")
    if len(words) != 1:
        raise UsageError(f"give one name for the new job, got {len(words)}", hint="fsdpctl jobs init NAME")
    return words[0]


def _copy(name: str, base: str | None, *, as_json: bool) -> None:
    from fsdpctl.specs.load import load_job
    from fsdpctl.specs.search import find_job, job_dirs, list_files

    target = find_target(name, Path("jobs"))
    base = base or (target.stem if target.stem in list_files(job_dirs()) else "llm-tiny")
    load_job(base)
    copy_spec(find_job(base), target, as_json=as_json)
    log(f"hint: edit it, then: fsdpctl jobs check {name}")


def _stem(script: str) -> str:
    """Return the last part of a path or of a module's name."""
    path = Path(script)
    return path.stem if path.suffix == ".py" else path.name.rpartition(".")[2]


def _make(script: str, args: list[str], out: Path | None, *, as_json: bool) -> None:
    from fsdpctl.importers.build import job_name
    from fsdpctl.verbs.new_job import make_job

    target = find_target(str(out) if out else job_name(_stem(script)), Path("jobs"))
    create_files({target: make_job(target.stem, script, args)})
    print_created(target, as_json=as_json)
    log(f"hint: edit it, then: fsdpctl submit {target} --rehearse")
