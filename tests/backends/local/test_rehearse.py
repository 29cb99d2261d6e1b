"""`submit --rehearse` with real ranks: what it finds, what it leaves, and that nothing is queued after a failure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsdpctl.node.os import processes
from fsdpctl.rehearsal import rehearse as verb
from fsdpctl.rehearsal.signs import Sign
from fsdpctl.runs.store import run_ids
from fsdpctl.specs.load import load_profile, parse_job
from fsdpctl.verbs.holds import release, take_hold
from fsdpctl.verbs.submit import prepare
from tests.backends.harness import fsdpctl
from tests.services import require

STEPS = """\
import time
from fsdpctl.report import step
for number in range(1, 4000):
    step(number)
    time.sleep(0.1)
"""
PRINTS = """\
import os, time
print(f"local rank {os.environ['LOCAL_RANK']} of {os.environ['LOCAL_WORLD_SIZE']}, step 3 loss 2.5", flush=True)
time.sleep(600)
"""
ARGS = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", required=True)
parser.parse_args()
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    require("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FSDPCTL_HOME", str(tmp_path / "home"))
    return tmp_path


def write(project: Path, script: str) -> None:
    (project / "train.py").write_text(script)
    (project / "mine.yaml").write_text("name: mine\nentrypoint: {script: train.py}\n")


def test_a_rehearsal_ends_at_the_first_step_and_leaves_nothing(project: Path) -> None:
    write(project, STEPS)
    job = parse_job((project / "mine.yaml").read_text(), "mine.yaml")
    done = verb.rehearse_here(prepare(load_profile("local"), job), print)
    assert (done.sign, done.ranks) == (Sign.STEP, 2) and (done.step or 0) >= 1
    assert run_ids() == [] and list((project / "home" / "runs").iterdir()) == []


def test_a_rehearsal_here_takes_place_in_a_hold_of_this_machine(project: Path) -> None:
    write(project, "from fsdpctl.report import step\nstep(1)\n")
    profile, job = load_profile("local"), parse_job((project / "mine.yaml").read_text(), "mine.yaml")
    hold = take_hold(profile, 1, 600, 600, "dev")
    done = verb.rehearse_here(prepare(profile, job, hold=hold), print)
    assert done.sign in (Sign.STEP, Sign.END)
    release("dev")


def test_arguments_that_the_script_refuses_are_found_before_anything_is_queued(project: Path) -> None:
    write(project, ARGS)
    done = fsdpctl("submit", "mine.yaml", "--rehearse", cwd=project, expect=1)
    assert "train.py:4 in <module>: SystemExit: 2" in done.stderr
    assert "train.py: error: the following arguments are required: --lr" in done.stderr
    (kept,) = json.loads(fsdpctl("ls", "--json", cwd=project).stdout)
    assert kept["job"] == "mine-rehearsal" and kept["state"] == "FAILED"
    assert processes.find(processes.Tag(kept["run_id"])) == []


def test_a_rehearsal_is_bounded_and_ends_ranks_that_report_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, "import time\ntime.sleep(600)\n")
    monkeypatch.setattr(verb, "LIMIT_S", 0.5)
    request = prepare(load_profile("local"), parse_job((project / "mine.yaml").read_text(), "mine.yaml"))
    assert verb.rehearse_here(request, print).sign is Sign.TIME
    assert run_ids() == []


def test_a_printed_step_ends_a_rehearsal_and_one_rank_of_a_node_is_alone_there(project: Path) -> None:
    write(project, PRINTS)
    text = (project / "mine.yaml").read_text() + "nodes: 3\nprocs_per_node: 1\n"
    done = verb.rehearse_here(prepare(load_profile("local"), parse_job(text, "mine.yaml")), print)
    assert (done.sign, done.ranks) == (Sign.PRINTED, 2) and done.printed is not None
    assert done.printed.line == "local rank 0 of 1, step 3 loss 2.5"
    assert run_ids() == []
