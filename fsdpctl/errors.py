"""All failures that are reported to the user. One base class; `cli/app.py` is the only place that prints it."""

from __future__ import annotations

from fsdpctl.contract import CliExit


class FsdpctlError(Exception):
    """A failure with an exit code and, if there is one, a hint of what to do."""

    exit_code: int = CliExit.FAILED

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(FsdpctlError):
    """The arguments, a profile or a job are wrong: nothing was started."""

    exit_code = CliExit.USAGE


class LaunchError(FsdpctlError):
    """A scheduler or a host is unreachable or refuses."""

    exit_code = CliExit.UNREACHABLE


class RefusedError(LaunchError):
    """Refused before anything was started: `submit` leaves no run."""


class BusyError(FsdpctlError):
    """The run is alive or locked by another command."""

    exit_code = CliExit.BUSY


class RunFailed(FsdpctlError):
    """The command worked; the run or the check did not."""
