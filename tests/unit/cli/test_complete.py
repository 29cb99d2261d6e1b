"""Completion, requested as bash, zsh and fish do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fsdpctl.cli.complete import words_before_cursor
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.runs.store import create
from tests.backends.harness import COMMAND
from tests.processor_time import command_done_within, command_seconds

BASH = r"""
eval "$(_FSDPCTL_COMPLETE=source_bash fsdpctl)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_fsdpctl_completion fsdpctl
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{COMMAND.parent}:{os.environ['PATH']}")
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "mine.yaml").write_text("not even: [yaml")
    return tmp_path


def add_run(run_id: str) -> RunPaths:
    record = RunRecord.new(run_id, run_id.split("-")[0], "local", "local", 1.0, 2)
    return create(default_runs_root(), record, lambda run: None)


def ask_bash(*arguments: str) -> list[str]:
    done = subprocess.run(["bash", "--norc", "-c", BASH, "bash", "fsdpctl", *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def ask(shell: str, line: str, **env: str) -> subprocess.CompletedProcess[str]:
    variables = {"_FSDPCTL_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line, **env}
    return subprocess.run([COMMAND], env={**os.environ, **variables}, capture_output=True, text=True)


@pytest.mark.slow
def test_jobs() -> None:
    assert ask_bash("submit", "mi") == ["mine"]
    assert {"llm-tiny", "llm300m"} <= set(ask_bash("submit", "llm"))
    assert ask_bash("jobs", "show", "mi") == ask_bash("jobs", "check", "llm-tiny", "mi") == ["mine"]
    assert ask_bash("submit", "./jobs/mi") == [], "then bash completes files by itself"


@pytest.mark.slow
def test_profiles() -> None:
    assert ask_bash("submit", "mine", "--profile", "s") == ["slurm-h100", "ssh-h100"]
    assert ask_bash("profiles", "check", "lo") == ask_bash("doctor", "lo") == ["local"]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["status", "logs", "stop", "resume", "cancel", "supervise"])
def test_runs(command: str) -> None:
    for run_id in ("fast-aaaa", "fast-bbbb", "slow-cccc"):
        add_run(run_id)
    assert sorted(ask_bash(command, "fa")) == ["fast-aaaa", "fast-bbbb"]


@pytest.mark.slow
def test_a_run_whose_directory_is_gone_is_not_offered() -> None:
    add_run("fast-aaaa").root.rename("elsewhere")
    assert ask_bash("status", "") == []


@pytest.mark.slow
def test_keys_of_set() -> None:
    assert ask_bash("submit", "x", "--set", "trainer.optim.l") == ["trainer.optim.lr="]
    assert ask_bash("resume", "--set", "env") == ["env."]
    assert ask_bash("submit", "x", "--set", "nodes=2", "--set", "trainer.ste") == ["trainer.steps="]
    assert "trainer.mesh=" not in ask_bash("submit", "x", "--set", "trainer.m"), "no key that only holds others"


@pytest.mark.slow
def test_zsh_and_fish() -> None:
    assert ask("zsh", "fsdpctl submit mi").stdout == "_arguments '*: :((\"mine\"))'\n"
    assert ask("fish", "fsdpctl submit mi", _TYPER_COMPLETE_FISH_ACTION="get-args").stdout == "mine\n"
    assert ask("fish", "fsdpctl submit mi", _TYPER_COMPLETE_FISH_ACTION="is-args").returncode == 0
    assert ask("fish", "fsdpctl submit ./jo", _TYPER_COMPLETE_FISH_ACTION="is-args").returncode == 1


@pytest.mark.slow
def test_garbage_hides_no_run(home: Path) -> None:
    add_run("fast-aaaa")
    for name, garbage in (("odd-bbbb", b"\xff\n"), ("odd-cccc", b"\0"), ("odd-dddd", b"")):
        (home / "fsdpctl" / "registry" / name).write_bytes(garbage)
    assert ask_bash("status", "fa") == ["fast-aaaa"]


@pytest.mark.slow
def test_an_unreadable_folder_offers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FSDPCTL_HOME", "/dev/null")
    assert ask_bash("status", "") == []


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"_TYPER_COMPLETE_ARGS": "fsdpctl "}, []),
        ({"_TYPER_COMPLETE_ARGS": "fsdpctl hold"}, []),  # or `holds`
        ({"_TYPER_COMPLETE_ARGS": "fsdpctl submit ll"}, ["submit"]),
        ({"_TYPER_COMPLETE_ARGS": "fsdpctl submit x --set "}, ["submit", "x", "--set"]),
        ({"COMP_WORDS": "fsdpctl s x", "COMP_CWORD": "1"}, []),
        ({"COMP_WORDS": "fsdpctl submit x", "COMP_CWORD": "2"}, ["submit"]),
        ({}, []),
    ],
)
def test_words_before_the_cursor_choose_the_command(env: dict[str, str], words: list[str]) -> None:
    assert words_before_cursor(env) == words


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "libraries", "limit"),
    [
        ("fsdpctl status f", "import typer", 6.0),
        ("fsdpctl submit ll", "import typer, pydantic", 4.0),
        ("fsdpctl submit x --set trainer.st", "import typer; from pydantic import BaseModel, TypeAdapter", 3.0),
    ],
)
def test_completion_is_quick(line: str, libraries: str, limit: float) -> None:
    for number in range(100):
        add_run(f"fast-{number}")
    env = {**os.environ, "_FSDPCTL_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line}
    command_done_within(limit * command_seconds([sys.executable, "-c", libraries], env), [COMMAND], env)
