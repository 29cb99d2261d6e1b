"""Failures that a user can understand without a traceback."""

from __future__ import annotations

from fsdpctl.contract import Cause, CliExit
from fsdpctl.contract.files import NOT_THERE


class TrainError(Exception):
    """An expected failure; its text is the one line that the user sees."""

    exit_code = int(CliExit.FAILED)
    cause = Cause.EXCEPTION


class ConfigError(TrainError):
    """The configuration, the data or the world do not fit together: another attempt would fail in the same way."""

    exit_code = int(CliExit.USAGE)
    cause = Cause.CONFIGURATION


def unreadable(text: str, error: OSError) -> TrainError:
    """Return the error of a file that cannot be read: of the configuration, unless the disk may be at fault."""
    return (ConfigError if error.errno in NOT_THERE else TrainError)(text)
