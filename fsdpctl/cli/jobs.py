"""`fsdpctl jobs`: list, show, check and copy jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from fsdpctl.cli.complete import complete_job
from fsdpctl.cli.jobs_check import check, rules
from fsdpctl.cli.jobs_export import export_job
from fsdpctl.cli.jobs_import import import_job
from fsdpctl.cli.options import Json
from fsdpctl.cli.output import log
from fsdpctl.cli.spec_files import copy_spec, find_target, print_list, print_spec, summarize_job

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="List, show, check and make jobs.")
app.command("import")(import_job)
app.command("export")(export_job)


@app.command()
def ls(as_json: Json = False) -> None:
    """List the jobs that `submit` finds by name."""
    from fsdpctl.specs.search import job_dirs, list_files

    print_list(list_files(job_dirs()), _summarize, as_json=as_json)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Name or file of a job.", autocompletion=complete_job)],
    as_json: Json = False,
) -> None:
    """Print a job with all defaults filled in."""
    from fsdpctl.specs.load import load_job_with_notices

    job, notices = load_job_with_notices(name)
    for notice in notices:
        log(notice)
    print_spec(job, as_json=as_json)


app.command()(check)
app.command()(rules)


@app.command()
def init(
    name: Annotated[str, typer.Argument(help="Name of the new job, or a .yaml file to make.")],
    base: Annotated[
        str | None,
        typer.Option(
            "--from", help="The job to copy; default: the one of that name, else llm-tiny.", autocompletion=complete_job
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a commented job into ./jobs, to edit."""
    from pathlib import Path

    from fsdpctl.specs.load import load_job
    from fsdpctl.specs.search import find_job, job_dirs, list_files

    target = find_target(name, Path("jobs"))
    base = base or (target.stem if target.stem in list_files(job_dirs()) else "llm-tiny")
    load_job(base)
    copy_spec(find_job(base), target, as_json=as_json)
    log(f"hint: edit it, then: fsdpctl jobs check {name}")


def _summarize(name: str) -> str:
    from fsdpctl.specs.load import load_job

    return summarize_job(load_job(name))
