"""No run hangs unseen: a rank that stops anywhere is found in time, and named."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from fsdpctl.contract import Cause, CliExit
from fsdpctl.runs.evidence import AttemptFacts
from tests.backends.hangs import JOB, ROWS, check_findings, list_misses, write_faults
from tests.backends.harness import Run, fsdpctl, submit, wait_for
from tests.services import require
from tests.testbed.disks import FreezableMount

AFTER_S = 3
"""Less than the default, to wait less."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("nodes", "procs", "mode"), [(1, 2, "sync"), (2, 1, "async")])
def test_a_rank_that_stops_anywhere_is_found_and_named(
    nodes: int, procs: int, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("torch")
    (tmp_path / "hangs.yaml").write_text(f"{JOB}\nhang: {{after: {AFTER_S}s}}\nnodes: {nodes}\n")
    write_faults(tmp_path / "faults", ROWS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "faults"))
    settings = (f"trainer.checkpoint.mode={mode}", f"procs_per_node={procs}")
    run = submit("hangs.yaml", *(word for one in settings for word in ("--set", one)), cwd=tmp_path)
    status = run.wait_ended(limit_s=600)
    assert not list_misses(check_findings(run.paths, ROWS, procs), within_s=AFTER_S + 5)
    assert (status["state"], status["attempt"]) == ("SUCCEEDED", len(ROWS)), run.describe()
    shown = fsdpctl("logs", run.run_id, "--errors", "--attempt", "3", cwd=tmp_path).stdout
    assert "rank 0 hangs" in shown and " fault" in shown and "rank 1 on node" in shown and "all_reduce" in shown
    run.assert_nothing_left()


def list_scalars(directory: Path, tag: str) -> list[int]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(directory))
    events.Reload()
    return [event.step for event in events.Scalars(tag)]


SCRIPTS = {
    "sleeps": "node 1: rank 1 hangs: its peers wait for it at",
    "reports": "in script after step 10",
    "leaves": "node 1: rank 1 hangs: it stays,",
}
"""What is found in one attempt after the other; in the next one all is well."""

SCRIPT = f"""
import os, time
import torch, torch.distributed as dist
from fsdpctl.report import step
dist.init_process_group("gloo")
rank, kind = dist.get_rank(), dict(enumerate({tuple(SCRIPTS)}, 1)).get(int(os.environ["FSDPCTL_ATTEMPT"]))
for number in range(20):
    if kind in ("reports", None):
        step(number, loss=float(number))
    if rank == 1 and number == 10 and kind in ("sleeps", "reports"):
        time.sleep(600)
    if kind == "leaves":
        time.sleep(600 * rank)
        break
    dist.all_reduce(torch.ones(1))
    print("step", number, flush=True)
"""


@pytest.mark.timeout(300)
def test_a_script_that_hangs_is_found_and_comes_back(tmp_path: Path) -> None:
    require("torch")
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "script.yaml").write_text(
        f"name: script\nnodes: 2\nprocs_per_node: 1\nrestarts: {len(SCRIPTS)}\nentrypoint: {{script: script.py}}\n"
        "warm: true\n"  # torch is imported once for all attempts
        "report_to: [tensorboard]\nhang: {after: 4s, leave_after: 2s}\n"  # that others have left is seen first
    )
    run = submit("./script.yaml", cwd=tmp_path)
    status = run.wait_ended(limit_s=240)
    assert (status["state"], status["attempt"]) == ("SUCCEEDED", len(SCRIPTS) + 1), run.describe()
    for number, reason in enumerate(SCRIPTS.values(), 1):
        found = AttemptFacts(run.paths.attempt(number)).verdict
        assert found is not None and found.cause is Cause.HANG and reason in found.reason
    assert [line["step"] for line in run.metrics()] == [*range(20)]  # what the last attempt did again
    assert list_scalars(run.paths.tensorboard, "loss") == list(range(20)), "each step once, over all attempts"


