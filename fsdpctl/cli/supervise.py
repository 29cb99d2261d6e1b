"""`fsdpctl supervise`."""

from __future__ import annotations

from fsdpctl.cli.options import Json, Run
from fsdpctl.cli.output import log
from fsdpctl.cli.stop import print_end


def supervise(run: Run = None, as_json: Json = False) -> None:
    """Start the supervisor of a local or SSH run again, after it was killed or its host was restarted."""
    from fsdpctl.runs.find import find_run
    from fsdpctl.verbs.status import read_status
    from fsdpctl.verbs.supervise import supervise as start_again

    paths = find_run(run)
    if acted := start_again(paths):
        log(f"{paths.root.name} has a supervisor again")
    else:
        status = read_status(paths)
        log(f"{paths.root.name} needs no new supervisor: {status.state}, {status.reason}")
    if as_json:
        print_end(paths, acted=acted)
