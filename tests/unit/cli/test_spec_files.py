"""The common parts of `fsdpctl jobs` and `fsdpctl profiles`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("command", ["jobs", "profiles"])
@pytest.mark.parametrize("word", ["mine.yaml", "here/mine.yml"])
def test_init_takes_a_file_name_as_the_other_commands_do(command: str, word: str, tmp_path: Path) -> None:
    def fsdpctl(verb: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-c", "from fsdpctl.cli.app import main; main()", command, verb, word]
        return subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    made = fsdpctl("init")
    assert (made.returncode, made.stdout) == (0, f"{word}\n")
    assert made.stderr == f"hint: edit it, then: fsdpctl {command} check {word}\n"
    assert fsdpctl("check").returncode == 0
    assert "name: mine\n" in (tmp_path / word).read_text()
    assert fsdpctl("init").returncode == 2, "never over a file"
