"""GPU hours, cost and energy, from the records of runs."""

from __future__ import annotations

import json
import os
import pwd
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.backends.base import JobUsage
from fsdpctl.backends.slurm.job_usage import parse_cpu_time, parse_usage
from fsdpctl.contract import State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.node_report import NodeReport, write_report
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import Device
from fsdpctl.contract.records import NodeEnd, ProcessIdentity
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.node.os import processes
from fsdpctl.runs.record import NodeKind, RunRecord, Submission
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.runs.store import create
from fsdpctl.runs.verdict import Verdict
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.verbs.usage import read_usage
from tests.backends.harness import fsdpctl

HOUR = 3600.0
NOW = time.time()


def make_run(run_id: str, *, device: Device = "cuda", price: float | None = 2.5, created: float = NOW) -> RunPaths:
    plan = build_plan(load_profile("local"), load_job("llm-tiny"), SubmitHost(run_id, "/", "/", sys.executable, ()))
    record = RunRecord.new(run_id, "mine", "here", "local", created, 1)

    def fill(run: RunPaths) -> None:
        write_json(run.plan, replace(plan, device=device, procs_per_node=4))
        run.profile.write_text(f"name: here\nprice_per_gpu_hour: {price if price is not None else 'null'}\n")

    return create(default_runs_root(), record, fill)


def add_attempt(run: RunPaths, began_h: float, took_h: float, *, nodes: int = 2, kwh: float | None = None) -> None:
    """An attempt that began so many hours ago; its last node has no exit record."""
    attempt = run.attempt(len(run.attempts()) + 1)
    start = NOW - began_h * HOUR
    for rank in range(nodes):
        node = attempt.node(rank)
        node.root.mkdir(parents=True)
        write_json(node.agent, ProcessIdentity("h", 1, 1, "other boot", start + rank))
        joules = kwh * 3.6e6 / nodes if kwh is not None else None
        write_report(node.heartbeat, NodeReport(energy_j=joules))
        end = start + took_h * HOUR
        os.utime(node.heartbeat, (end, end))
        if rank < nodes - 1:
            write_json(node.end, NodeEnd(0, "finished", time=end - 60))
    write_json(attempt.verdict, Verdict(State.SUCCEEDED, "finished"))


def test_hours_of_all_attempts_count_and_what_is_older_does_not() -> None:
    run = make_run("mine-aaaa")
    add_attempt(run, 100, 5)
    add_attempt(run, 50, 4, kwh=8.0)
    add_attempt(run, 11, 1, kwh=2.0)
    make_run("idle-aaaa")
    found = read_usage(NOW - 48 * HOUR)
    (one,) = found.runs
    assert (one.run_id, one.job, one.attempts) == ("mine-aaaa", "mine", 2)
    assert one.user == pwd.getpwuid(os.getuid()).pw_name
    assert one.amount.hours == pytest.approx(2 + 1)
    assert one.amount.gpu_hours == one.amount.process_hours == pytest.approx(3 * 2 * 4)
    assert one.amount.cost == pytest.approx(3 * 2 * 4 * 2.5)
    assert one.amount.energy_kwh == pytest.approx(8 / 2 + 2)
    assert found.total == found.users[one.user] == one.amount
    assert read_usage(NOW - 200 * HOUR).total.hours == pytest.approx(10)


def test_on_cpus_there_are_no_gpu_hours_no_energy_and_no_cost() -> None:
    add_attempt(make_run("cpu-aaaa", device="cpu"), 2, 1)
    add_attempt(make_run("gpu-aaaa", price=None), 2, 1, nodes=1)
    found = read_usage(0)
    amounts = {run.run_id: run.amount for run in found.runs}
    cpu, gpu = amounts["cpu-aaaa"], amounts["gpu-aaaa"]
    assert (cpu.gpu_hours, cpu.energy_kwh, cpu.cost) == (None, None, None) and cpu.process_hours == pytest.approx(8)
    assert gpu.gpu_hours == pytest.approx(4) and gpu.cost is None
    assert found.total.process_hours == pytest.approx(12) and found.total.gpu_hours == pytest.approx(4)


