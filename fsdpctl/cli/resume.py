"""`fsdpctl resume`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fsdpctl.cli.options import Backend, Follow, Run, Set, WaitForSlot
from fsdpctl.cli.output import log


def resume(
    run: Run = None,
    nodes: Annotated[int | None, typer.Option("--nodes", "-n", help="Continue with another number of nodes.")] = None,
    set_: Set = None,
    backend: Backend = None,
    step: Annotated[int | None, typer.Option("--step", help="Go back to this checkpoint; newer ones are kept.")] = None,
    update_code: Annotated[
        bool, typer.Option("--update-code", help="Take a new snapshot of the code in the current directory.")
    ] = False,
    wait_for_slot: WaitForSlot = False,
    follow: Follow = False,
) -> None:
    """Continue a run from its newest checkpoint."""
    from fsdpctl.cli.copy_progress import show_copy
    from fsdpctl.cli.start_progress import show_start
    from fsdpctl.runs.find import find_run
    from fsdpctl.verbs.resume import predict_resumed
    from fsdpctl.verbs.resume import resume as resume_run

    paths = find_run(run)
    overrides = [*([f"--nodes={nodes}"] if nodes is not None else []), *(set_ or [])]
    with show_copy() as progress, show_start(paths):
        has_new_code = resume_run(
            paths,
            overrides,
            backend or (),
            step=step,
            update_code=update_code,
            progress=progress,
            report_wait=log if wait_for_slot else None,
        )
    if has_new_code:
        log("this run is of an older fsdpctl: its nodes now run fsdpctl and the trainer of this version")
    for warning in predict_resumed(paths):
        log(f"warning: {warning}")
    log(f"resumed {paths.root.name}" + (f" with the code of {Path.cwd()}" if update_code else ""))
    if follow:
        from fsdpctl.cli.follow import follow_run

        raise typer.Exit(follow_run(paths))
