"""`fsdpctl stop` and `fsdpctl cancel`."""

from __future__ import annotations

import typer

from fsdpctl.cli.options import Run
from fsdpctl.cli.output import say


def stop(run: Run = None) -> None:
    """Ask a run to save and leave, and wait for it; `resume` continues it."""
    from fsdpctl.cli.follow import wait_for_end
    from fsdpctl.launchers.table import get_launcher
    from fsdpctl.runs.find import find_run
    from fsdpctl.runs.store import read_record
    from fsdpctl.verbs.status import read_status

    paths = find_run(run)
    if not get_launcher(read_record(paths).backend).stop(paths):
        status = read_status(paths)
        say(f"{paths.root.name} is not running: {status.state}, {status.reason}")
        return
    say(f"{paths.root.name} was asked to save and leave")
    raise typer.Exit(wait_for_end(paths))


def cancel(run: Run = None) -> None:
    """End a run now, without a save, and make sure that no process is left."""
    from fsdpctl.launchers.table import get_launcher
    from fsdpctl.runs.find import find_run
    from fsdpctl.runs.store import read_record
    from fsdpctl.verbs.status import read_status

    paths = find_run(run)
    if get_launcher(read_record(paths).backend).cancel(paths):
        say(f"{paths.root.name} is cancelled; no process of it is left")
    else:
        status = read_status(paths)
        say(f"{paths.root.name} is not running: {status.state}, {status.reason}")
