"""`fsdpctl explain --log`: text, JSON, and files that are none."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from fsdpctl.contract import CliExit
from tests.backends.harness import fsdpctl

LOGS = Path(__file__).parents[1] / "explain" / "logs"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return fsdpctl("explain", *map(str, arguments), cwd=Path.cwd(), expect=None)


def test_the_first_failure_is_printed_with_what_followed() -> None:
    log = LOGS / "cuda_oom_allocated.log"
    done = run("--log", log)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "failure    cuda_oom (cuda_oom_allocated), certain"
    assert "where      rank 5\n" in done.stdout
    assert f"{log}:5\n" in done.stdout
    assert "code       /home/ann/finetune.py:807 in train\n" in done.stdout
    assert "1. Use a smaller micro-batch and more gradient accumulation" in done.stdout
    assert "then       cascade: nccl_timeout, rank 2\n" in done.stdout


def test_json_has_the_first_failure_and_all_others() -> None:
    record = json.loads(run("--json", "--log", LOGS / "sigkill.log").stdout)
    first = record["first"]
    assert (first["category"], first["role"], first["rank"]) == ("oom_killer", "initiating", 1)
    assert first["retry"] is False and first["domain"] == "unknown" and record["failures"][0] == first
    assert [failure["role"] for failure in record["failures"][1:]] == ["cascade"]


def test_a_pattern_of_the_shell_may_follow(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_text("step 1 loss 2.0\n", encoding="utf-8")
    (tmp_path / "1.log").write_text("Traceback (most recent call last):\nKeyError: 'a'\n", encoding="utf-8")
    assert "1.log:2\n" in run("--log", *sorted(tmp_path.glob("*.log"))).stdout
    assert run("one", "two").stderr.startswith("error: explain takes one run, got 2\n")


def test_a_log_without_a_failure_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("step 1 loss 2.0\n", encoding="utf-8")
    done = run("--log", tmp_path / "a.log")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no failure found\n")
    (tmp_path / "b.log").touch()
    done = run("--log", tmp_path / "a.log", tmp_path / "b.log")
    assert (done.returncode, done.stderr) == (0, f"{tmp_path / 'b.log'} is empty\nno failure found\n")
    assert json.loads(run("--json", "--log", tmp_path / "a.log").stdout) == {
        "found": False,
        "first": None,
        "failures": [],
    }


@pytest.mark.parametrize("name", ["missing.log", "folder", "pipe"])
def test_what_is_no_file_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    done = run("--log", tmp_path / name)
    assert done.returncode == CliExit.USAGE
    assert done.stderr.startswith("error: a log cannot be read: ") and str(tmp_path / name) in done.stderr


def test_control_characters_and_broken_text_of_a_log_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"\x00\xff\xfe\nValueError: \x1b]0;owned\x07 bad \xff\n")
    done = run("--log", tmp_path / "a.log")
    assert done.returncode == 0 and "\x1b" not in done.stdout and "\x07" not in done.stdout
    assert "ValueError: " in done.stdout
