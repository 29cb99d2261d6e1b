"""The common parts of `fsdpctl jobs` and `fsdpctl profiles`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.backends.harness import fsdpctl


@pytest.mark.parametrize("command", ["jobs", "profiles"])
@pytest.mark.parametrize("word", ["mine.yaml", "here/mine.yml"])
def test_init_takes_a_file_name_as_the_other_commands_do(command: str, word: str, tmp_path: Path) -> None:
    def run(verb: str) -> subprocess.CompletedProcess[str]:
        return fsdpctl(command, verb, word, cwd=tmp_path, expect=None)

    made = run("init")
    assert (made.returncode, made.stdout) == (0, f"{word}\n")
    assert made.stderr == f"hint: edit it, then: fsdpctl {command} check {word}\n"
    assert run("check").returncode == 0
    assert "name: mine\n" in (tmp_path / word).read_text()
    assert run("init").returncode == 2, "never over a file"
