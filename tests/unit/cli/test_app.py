"""What the command line says of itself, and where the disk, not the user, is at fault."""

from __future__ import annotations

import subprocess

from fsdpctl.cli.app import COMMANDS, GROUPS
from fsdpctl.contract import CliExit
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.store import create, default_runs_root
from tests.launchers.harness import COMMAND


def test_a_directory_in_the_place_of_a_file_is_no_bug() -> None:
    run = create(default_runs_root(), RunRecord.new("llm-aaaa", "llm", "local", "local", 1.0, 1), lambda run: None)
    run.attempt(1).events.mkdir(parents=True)
    done = subprocess.run([COMMAND, "logs"], capture_output=True, text=True, timeout=60)
    assert done.returncode == CliExit.FAILED
    assert done.stderr.startswith(f"error: Is a directory: {run.attempt(1).events}\n")


def test_a_full_disk_without_a_name_is_just_full() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([COMMAND, "jobs", "ls"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == CliExit.FAILED
    assert done.stderr.startswith("error: No space left on device\n")


def test_every_command_is_there_where_none_is_named() -> None:
    done = subprocess.run([COMMAND, "--help"], capture_output=True, text=True, timeout=60)
    assert {line.split()[0] for line in done.stdout.split("Commands:\n")[1].splitlines()} == {*COMMANDS, *GROUPS}
    done = subprocess.run([COMMAND, "submt"], capture_output=True, text=True, timeout=60)
    assert done.returncode == CliExit.USAGE
    assert "Did you mean 'submit'?" in done.stderr
