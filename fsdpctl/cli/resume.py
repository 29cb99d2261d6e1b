"""`fsdpctl resume`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.complete import complete_hold, complete_profile
from fsdpctl.cli.options import Backend, Follow, Force, Json, Run, Set, WaitForSlot
from fsdpctl.cli.output import log, print_json

if TYPE_CHECKING:
    from fsdpctl.contract.paths import RunPaths
    from fsdpctl.verbs.resume import Resumed


def resume(
    run: Run = None,
    nodes: Annotated[int | None, typer.Option("--nodes", "-n", help="Continue with another number of nodes.")] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", "-p", help="Continue under another cluster profile.", autocompletion=complete_profile
        ),
    ] = None,
    hold: Annotated[
        str | None,
        typer.Option(
            "--in",
            metavar="HOLD",
            help="Continue at once on the nodes of `fsdpctl hold`, with its profile.",
            autocompletion=complete_hold,
        ),
    ] = None,
    set_: Set = None,
    backend: Backend = None,
    step: Annotated[int | None, typer.Option("--step", help="Go back to this checkpoint; newer ones are kept.")] = None,
    update_code: Annotated[
        bool, typer.Option("--update-code", help="Copy the project again, from where it was submitted.")
    ] = False,
    code_dir: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="With --update-code: copy this directory instead.")
    ] = None,
    force: Force = False,
    wait_for_slot: WaitForSlot = False,
    follow: Follow = False,
    as_json: Json = False,
) -> None:
    """Continue a run from its newest checkpoint."""
    from fsdpctl.cli.copy_progress import show_copy
    from fsdpctl.cli.start_progress import show_start
    from fsdpctl.runs.find import find_run
    from fsdpctl.verbs.holds import find_hold
    from fsdpctl.verbs.resume import Changes
    from fsdpctl.verbs.resume import resume as resume_run

    paths = find_run(run)
    overrides = [*([f"--nodes={nodes}"] if nodes is not None else []), *(set_ or [])]
    held = find_hold(hold) if hold is not None else None
    changes = Changes(overrides, backend or (), profile, held, step, update_code, code_dir)
    with show_copy() as progress, show_start(paths):
        wait = log if wait_for_slot else None
        resumed = resume_run(paths, changes, force=force, progress=progress, report_wait=wait)
    _log_resumed(paths, resumed)
    if as_json:
        _print_json(paths, resumed)
    if follow:
        from fsdpctl.cli.follow import follow_run, wait_for_end

        raise typer.Exit(wait_for_end(paths) if as_json else follow_run(paths))


def _log_resumed(run: RunPaths, resumed: Resumed) -> None:
    from fsdpctl.verbs.resume import predict_resumed

    if resumed.has_new_fsdpctl:
        log("this run is of an older fsdpctl: its nodes now run fsdpctl and the trainer of this version")
    for warning in (*resumed.warnings, *predict_resumed(run)):
        log(f"warning: {warning}")
    if resumed.kept:
        log(f"warning: not copied, because ranks have changed them: {', '.join(resumed.kept)}")
        log(f"hint: delete them in {run.root} to get those of the project at the next resume")
    log(f"resumed {run.root.name}" + (f" with the code of {resumed.code_dir}" if resumed.code_dir else ""))


def _print_json(run: RunPaths, resumed: Resumed) -> None:
    from fsdpctl.cli.shapes.runs import Resumed as Shape

    copied_from = str(resumed.code_dir) if resumed.code_dir is not None else None
    print_json(Shape(run.root.name, str(run.root), resumed.has_new_fsdpctl, copied_from, tuple(resumed.kept)))
