"""Frame what a command prints: the start-up files of a login shell may print before it, and their traps after it.

Pure. sshd passes every command to the user's login shell, and bash then reads ~/.bashrc first.
"""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

STARTUP_FILES = (".bashrc", ".zshenv", ".cshrc", ".tcshrc", ".config/fish/config.fish")
"""What login shells read before a command, in the home directory."""

_SCRIPT = 'echo "$0<"; echo "$0<" >&2; "$@"; code=$?; echo "$0>"; echo "$0>" >&2; exit $code'


@dataclass(frozen=True)
class Frame:
    """The marks around the output of one command; nothing else prints these."""

    mark: str = field(default_factory=lambda: f"fsdpctl-{uuid.uuid4().hex}")

    def wrap(self, argv: Sequence[str]) -> str:
        """Return the line for the login shell, which is replaced by sh: its exit traps do not run."""
        return f"exec {shlex.join(['sh', '-c', _SCRIPT, self.mark, *argv])}"

    def has_begun(self, output: str) -> bool:
        """Return whether the command has begun."""
        return f"{self.mark}<\n" in output

    def cut_out(self, output: str) -> str:
        """Return what the command itself printed."""
        return output.partition(f"{self.mark}<\n")[2].partition(f"{self.mark}>\n")[0]


def describe_broken_shell(what: str, output: str, files: Sequence[str]) -> str:
    """Return the error for a login shell that began no command: `what` came instead, after `output`.

    `files`: the start-up files of the user, as far as known.
    """
    *_, last = ["", *output.strip().splitlines()]
    named = ", ".join(f"~/{name}" for name in files) or f"~/{STARTUP_FILES[0]}, or those of another shell"
    printed = f" (it printed: {last[:200]})" if last else ""
    broken = f"start-up files of the shell break automation: {named}"
    return f"{what} from the login shell, which began no command{printed}: {broken}"
