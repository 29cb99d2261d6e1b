"""No run hangs unseen: a rank that stops anywhere is found in time, and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.contract import Cause
from fsdpctl.runs.evidence import AttemptFacts
from tests.backends.hangs import JOB, ROWS, check_findings, list_misses, write_faults
from tests.backends.harness import fsdpctl, submit
from tests.services import require

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


SCRIPT = """
import os, signal, sys, time
import torch, torch.distributed as dist
from fsdpctl.report import step
dist.init_process_group("gloo")
rank, kind, attempt = dist.get_rank(), sys.argv[1], int(os.environ["FSDPCTL_ATTEMPT"])
for number in range(20):
    if kind == "reports":
        step(number, loss=float(number))
    if rank == 1 and number == 10 and attempt == 1:
        if kind == "stops":
            os.kill(os.getpid(), signal.SIGSTOP)
        if kind in ("sleeps", "reports"):
            time.sleep(600)
    if kind == "leaves" and attempt == 1:
        time.sleep(600 * rank)
        break
    dist.all_reduce(torch.ones(1))
    print("step", number, flush=True)
"""
SCRIPTS = {
    "stops": "node 1: rank 1 hangs: its process is stopped, no progress for",
    "sleeps": "node 1: rank 1 hangs: its peers wait for it at",
    "reports": "in script after step 10",
    "leaves": "node 1: rank 1 hangs: it stays,",
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", SCRIPTS)
def test_a_script_that_hangs_is_found_and_comes_back(kind: str, tmp_path: Path) -> None:
    require("torch")
    (tmp_path / "script.py").write_text(SCRIPT)
    hang = {"stops": "", "leaves": "hang: {leave_after: 3s}"}.get(kind, "hang: {after: 3s}")
    job = f"name: script\nnodes: 2\nprocs_per_node: 1\nrestarts: 1\nentrypoint: {{script: script.py}}\nargs: [{kind}]\n"
    (tmp_path / "script.yaml").write_text(f"{job}{hang}\n")
    run = submit("./script.yaml", cwd=tmp_path)
    status = run.wait_ended(limit_s=120)
    assert (status["state"], status["attempt"]) == ("SUCCEEDED", 2), run.describe()
    found = AttemptFacts(run.paths.attempt(1)).verdict
    assert found is not None and found.cause is Cause.HANG and SCRIPTS[kind] in found.reason
    if kind == "reports":
        assert [line["step"] for line in run.metrics()] == [*range(11), *range(20)]
