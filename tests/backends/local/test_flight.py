"""Ranks that wait in different collectives are named, with the merged flight record; and `stacks` of a running run."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.contract.paths import AttemptPaths
from fsdpctl.explain.flight.finding import FlightFinding, FlightKind
from fsdpctl.explain.flight.read import find_mismatch
from tests.backends.harness import Run, fsdpctl, submit, wait_for
from tests.services import require

KINDS = ("sleeps", "other op", "other shape")
"""Of the attempts, one after the other; in the next one all is well until a file is there."""

SCRIPT = f"""
import os, time
import torch, torch.distributed as dist
from fsdpctl.report import step
attempt = int(os.environ["FSDPCTL_ATTEMPT"])
kind = dict(enumerate({KINDS}, 1)).get(attempt)
step(attempt)  # without progress, there would not be as many attempts
dist.init_process_group("gloo")
rank = dist.get_rank()
pair = [dist.new_group(ranks, group_desc=name) for ranks, name in (([0, 1], "first"), ([2, 3], "second"))][rank // 2]

def train(size=4):
    dist.all_reduce(torch.ones(size))

def share():
    dist.all_gather([torch.ones(3) for _ in range(4)], torch.ones(3))

for number in range(7):
    dist.all_reduce(torch.ones(2), group=pair)
    if rank == 2 and number == 5:
        if kind == "sleeps":
            time.sleep(600)
        if kind == "other op":
            share()
        if kind == "other shape":
            train(8)
    train()
while kind is None and not os.path.exists(os.path.join(os.environ["FSDPCTL_RUN_DIR"], "go")):
    step(attempt)
    time.sleep(0.5)
"""


def finding(attempt: AttemptPaths) -> FlightFinding:
    found = find_mismatch(attempt)
    assert found is not None, sorted(path.name for path in attempt.root.glob("node-*/*"))
    return found


def check_findings(run: Run) -> None:
    found = {kind: finding(run.paths.attempt(number)) for number, kind in enumerate(KINDS, 1)}
    for kind, one in found.items():
        assert (one.backend, one.op, one.sequence) == ("gloo", "all_reduce", 6), kind
        assert one.group == "0 (default_pg)", kind
        assert one.sides[0].ranks == (0, 1, 3), kind
        assert any("script.py" in frame and frame.endswith(" train") for frame in one.sides[0].stack), kind
        assert one.sides[-1].ranks == (2,), kind
    kinds = {kind: one.kind for kind, one in found.items()}
    missing, mismatch = FlightKind.MISSING, FlightKind.MISMATCH
    assert kinds == dict(zip(KINDS, (missing, mismatch, mismatch), strict=True))
    last = {kind: one.sides[-1] for kind, one in found.items()}
    assert (last["other op"].op, last["other op"].inputs) == ("all_gather", ("Float[3]",))
    assert last["other shape"].inputs == ("Float[8]",)
    assert last["sleeps"].op == "" and "script.py" in last["sleeps"].stack[0]
    shown = fsdpctl("logs", run.run_id, "--errors", "--attempt", "2", cwd=run.cwd).stdout
    assert "flight record: ranks disagree in gloo all_reduce number 6 of process group" in shown
    assert "rank 2 in all_gather: Float[3] -> Float[4,3]" in shown


def find_equal_stacks(run: Run) -> str:
    """Return the output of `stacks` once all ranks wait in the last line of the script."""
    shown = fsdpctl("stacks", run.run_id, cwd=run.cwd, expect=None).stdout
    return shown if shown.count("main thread") == 1 and "script.py:" in shown else ""


def check_stacks(run: Run) -> None:
    shown = wait_for(lambda: find_equal_stacks(run), 60, run.describe)
    assert shown.startswith("ranks 0-3 (4)\nmain thread\n") and "sigwait" not in shown
    only = fsdpctl("stacks", run.run_id, "--rank", "2", cwd=run.cwd).stdout
    assert only.startswith("rank 2\n")
    assert "its ranks are 0-3" in fsdpctl("stacks", run.run_id, "--rank", "4", cwd=run.cwd, expect=2).stderr
    (run.paths.root / "go").touch()
    assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
    run.assert_nothing_left()
    ended = fsdpctl("stacks", run.run_id, cwd=run.cwd, expect=1)
    assert "has no running ranks: SUCCEEDED" in ended.stderr


@pytest.mark.timeout(400)
def test_the_collective_that_holds_a_run_is_named_and_equal_stacks_are_shown_once(tmp_path: Path) -> None:
    require("torch")
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "job.yaml").write_text(
        f"name: flight\nnodes: 2\nprocs_per_node: 2\nrestarts: {len(KINDS)}\nwarm: true\nhang: {{after: 3s}}\n"
        "entrypoint: {script: script.py}\n"
    )
    run = submit("./job.yaml", cwd=tmp_path)
    wait_for(lambda: len(run.paths.attempts()) > len(KINDS), 300, run.describe)
    check_findings(run)
    check_stacks(run)