def test_an_attempt_counts_by_the_nodes_that_it_had() -> None:
    """Eight GPUs, then four of another price, then CPUs, whose plan and profile are what the run has now."""
    run = make_run("mine-aaaa", device="cpu", price=None)
    eight, four, cpu = NodeKind(8, "cuda", 2.0), NodeKind(4, "cuda", 3.0), NodeKind(2, "cpu")
    record = RunRecord.new("mine-aaaa", "mine", "here", "local", NOW, 2, eight)
    later = (Submission("resume", NOW, 2, 3, node=four), Submission("resume", NOW, 2, 4, node=cpu))
    write_json(run.record, replace(record, submissions=(*record.submissions, *later)))
    for began in (40, 30, 20, 10):
        add_attempt(run, began, 1)
    amount = read_usage(0).runs[0].amount
    assert amount.process_hours == pytest.approx(2 * (8 + 8 + 4 + 2))
    assert amount.gpu_hours == pytest.approx(2 * (8 + 8 + 4))
    assert amount.cost == pytest.approx(2 * (16 * 2.0 + 4 * 3.0))


def test_a_living_attempt_counts_up_to_now() -> None:
    run = make_run("live-aaaa")
    node = run.attempt(1).node(0)
    node.root.mkdir(parents=True)
    write_json(node.agent, replace(processes.identify(os.getpid()), started=NOW - HOUR))
    before = time.time()
    found = read_usage(0).total.gpu_hours
    assert found is not None and 4 * (before - NOW + HOUR) <= found * HOUR <= 4 * (time.time() - NOW + HOUR)


def test_a_damaged_run_is_named_and_hides_no_other() -> None:
    add_attempt(make_run("good-aaaa"), 2, 1)
    bad = make_run("bad-aaaa")
    add_attempt(bad, 2, 1)
    bad.plan.write_text("{")
    found = read_usage(0)
    assert [run.run_id for run in found.runs] == ["good-aaaa"]
    assert len(found.unread) == 1 and found.unread[0].startswith("bad-aaaa: ")


def test_a_directory_of_several_users_has_a_sum_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory to another user")
    add_attempt(make_run("mine-aaaa", created=NOW - 1), 2, 1)
    theirs = make_run("theirs-aaaa")
    add_attempt(theirs, 2, 2)
    os.chown(theirs.root, pwd.getpwnam("daemon").pw_uid, -1)
    root = default_runs_root()
    (root / "no-run").mkdir()
    (root / "a-file").touch()
    monkeypatch.setenv("FSDPCTL_HOME", str(tmp_path / "another"))
    assert read_usage(0).runs == ()
    done = fsdpctl("usage", "--root", str(root), "--since", "1d", cwd=tmp_path)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows == [
        ["RUN", "USER", "HOURS", "GPU", "HOURS", "COST"],
        ["mine-aaaa", "root", "1.00", "8.00", "20.00"],
        ["theirs-aaaa", "daemon", "2.00", "16.00", "40.00"],
        ["daemon", "2.00", "16.00", "40.00"],
        ["root", "1.00", "8.00", "20.00"],
        ["total", "3.00", "24.00", "60.00"],
    ]


def test_the_command_prints_json_and_refuses_what_is_no_directory(tmp_path: Path) -> None:
    add_attempt(make_run("mine-aaaa"), 2, 1, kwh=1.5)
    shown = json.loads(fsdpctl("usage", "--json", cwd=tmp_path).stdout)
    assert shown["runs"][0]["run_id"] == "mine-aaaa" and shown["total"]["energy_kwh"] == pytest.approx(1.5)
    assert "is no directory" in fsdpctl("usage", "--root", "nowhere", cwd=tmp_path, expect=2).stderr


SACCT = """\
7|100|4|03:20.500|/runs/mine-aaaa
7.batch|100|4|00:10.000|
7.0|90|4|03:10.500|
7|50|4|00:40|/runs/mine-aaaa
8|200|2|1-00:00:01|/runs/a|b
9||4||/runs/none
10|0|0|00:00:00|/runs/never-ran
11_2|60|2|01:00|/runs/.arrays/lr-cccc
11_2.batch|60|2|01:00|
"""


def test_the_accounts_of_slurm_count_requeued_jobs_and_no_step_twice() -> None:
    found = parse_usage(SACCT)
    assert found["mine-aaaa"] == JobUsage(150, 600, 240.5)
    assert found["mine-aaaa"].cpu_efficiency == pytest.approx(240.5 / 600)
    assert found["lr-cccc/2"] == JobUsage(60, 120, 60)
    assert found["a|b"].used_cpu_s == 86_401
    assert found["never-ran"].cpu_efficiency is None and "none" not in found


@pytest.mark.parametrize(
    ("text", "seconds"), [("00:00", 0), ("01:02.5", 62.5), ("02:00:01", 7201), ("3-00:00:00", 259_200), ("INVALID", 0)]
)
def test_cpu_times(text: str, seconds: float) -> None:
    assert parse_cpu_time(text) == seconds
