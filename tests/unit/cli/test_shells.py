"""The completions of share/ in real shells: what a terminal shows after TAB is pressed once."""

from __future__ import annotations

import os
import pty
import re
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.runs.store import create
from tests.backends.harness import COMMAND, wait_for
from tests.services import require

SHARE = Path(__file__).parents[3] / "share"
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], f". {SHARE}/bash-completion/completions/fsdpctl"),
    "zsh": (["zsh", "-f", "-i"], f"fpath=({SHARE}/zsh/site-functions $fpath); autoload -Uz compinit; compinit -u -D"),
    "fish": (["fish", "-i"], "true"),  # finds the file by XDG_DATA_DIRS
}
LINES = {
    "fsdpctl resu": "fsdpctl resume ",
    "fsdpctl resume --fol": "fsdpctl resume --follow ",
    "fsdpctl submit mi": "fsdpctl submit mine ",
    "fsdpctl submit mine --profile=sl": "fsdpctl submit mine --profile=slurm-h100 ",
    "fsdpctl submit mine --set trainer.optim.l": "fsdpctl submit mine --set trainer.optim.lr=",
    "fsdpctl status fa": "fsdpctl status fast-aaaa ",
    "fsdpctl submit ./jo": "fsdpctl submit ./jobs/",
}
_CLEAR_LINE = "\x15"


class Terminal:
    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._shown = ""

    def type(self, text: str) -> None:
        self._shown = ""
        os.write(self._fd, text.encode())

    def wait_for(self, text: str) -> None:
        wait_for(lambda: text in self._read(), 120.0, lambda: f"{text!r} in {self._shown!r}")

    def _read(self) -> str:
        """Return what was shown since the last key, without control sequences."""
        while select.select([self._fd], [], [], 0)[0]:
            self._shown += os.read(self._fd, 65536).decode(errors="replace")
        return re.sub(r"\x1b[\[(][\d;?<>=]*[A-Za-z]|[\a\r]", "", self._shown)


@contextmanager
def terminal(argv: list[str], env: dict[str, str]) -> Iterator[Terminal]:
    pid, fd = pty.fork()
    if pid == 0:
        os.execvpe(argv[0], argv, env)
    try:
        yield Terminal(fd)
    finally:
        os.close(fd)  # hangs up
        os.waitpid(pid, 0)


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes(shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shell != "bash":
        require(shell)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "mine.yaml").write_text("")
    create(default_runs_root(), RunRecord.new("fast-aaaa", "fast", "local", "local", 1.0, 2), lambda run: None)
    argv, setup = SHELLS[shell]
    path = f"{COMMAND.parent}:{os.environ['PATH']}"
    with terminal(argv, {**os.environ, "PATH": path, "TERM": "dumb", "XDG_DATA_DIRS": str(SHARE)}) as screen:
        screen.type(f"stty columns 200; {setup}; echo rea''dy\r")
        screen.wait_for("ready")
        for line, completed in LINES.items():
            screen.type(f"{line}\t")
            screen.wait_for(completed)
            screen.type(_CLEAR_LINE)
