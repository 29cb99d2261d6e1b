"""shell: a shell on a node of a run, in the environment of its ranks."""

from __future__ import annotations

from fsdpctl.backends.base import ShellCommand
from fsdpctl.backends.table import get_backend
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import FsdpctlError
from fsdpctl.node.queries import shell
from fsdpctl.runs.evidence import read_plan
from fsdpctl.runs.find import check_ranks, find_attempt
from fsdpctl.runs.store import open_record


def shell_command(run: RunPaths, node_rank: int, *, is_terminal: bool) -> ShellCommand:
    """Return the command that opens the shell. Raise UsageError for a node that the run does not have, LaunchError if
    the scheduler gives no access to it now.
    """
    record = open_record(run)
    check_ranks(run, find_attempt(run, None), (), (node_rank,))
    if not (run.code / f"{shell.__spec__.name.replace('.', '/')}.py").is_file():
        raise FsdpctlError(
            f"the run's copy of fsdpctl is missing, or of a version without this command: {run.code}",
            hint=f"fsdpctl resume {run.root.name} --update-code",
        )
    return get_backend(record.backend).shell_command(run, read_plan(run), node_rank, is_terminal=is_terminal)