WAITING = """
import os, sys, time
import torch.distributed as dist
rank, kind = int(os.environ["RANK"]), sys.argv[1]
open(f"{os.environ['FSDPCTL_RUN_DIR']}/up-{rank}", "w")
if kind == "late" and rank == 1:
    time.sleep(600)
if kind == "unserved":
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:1", rank=rank + 1, world_size=3)
dist.init_process_group("gloo")
"""


@pytest.mark.timeout(180)
def test_ranks_that_wait_for_one_and_for_a_port_that_no_process_serves_are_reported(tmp_path: Path) -> None:
    require("torch")
    (tmp_path / "waiting.py").write_text(WAITING)
    job = "nodes: 2\nprocs_per_node: 1\nentrypoint: {script: waiting.py}\n"
    runs = {}
    for kind in ("late", "unserved"):
        (tmp_path / f"{kind}.yaml").write_text(f"name: {kind}\n{job}args: [{kind}]\n")
        runs[kind] = submit(f"./{kind}.yaml", cwd=tmp_path)
    late, unserved = (re.escape(str(run.paths.source / "waiting.py")) for run in runs.values())
    expected = {
        "late": rf"wait for rank 1 on local1: in the script at {late}:7 <module>$",
        "unserved": rf"no rank makes progress: rank 0 on local0, rank 1 on local1 in {unserved}:9 <module> \(\w+\)$",
    }
    for run in runs.values():
        wait_for(lambda paths=run.paths: len(list(paths.root.glob("up-*"))) == 2, 60, run.describe)
    for kind, run in runs.items():
        wait_for(partial(search, expected[kind], run), 90, run.describe)
        fsdpctl("cancel", run.run_id, cwd=tmp_path)


def search(pattern: str, run: Run) -> bool:
    logs = fsdpctl("logs", run.run_id, cwd=run.cwd).stdout
    return any(re.search(pattern, line) for line in logs.splitlines())


FROZEN = """
import sys, torch, torch.distributed as dist
from fsdpctl.report import step
dist.init_process_group("gloo")
for number in range(10_000):
    step(number)
    if number == 10 and dist.get_rank() == 1:
        open(sys.argv[1], "w")
    dist.all_reduce(torch.ones(1))
"""


@pytest.mark.timeout(180)
def test_a_rank_that_a_disk_blocks_is_named_and_its_run_is_alive_until_it_can_be_killed(
    freezable_disk: FreezableMount, tmp_path: Path
) -> None:
    require("torch")
    (tmp_path / "frozen.py").write_text(FROZEN)
    job = "name: frozen\nnodes: 2\nprocs_per_node: 1\nentrypoint: {script: frozen.py}\n"
    hang = "hang: {after: 3s, disk: 3s}\n"
    (tmp_path / "frozen.yaml").write_text(f"{job}{hang}args: [{freezable_disk.path / 'file'}]\n")
    freezable_disk.freeze()
    run = submit("./frozen.yaml", cwd=tmp_path)
    wait_for(run.paths.attempt(1).abort.exists, 60, run.describe)
    reason = run.paths.attempt(1).abort.read_text()
    assert re.search(r"rank 1 hangs: it waits for a disk or a file server \(kernel function \w+\),", reason)
    pid = max(run.find(1, "rank frozen.py"))  # younger than its torchrun
    assert f"still alive after KILL: {pid}" in fsdpctl("cancel", run.run_id, cwd=tmp_path, expect=1).stderr
    wait_for(lambda: f"still alive after KILL: {pid}" in run.status()["reason"], 60, run.describe)
    assert run.status()["state"] == "RUNNING"
    fsdpctl("resume", run.run_id, cwd=tmp_path, expect=CliExit.BUSY)
    freezable_disk.thaw()
    assert run.wait_ended(60)["state"] == "CANCELLED"
    run.assert_nothing_left()
