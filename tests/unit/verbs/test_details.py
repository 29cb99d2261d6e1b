"""What `status` shows of a run beside what `ls` does, as values and as rows."""

from __future__ import annotations

import json
import os
import time

import pytest
from typer.testing import CliRunner

from fsdpctl.cli.app import build_app
from fsdpctl.contract import State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.formats.manifest import Manifest, write_manifest
from fsdpctl.contract.node_report import GpuSample, NodeReport, RankReport, write_report
from fsdpctl.contract.paths import RunPaths, checkpoint_name
from fsdpctl.node.os.processes import identify
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.runs.store import create
from fsdpctl.runs.verdict import Verdict
from fsdpctl.verbs.details import RunDetails, read_details
from fsdpctl.verbs.status import read_status

GIB = 2**30


@pytest.fixture
def run() -> RunPaths:
    """Return a run with 30 steps, the last a minute ago, two checkpoints and two GPUs; this process is its agent."""

    def fill(run: RunPaths) -> None:
        write_json(run.trainer_config, {"steps": 90})
        now = time.time() - 60
        lines = [
            {"step": step, "loss": 1.5, "time": now - 30 + step, "tokens": step * 64, "attempt": 1, "mfu": 0.512}
            for step in range(1, 31)
        ]
        run.metrics.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        for step, age in ((10, 200.0), (20, 150.0)):
            directory = run.checkpoints / checkpoint_name(step)
            directory.mkdir(parents=True)
            write_manifest(directory, Manifest(1, step, 1, 1, (1, 1), {}, "f", "2", time.time() - age, {}, 1.0))
        (run.checkpoints / checkpoint_name(30)).mkdir()  # cut by a kill: no manifest
        node = run.attempt(1).node(0)
        node.root.mkdir(parents=True)
        write_json(node.agent, identify(os.getpid()))
        gpus = [
            GpuSample(index, memory_used=used * GIB, memory_total=140 * GIB) for index, used in enumerate((90, 101))
        ]
        write_report(node.heartbeat, NodeReport(1, (RankReport(0),), tuple(gpus)))

    return create(default_runs_root(), RunRecord.new("r-aaaa", "r", "local", "local", 1.0, 1), fill)


def details(run: RunPaths) -> RunDetails:
    return read_details(run, read_status(run))


def test_a_running_run_has_all_details(run: RunPaths) -> None:
    found = details(run)
    assert 59 < (found.last_step_s or 0) < 90
    assert (found.mfu, found.gpu_memory_used, found.gpu_memory_total) == (0.512, 101 * GIB, 140 * GIB)
    assert found.checkpoint == checkpoint_name(20), "the newest whole one"
    assert 148 < (found.checkpoint_age_s or 0) < 180
    assert 59 < (found.ends_at or 0) - time.time() < 61
    printed = CliRunner().invoke(build_app("status"), ["status", "r-aaaa"]).stdout
    rows = {line[:11].strip(): line[11:] for line in printed.splitlines()}
    assert rows["last step"].endswith("s ago; last sign of progress 0 s ago")
    assert rows["GPU"] == "MFU 51.2%; 101.0 of 140.0 GiB used on the fullest"
    assert rows["checkpoint"].startswith("step-00000020, 0:02:")
    assert rows["ends"].startswith("about 20")


def test_an_ended_run_has_no_ages_that_grow_and_no_gpus(run: RunPaths) -> None:
    write_json(run.attempt(1).verdict, Verdict(State.FAILED, "killed"))
    found = details(run)
    assert (found.last_step_s, found.ends_at, found.gpu_memory_used) == (None, None, None)
    assert (found.checkpoint, found.mfu) == (checkpoint_name(20), 0.512)


def test_a_later_step_that_a_resume_passed_over_is_not_the_newest_checkpoint(run: RunPaths) -> None:
    directory = run.checkpoints / checkpoint_name(25)
    directory.mkdir()
    write_manifest(directory, Manifest(1, 25, 1, 1, (1, 1), {}, "f", "2", time.time() - 170.0, {}, 1.0))
    assert details(run).checkpoint == checkpoint_name(20)


def test_of_a_users_script_the_age_of_its_checkpoint_directory_is_known(run: RunPaths) -> None:
    run.trainer_config.unlink()
    (run.checkpoints / "mine.pt").touch()
    found = details(run)
    assert found.checkpoint is None and 0 <= (found.checkpoint_age_s or -1) < 30
    for path in sorted(run.checkpoints.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert details(run).checkpoint_age_s is None, "an empty directory is no checkpoint"
