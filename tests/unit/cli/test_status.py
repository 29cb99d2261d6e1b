"""The output of `fsdpctl status` and `fsdpctl ls`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from fsdpctl.contract.codec import encode, write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.runs.store import create
from fsdpctl.runs.verdict import Verdict
from fsdpctl.specs.load import parse_job, parse_profile
from fsdpctl.supervise.decide import State
from tests.backends.harness import COMMAND, fsdpctl
from tests.processor_time import command_done_within, command_seconds


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
    done = fsdpctl("ls", *words, cwd=Path.cwd())
    return [line.split()[0] for line in done.stdout.splitlines()[1:]], done.stderr


def test_ls_has_the_newest_runs_at_the_bottom(runs: list[str]) -> None:
    assert ls() == (runs[3:], "the newest 20 of 23; --limit 23 shows all\n")
    assert ls("--limit", "99") == (runs, "")
    assert ls("--limit", "2", "--job", "mine")[0] == runs[-4::2]
    failed = runs[::3]
    assert ls("--state", "failed", "--limit", "3") == (failed[-3:], "the newest 3 of 8; --limit 8 shows all\n")
    assert ls("--state", "failed", "--state", "planned", "--limit", "99")[0] == runs
    printed = fsdpctl("ls", "--json", cwd=Path.cwd()).stdout
    assert [row["run_id"] for row in json.loads(printed)] == runs[::-1]


def test_ls_lists_only_runs_since_a_time(runs: list[str]) -> None:
    assert ls("--since", "2d")[0] == []
    assert ls("--since", "1970-01-02")[0] == []
    assert ls("--since", "1969-12-30", "--limit", "99")[0] == runs
    done = fsdpctl("ls", "--since", "soon", cwd=Path.cwd(), expect=2)
    assert done.returncode == 2
    assert done.stderr == "error: --since takes a duration like 90m or 2d, or a date like 2026-11-28, got 'soon'\n"


@pytest.mark.slow
def test_ls_of_a_thousand_runs_reads_few_files() -> None:
    """It takes 0.3 s of a core; a busy machine needs more."""
    root, registry = default_runs_root(), default_runs_root().parent / "registry"
    registry.mkdir(parents=True)
    verdict = json.dumps(encode(Verdict(State.SUCCEEDED, "finished at step 40", step=40, hosts=("node1", "node2"))))
    metrics = "".join(
        json.dumps(
            {"step": step, "loss": 2.5, "time": 2.0 * step, "tokens": 64 * step, "attempt": 1, "samples": "x" * 200}
        )
        + "\n"
        for step in range(1, 41)
    )
    for number in range(1000):
        run_id = f"llm-{number:04}"
        run = RunPaths(root / run_id)
        run.attempt(1).node(0).root.mkdir(parents=True)
        run.record.write_text(json.dumps(encode(RunRecord.new(run_id, "llm", "local", "local", float(number), 2))))
        run.metrics.write_text(metrics)
        run.trainer_config.write_text('{"steps": 40}')
        run.attempt(1).verdict.write_text(verdict)
        (registry / run_id).write_text(f"{run.root}\n")
    idle = command_seconds([COMMAND, "--version"], os.environ)
    command_done_within(idle + 0.5, [COMMAND, "ls"], os.environ)
    command_done_within(idle + 1.2, [COMMAND, "ls", "--state", "failed"], os.environ)
    assert ls()[0][-1] == "llm-0999"


@pytest.mark.parametrize(
    "line",
    [
        '{"step": 5, "loss": "x", "tokens": [1], "time": {}}',
        '{"step": 5, "loss": NaN, "mfu": 1e400, "tokens_per_s": Infinity, "time": NaN}',
        '{"step": 5, "loss": ' + "9" * 400 + ', "total": ' + "9" * 400 + "}",
        '{"step": 1' + "0" * 400 + ', "loss": 1.0}',
    ],
)
def test_numbers_of_a_script_that_are_none_are_left_out(line: str) -> None:
    run = create(default_runs_root(), RunRecord.new("llm-aaaa", "llm", "local", "local", 1.0, 1), lambda run: None)
    run.attempt(1).node(0).root.mkdir(parents=True)
    run.metrics.write_text('{"step": 4, "loss": 2.0, "time": 1.0, "tokens": 5}\n' + line + "\n")
    done = [
        subprocess.run([COMMAND, *words], capture_output=True, text=True)
        for words in (["status"], ["status", "--json"])
    ]
    assert [one.returncode for one in done] == [0, 0], done
    assert "step " in done[0].stdout

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    shown = json.loads(done[1].stdout, parse_constant=refuse)
    assert shown["step"] in (4, 5) and shown["loss"] in (None, 2.0)
