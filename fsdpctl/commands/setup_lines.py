"""The shell lines of a profile's `setup`, before what they are for. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fsdpctl.contract import Cause, NodeExit
from fsdpctl.contract.codec import encode
from fsdpctl.contract.records import NodeEnd

_FAILED = NodeEnd(NodeExit.NODE_FAULT, "a line of `setup` failed; see agent.log", cause=Cause.SETUP)


def with_setup(setup: Sequence[str], argv: list[str]) -> list[str]:
    """Run the lines, then become `argv`; the words of `argv` never pass through the shell's parser."""
    if not setup:
        return argv
    return ["bash", "-c", "\n".join(["set -e", *setup, 'exec "$@"']), "bash", *argv]


def with_told_setup(setup: Sequence[str], end: str, argv: list[str]) -> list[str]:
    """The same for an agent of this machine: where a line fails, the node's end is left in the file `end`."""
    if not setup:
        return argv
    return ["bash", "-c", "\n".join([*told_lines(setup, '"$0"'), 'exec "$@"']), end, *argv]


def told_lines(setup: Sequence[str], end: str) -> list[str]:
    """The lines, and what leaves the node's end in `end`, a word of the shell, where one of them fails: there is no
    agent to say so."""
    record = json.dumps(encode(_FAILED)).replace("`", "\\`").replace('"', '\\"')
    return [f"trap 'echo \"{record}\" >{end}' EXIT", "set -e", *setup, "trap - EXIT"]
