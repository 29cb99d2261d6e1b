"""`fsdpctl jobs export`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fsdpctl.cli.complete import complete_job, complete_profile
from fsdpctl.cli.options import Json, Set
from fsdpctl.cli.out_path import text_or_stdout
from fsdpctl.cli.output import log, print_data, print_json


class Target(StrEnum):
    """The files that `export` writes; `fsdpctl/exporters/table.py` has how."""

    ACCELERATE = "accelerate"
    SBATCH = "sbatch"
    TORCHRUN = "torchrun"
    TRAINJOB = "trainjob"
    JOBSET = "jobset"


def export_job(
    job: Annotated[str, typer.Argument(help="A job's name or a path to its YAML file.", autocompletion=complete_job)],
    to: Annotated[Target, typer.Option("--to", help="What to write.")],
    profile: Annotated[
        str | None,
        typer.Option("--profile", "-p", help="Name or path of a cluster profile.", autocompletion=complete_profile),
    ] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", "-n", help="Number of nodes.", min=1)] = None,
    overrides: Set = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", callback=text_or_stdout, help="File to create; default, and `-`: print to stdout."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a job as a batch script, a torchrun script, or a file of another launcher, to run without fsdpctl.

    What of the job is not in it is listed on stderr. Values of variables and options that
    seem to be secrets are not written.
    """
    from fsdpctl.cli.new_file import create_files
    from fsdpctl.cli.shapes.specs import ExportedJob
    from fsdpctl.exporters.exportable import Exportable
    from fsdpctl.exporters.table import write
    from fsdpctl.verbs.export import plan_export

    given = [*([f"--nodes={nodes}"] if nodes is not None else []), *(overrides or [])]
    request = plan_export(job, profile, given)
    exported = write(to, Exportable(request.job, request.plan))
    if out is not None:
        create_files({out: exported.text})
    for note in exported.notes:
        log(note)
    if as_json:
        print_json(ExportedJob(to, exported.text, exported.notes, str(out) if out else None))
    else:
        print_data(str(out) if out else exported.text.rstrip())
