"""The shell lines of a profile's `setup`, joined with the command that follows them. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fsdpctl.contract import Cause, NodeExit
from fsdpctl.contract.codec import encode

UNUSABLE = 78
"""Exit code of a line that found the profile's environment missing, after it has printed why and what to do."""


def with_setup(setup: Sequence[str], argv: list[str]) -> list[str]:
    """Return a command that runs the lines, then replaces itself by `argv`, which the shell never parses."""
    if not setup:
        return argv
    return ["bash", "-c", "\n".join(["set -e", *setup, 'exec "$@"']), "bash", *argv]


def with_setup_reporting_failure(setup: Sequence[str], end: str, argv: list[str]) -> list[str]:
    """Return the same command for an agent; if a line fails, it writes the node's exit record to the file `end`."""
    if not setup:
        return argv
    return ["bash", "-c", "\n".join([*lines_reporting_failure(setup, '"$0"'), 'exec "$@"']), end, *argv]


def lines_reporting_failure(setup: Sequence[str], end: str) -> list[str]:
    """Return the lines between those that write the exit record if one fails, because no agent is up to do so.

    `end` is the file as a word of the shell.
    """
    from fsdpctl.contract.records import NodeEnd  # few profiles have such lines

    failed = NodeEnd(NodeExit.NODE_FAULT, "a line of `setup` or `environment` failed; see agent.log", cause=Cause.SETUP)
    record = json.dumps(encode(failed)).replace("`", "\\`").replace('"', '\\"')
    return [f"trap 'echo \"{record}\" >{end}' EXIT", "set -e", *setup, "trap - EXIT"]
