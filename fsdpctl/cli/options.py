"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from fsdpctl.cli.complete import complete_backend_key, complete_key, complete_profile, complete_run

Run = Annotated[
    str | None,
    typer.Argument(
        help="Run id, a prefix of it, or a job's name; default: the newest run.", autocompletion=complete_run
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to stdout.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a key of the job, like trainer.steps=50.",
        autocompletion=complete_key,
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        "-p",
        help="A cluster profile's name or path; default: as for `submit`.",
        autocompletion=complete_profile,
    ),
]
TrustHosts = Annotated[
    bool, typer.Option("--trust-hosts", help="First store and print host keys that known_hosts does not have.")
]
Backend = Annotated[
    list[str] | None,
    typer.Option(
        "--backend",
        metavar="KEY=VALUE",
        help="Change a key of the profile's backend, like partition=short; under Slurm also any option of sbatch.",
        autocompletion=complete_backend_key,
    ),
]
WaitForSlot = Annotated[
    bool, typer.Option("--wait-for-slot", help="Wait while the scheduler accepts no more jobs of you.")
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Show progress until the run ends; Ctrl-C detaches.")]
Force = Annotated[bool, typer.Option("--force", help="Start a job that does not fit the memory of its GPUs.")]
