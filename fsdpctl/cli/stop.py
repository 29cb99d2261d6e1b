"""`fsdpctl stop` and `fsdpctl cancel`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from fsdpctl.cli.options import Json, Run
from fsdpctl.cli.output import log, print_json

if TYPE_CHECKING:
    from fsdpctl.contract.paths import RunPaths


def stop(run: Run = None, as_json: Json = False) -> None:
    """Ask a run to save and exit, and wait for it; `resume` continues it."""
    from fsdpctl.cli.follow import wait_for_end
    from fsdpctl.runs.find import find_run
    from fsdpctl.verbs.stop import stop as ask_to_stop
    from fsdpctl.verbs.stop import was_forced

    paths = find_run(run)
    acted, code = ask_to_stop(paths, log), 0
    if acted:
        log(f"{paths.root.name} was asked to save and exit")
        code = wait_for_end(paths, while_queued=lambda: ask_to_stop(paths))  # Slurm may have requeued it meanwhile
        if was_forced(paths):
            log("hint: the script did not exit by itself in its grace; docs/own-scripts.md has how it saves and exits")
    else:
        _log_not_running(paths)
    if as_json:
        print_end(paths, acted=acted)
    raise typer.Exit(code)


def cancel(run: Run = None, as_json: Json = False) -> None:
    """End a run now, without a save, and make sure that no process is left."""
    from fsdpctl.runs.find import find_run
    from fsdpctl.verbs.stop import cancel as end_now

    paths = find_run(run)
    if acted := end_now(paths, log):
        log(f"{paths.root.name} is cancelled; no process of it is left")
    else:
        _log_not_running(paths)
    if as_json:
        print_end(paths, acted=acted)


def print_end(paths: RunPaths, *, acted: bool) -> None:
    """Print as JSON what a run is after a command that was to change it."""
    from fsdpctl.cli.shapes.runs import Ended
    from fsdpctl.verbs.status import read_status

    found = read_status(paths)
    print_json(Ended(found.run_id, acted, found.state, found.phase, found.cause, found.reason))


def _log_not_running(paths: RunPaths) -> None:
    from fsdpctl.verbs.status import read_status

    status = read_status(paths)
    log(f"{paths.root.name} is not running: {status.state}, {status.reason}")
