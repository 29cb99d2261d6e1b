"""The output of `fsdpctl status`."""

from __future__ import annotations

import json
import subprocess

import pytest

from fsdpctl.contract.codec import write_json
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.store import create, default_runs_root
from fsdpctl.runs.verdict import Verdict
from fsdpctl.specs.load import parse_job, parse_profile
from fsdpctl.supervise.decide import State
from tests.backends.harness import COMMAND


def test_a_reason_of_several_lines_stays_in_its_column() -> None:
    run = create(default_runs_root(), RunRecord.new("mine-aaaa", "mine", "local", "local", 1.0, 1), lambda run: None)
    profile, job = (
        parse_profile("name: local\nbackend: local", "p"),
        parse_job("name: mine\nentrypoint: {module: m}", "j"),
    )
    write_json(run.plan, build_plan(profile, job, SubmitHost("mine-aaaa", str(run.root), "/here", "python3", ())))
    run.attempt(1).root.mkdir(parents=True)
    write_json(run.attempt(1).verdict, Verdict(State.FAILED, "left: refused\nright: unknown"))
    done = subprocess.run([COMMAND, "status"], capture_output=True, text=True, timeout=60)
    assert "state      FAILED: left: refused\n           right: unknown\nattempt    1\n" in done.stdout, done


@pytest.fixture
def runs() -> list[str]:
    """Return the ids of 23 runs, the oldest first; each third one has failed, the others were never started."""
    ids = [f"{'mine' if number % 2 else 'other'}-a{number:03}" for number in range(23)]
    for number, run_id in enumerate(ids):
        record = RunRecord.new(run_id, run_id.partition("-")[0], "local", "local", float(number), 1)
        run = create(default_runs_root(), record, lambda run: None)
        if number % 3 == 0:
            run.attempt(1).root.mkdir(parents=True)
            write_json(run.attempt(1).verdict, Verdict(State.FAILED, "left"))
    return ids


def ls(*words: str) -> tuple[list[str], str]:
    done = subprocess.run([COMMAND, "ls", *words], capture_output=True, text=True, timeout=60, check=True)
    return [line.split()[0] for line in done.stdout.splitlines()[1:]], done.stderr


def test_ls_has_the_newest_runs_at_the_bottom(runs: list[str]) -> None:
    assert ls() == (runs[3:], "the newest 20 of 23; --limit 23 shows all\n")
    assert ls("--limit", "99") == (runs, "")
    assert ls("--limit", "2", "--job", "mine")[0] == runs[-4::2]
    failed = runs[::3]
    assert ls("--state", "failed", "--limit", "3") == (failed[-3:], "the newest 3 of 8; --limit 8 shows all\n")
    assert ls("--state", "failed", "--state", "planned", "--limit", "99")[0] == runs
    printed = subprocess.run([COMMAND, "ls", "--json"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert [row["run_id"] for row in json.loads(printed)] == runs[::-1]
