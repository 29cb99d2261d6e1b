"""The rows of `status` and `submit -f` on what a run that has ended has used, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsdpctl.errors import FsdpctlError

if TYPE_CHECKING:
    from fsdpctl.contract.paths import RunPaths
    from fsdpctl.verbs.status import RunStatus


def read_used_rows(run: RunPaths, status: RunStatus, *, is_brief: bool) -> list[tuple[str, str]]:
    """Return the rows; none for a run that is alive, or where they cannot be read."""
    from fsdpctl.contract.codec import CodecError
    from fsdpctl.run_report.read import read_facts
    from fsdpctl.run_report.short import used_rows

    if status.state.is_alive:
        return []
    try:
        return used_rows(read_facts(run, status, is_brief=is_brief))
    except (FsdpctlError, CodecError, OSError):
        return []
