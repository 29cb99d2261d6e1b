"""`fsdpctl jobs`: list, show, check and copy jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from fsdpctl.cli.complete import complete_job
from fsdpctl.cli.jobs_check import check, rules
from fsdpctl.cli.jobs_export import export_job
from fsdpctl.cli.jobs_import import import_job
from fsdpctl.cli.jobs_init import init
from fsdpctl.cli.options import Json
from fsdpctl.cli.output import log
from fsdpctl.cli.spec_files import print_list, print_spec, summarize_job

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


app.command(context_settings={"ignore_unknown_options": True})(init)


def _summarize(name: str) -> str:
    from fsdpctl.specs.load import load_job

    return summarize_job(load_job(name))
