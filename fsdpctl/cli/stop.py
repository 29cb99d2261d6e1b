"""`fsdpctl stop` and `fsdpctl cancel`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from fsdpctl.cli.options import Run
from fsdpctl.cli.output import log

if TYPE_CHECKING:
    from fsdpctl.contract.paths import RunPaths


def stop(run: Run = None) -> None:
    """Ask a run to save and exit, and wait for it; `resume` continues it."""
    from fsdpctl.cli.follow import wait_for_end
    from fsdpctl.runs.find import find_run
    from fsdpctl.verbs.stop import stop as ask_to_stop

    paths = find_run(run)
    if not ask_to_stop(paths, log):
        _log_not_running(paths)
        return
    log(f"{paths.root.name} was asked to save and exit")
    raise typer.Exit(wait_for_end(paths))


def cancel(run: Run = None) -> None:
    """End a run now, without a save, and make sure that no process is left."""
    from fsdpctl.runs.find import find_run
    from fsdpctl.verbs.stop import cancel as end_now

    paths = find_run(run)
    if end_now(paths, log):
        log(f"{paths.root.name} is cancelled; no process of it is left")
    else:
        _log_not_running(paths)


def _log_not_running(paths: RunPaths) -> None:
    from fsdpctl.verbs.status import read_status

    status = read_status(paths)
    log(f"{paths.root.name} is not running: {status.state}, {status.reason}")
