"""Every failure that a user can meet. One base class; `cli/app.py` is the one boundary that prints it."""

from __future__ import annotations

from fsdpctl.contract import CliExit


class FsdpctlError(Exception):
    """A failure with an exit code and, where there is one, the next thing to do."""

    exit_code: int = CliExit.FAILED

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(FsdpctlError):
    """The words, a profile or a job are wrong: nothing was started."""

    exit_code = CliExit.USAGE


class LaunchError(FsdpctlError):
    """A scheduler or a host is unreachable or refuses."""

    exit_code = CliExit.UNREACHABLE


class RefusedError(LaunchError):
    """Refused before anything began: `submit` leaves no run behind."""


class BusyError(FsdpctlError):
    """The run is alive or locked by another command."""

    exit_code = CliExit.BUSY


class RunFailed(FsdpctlError):
    """The command worked; the run or the check did not."""
