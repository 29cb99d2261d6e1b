"""Failures that a user can understand without a traceback."""

from __future__ import annotations

from fsdpctl.contract import CliExit


class TrainError(Exception):
    """An expected failure; its text is the one line that the user sees."""

    exit_code = int(CliExit.FAILED)


class ConfigError(TrainError):
    """The configuration, the data or the world do not fit together."""

    exit_code = int(CliExit.USAGE)
