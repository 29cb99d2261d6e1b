"""`fsdpctl estimate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fsdpctl.cli.complete import complete_job
from fsdpctl.cli.options import Json, Profile, Set
from fsdpctl.cli.output import log, print_json


def estimate(
    job: Annotated[str, typer.Argument(help="A job's name or a path to its YAML file.", autocompletion=complete_job)],
    profile: Profile = None,
    nodes: Annotated[int | None, typer.Option("--nodes", "-n", help="Number of nodes.")] = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="Kind of GPU, like a100-80, h100 or h200; default: the profile's.")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option("--gpus", min=1, max=64, help="GPUs of each node; default: the profile's.")
    ] = None,
    set_: Set = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="DIR", help="Take the sizes of the model from this config.json."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Estimate a job's memory, time and cost, without a GPU."""
    from fsdpctl.verbs.estimate import estimate_job

    overrides = [*([f"--nodes={nodes}"] if nodes is not None else []), *(set_ or [])]
    found = estimate_job(job, profile, overrides, gpu=gpu, gpus=gpus, model=model)
    if as_json:
        from fsdpctl.cli.estimate_json import as_shape

        print_json(as_shape(found))
        return
    from fsdpctl.cli.estimate_text import print_estimate

    for note in found.notes:
        log(f"note: {note}")
    print_estimate(found)
