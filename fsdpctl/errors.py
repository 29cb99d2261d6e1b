"""All failures that are reported to the user. One base class; `cli/app.py` is the only place that prints it."""

from __future__ import annotations

import sys

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


class NoSlotError(RefusedError):
    """Refused because this user has as many jobs as the scheduler allows: it is accepted once one of them has ended."""


class BusyError(FsdpctlError):
    """The run is alive or locked by another command."""

    exit_code = CliExit.BUSY


class RunFailed(FsdpctlError):
    """The command worked; the run or the check did not."""


class DamagedRegistryWarning(UserWarning):
    """An entry of the registry was damaged, and is repaired: a warning, because the command continues."""


def install_hint(extra: str) -> str:
    """Return the command that adds an extra of `pyproject.toml` to this installation, for the hint of an error."""
    import shlex  # these imports are slow, and only a hint needs them

    return f"{shlex.quote(sys.executable)} -m pip install {requirement(extra, _direct_url())}"


def requirement(extra: str, direct_url: str | None) -> str:
    """Return what to pass to pip. `direct_url` is the text of direct_url.json, which pip writes for a path or URL."""
    import json
    from urllib.parse import unquote, urlsplit

    origin = json.loads(direct_url) if direct_url else {}
    url = urlsplit(origin.get("url", ""))
    source = unquote(url.path) if url.scheme == "file" else "fsdpctl"
    option = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f"{option}'{source}[{extra}]'"


def _direct_url() -> str | None:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution("fsdpctl").read_text("direct_url.json")
    except PackageNotFoundError:  # run from a checkout, not installed
        return None
