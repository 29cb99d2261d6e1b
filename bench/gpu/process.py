"""A command with a time limit, of which no process is left in the end."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from fsdpctl.contract import Env
from fsdpctl.node.os import processes
from fsdpctl.node.os.processes import Tag

TORCHRUN_BEGINS = (
    "failed (exitcode"  # after this comes torchrun's summary of a rank that has already reported its error
)


class CommandError(Exception):
    """The command failed, or ran for too long; the text is the end of its output."""


class Command:
    """A command that runs. As a context it ends with all that it started: torchrun's ranks have sessions of their own,
    and the compiler's workers have the tag, too."""

    def __init__(self, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.argv, self.log = argv, log
        self.tag = Tag(f"bench-{uuid.uuid4().hex[:8]}")
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {}), Env.RUN_ID: self.tag.run_id},
            )

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        processes.sweep(self.tag)
        self.process.wait()

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait(self, limit_s: float, *, may_fail: bool = False) -> str:
        """Return its output. Raises CommandError."""
        try:
            code = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise CommandError(f"still ran after {limit_s:.0f} s; {_end_of(self.output())}") from None
        if code and not may_fail:
            raise CommandError(f"exit code {code}; {_end_of(self.output())}")
        return self.output()

    def ranks(self) -> list[int]:
        """Return the pids of torchrun's ranks, the processes directly below it."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split()]


def run(argv: Sequence[str], log: Path, limit_s: float, env: Mapping[str, str] | None = None) -> str:
    """Run a command to its end and return its output. Raises CommandError."""
    with Command(argv, log, env) as command:
        return command.wait(limit_s)


def torchrun(gpus: int, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(gpus), *arguments]


def _end_of(output: str) -> str:
    return f"last output: {output.partition(TORCHRUN_BEGINS)[0][-1500:].strip()}"
