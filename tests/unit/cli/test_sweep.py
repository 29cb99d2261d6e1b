"""`fsdpctl sweep` before any run starts."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.cli.sweep import sweep as command
from fsdpctl.contract import State
from fsdpctl.contract.codec import read_json, write_json
from fsdpctl.errors import UsageError
from fsdpctl.runs.registry import home
from fsdpctl.runs.store import run_ids
from fsdpctl.sweeps.plan import SweepRequest, plan_sweep
from fsdpctl.sweeps.record import SweepRecord, sweep_locked, sweep_paths, write_record
from fsdpctl.sweeps.run import begin, refresh
from tests.backends.harness import COMMAND

LR = ["--set", "trainer.optim.lr=1e-4,3e-4"]


def sweep(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, "sweep", *words], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["llm-tiny"], "--set: nothing varies: a key needs several values, like trainer.optim.lr=1e-4,3e-4"),
        (["llm-tiny", "--set", "trainer.optim.lr=1e-4,-1"], "lr must be greater than 0"),
        (["llm-tiny", "--set", "trainer.no=1,2"], "trainer.no"),
        (["llm-tiny", *LR, "--at-once", "0"], "--at-once"),
        (["llm-tiny", *LR, "--show"], "there is no sweep llm-tiny-"),
        (["llm-tiny", *LR, "--stop"], "there is no sweep llm-tiny-"),
        (["llm-tiny", *LR, "--stop", "--show"], "--show changes nothing, and --stop does"),
        (["llm-tiny", *LR, "--name", "../x"], "--name '../x' is no name"),
    ],
)
def test_what_is_wrong_is_refused_and_starts_nothing(words: list[str], problem: str) -> None:
    done = sweep(*words)
    assert (done.returncode, done.stdout) == (2, "") and problem in done.stderr, done
    assert run_ids() == [] and not list(home().glob("sweeps/*/sweep.json"))


def planned_request(*overrides: str) -> SweepRequest:
    return SweepRequest("llm-tiny", ("trainer.optim.lr=1e-4,3e-4", *overrides), None, ())


def test_the_same_command_has_the_same_name_and_ids_and_another_one_has_not() -> None:
    planned = plan_sweep(planned_request())
    paths = sweep_paths(planned.default_name)
    first = begin(paths, planned)
    again = plan_sweep(planned_request())
    assert again.default_name == planned.default_name
    assert begin(paths, again) == first == read_json(SweepRecord, paths.record)
    assert plan_sweep(planned_request("trainer.steps=50")).default_name != planned.default_name
    other = sweep("llm-tiny", *LR, "--set", "trainer.steps=50", "--name", planned.default_name)
    assert other.returncode == 2 and "was begun with other values, another job or another profile" in other.stderr


def test_by_its_name_a_sweep_is_shown_and_stopped_whatever_became_of_its_job(
    capsys: pytest.CaptureFixture[str],
) -> None:
    planned = plan_sweep(planned_request())
    paths = sweep_paths("mine")
    record = begin(paths, planned)
    command("./removed.yaml", name="mine", show=True, as_json=True)
    shown = json.loads(capsys.readouterr().out)
    assert [run["run_id"] for run in shown["runs"]] == [run.run_id for run in record.runs]
    assert not paths.stop.exists()
    command("./removed.yaml", name="mine", stop=True)
    assert "asked 0 runs to save and exit" in capsys.readouterr().err and paths.stop.exists()
    with pytest.raises(UsageError, match="there is no sweep other"):
        command("./removed.yaml", name="other", show=True)


def test_two_commands_do_not_start_the_runs_of_one_sweep() -> None:
    planned = plan_sweep(planned_request())
    with sweep_locked(sweep_paths(planned.default_name)):
        done = sweep("llm-tiny", *LR)
    assert done.returncode == 5 and "another command is at work on sweep llm-tiny-" in done.stderr
    assert run_ids() == []


def test_a_command_waits_for_one_that_only_stores_what_it_has_shown() -> None:
    planned = plan_sweep(planned_request())
    paths = sweep_paths(planned.default_name)
    write_record(paths, replace(planned.record(planned.default_name), fingerprint="another"))  # so that no run starts
    with sweep_locked(paths):
        process = subprocess.Popen([COMMAND, "sweep", "llm-tiny", *LR], stderr=subprocess.PIPE, text=True)
        time.sleep(1)  # it may begin to wait only later, and then it has nothing to wait for
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2 and "was begun with other values" in errors


def test_the_result_of_a_run_that_was_removed_stays(tmp_path: Path) -> None:
    planned = plan_sweep(planned_request())
    paths = sweep_paths(planned.default_name)
    record = begin(paths, planned)
    ended = [{"state": State.SUCCEEDED, "loss": 1.0, "held_out_loss": 2.0}, {"state": State.RUNNING}]
    tree = json.loads(paths.record.read_text())
    tree["runs"] = [{**run, **known} for run, known in zip(tree["runs"], ended, strict=True)]
    write_json(paths.record, tree)
    record = refresh(read_json(SweepRecord, paths.record))
    assert [(run.state, run.reason) for run in record.runs] == [
        (State.SUCCEEDED, ""),
        (State.LOST, "its directory is gone"),
    ]
    shown = sweep("llm-tiny", *LR, "--show", "--json")
    assert shown.returncode == 1 and json.loads(shown.stdout)["best"] == record.runs[0].run_id
    paths.record.write_text("{")
    broken = sweep("llm-tiny", *LR, "--show")
    assert broken.returncode == 1 and "cannot be read" in broken.stderr and "--name begins another" in broken.stderr
