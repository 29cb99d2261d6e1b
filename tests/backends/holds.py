"""A hold from its start to its release, the same on every backend."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fsdpctl.contract.paths import HoldPaths
from tests.backends.harness import Run, fsdpctl, submit, wait_for

SCRIPT = """
import os, sys, time
from pathlib import Path
print(f"seen {TEXT} {'torch' in sys.modules} {os.getppid()};", flush=True)
while "WAIT" in TEXT and not Path(os.environ["FSDPCTL_STOP_FILE"]).exists():
    time.sleep(0.05)
"""
JOB = "name: quick\nnodes: {nodes}\nprocs_per_node: 1\nwarm: true\nentrypoint: {{script: script.py}}\n"


def write_job(project: Path, text: str, nodes: int) -> None:
    (project / "script.py").write_text(SCRIPT.replace("TEXT", repr(text)))
    (project / "job.yaml").write_text(JOB.format(nodes=nodes))


def rows(project: Path) -> list[dict[str, Any]]:
    return list(json.loads(fsdpctl("holds", "--json", cwd=project).stdout))


def run_in(hold: str, project: Path, text: str, nodes: int) -> Run:
    write_job(project, text, nodes)
    return submit("./job.yaml", "--in", hold, cwd=project)


def nothing(hold: HoldPaths) -> None:
    pass


def same(run: Run) -> Run:
    return run


def check_hold(
    project: Path,
    profile: str,
    *,
    held: int,
    nodes: int,
    seen_from_here: Callable[[Run], Run] = same,
    look: Callable[[HoldPaths], None] = nothing,
) -> HoldPaths:
    """Hold nodes, run changed code on some of them, and give them back. `seen_from_here`: a run whose directory is on
    another machine, as this one sees it. `look` is called while a run is on the nodes.
    """
    words = ["--nodes", str(held), "--name", "dev", "--time", "1h", "--idle", "20m", "--json"]
    taken = json.loads(fsdpctl("hold", "-p", profile, *words, cwd=project).stdout)
    assert (taken["state"], len(taken["nodes"]), taken["run_id"]) == ("idle", held, None)
    assert 0 < taken["ends_in_s"] <= 1200 and taken["cost"] is None
    again = fsdpctl("hold", "-p", profile, "--name", "dev", cwd=project, expect=2)
    assert "there is a hold dev already" in again.stderr

    first = seen_from_here(run_in("dev", project, "first", nodes))
    assert first.wait_ended()["state"] == "SUCCEEDED", first.describe()
    second = seen_from_here(run_in("dev", project, "second WAIT", nodes))
    wait_for(lambda: all(read_seen(second, nodes)), 60, second.describe)
    before, after = (read_seen(run, nodes) for run in (first, second))
    assert [line.rpartition(" ")[0] for line in before] == ["first True"] * nodes
    assert [line.rpartition(" ")[0] for line in after] == ["second WAIT True"] * nodes
    assert [line.split()[-1] for line in before] == [line.split()[-1] for line in after], "forked from one process"
    look(HoldPaths.below(second.paths.root.parent, "dev"))

    (busy,) = rows(project)
    assert (busy["state"], busy["run_id"], busy["idle_s"]) == ("busy", second.run_id, None)
    assert busy["nodes"] == taken["nodes"] and busy["job_id"] == taken["job_id"]
    refused = fsdpctl("submit", "./job.yaml", "--in", "dev", cwd=project, expect=5)
    assert f"run {second.run_id} is in hold dev" in refused.stderr
    fsdpctl("release", "dev", cwd=project, expect=5)
    fsdpctl("stop", second.run_id, cwd=project, expect=None)
    second.wait_ended()

    write_job(project, "third", nodes)
    fsdpctl("resume", first.run_id, "--in", "dev", "-p", profile, cwd=project, expect=2)
    fsdpctl("resume", second.run_id, "--in", "dev", "--update-code", cwd=project)
    assert second.wait_ended()["state"] == "SUCCEEDED", second.describe()
    again = read_seen(second, nodes, attempt=2)
    assert [line.rpartition(" ")[0] for line in again] == ["third True"] * nodes
    assert [line.split()[-1] for line in again] == [line.split()[-1] for line in before], "forked from one process"

    # Its supervisor is on the nodes a little longer than its verdict takes.
    wait_for(lambda: rows(project)[0]["state"] == "idle", 60, lambda: str(rows(project)))
    assert rows(project)[0]["idle_s"] < 600
    shown = fsdpctl("ls", cwd=project).stderr
    assert "hold dev is idle for" in shown
    hold = HoldPaths.below(second.paths.root.parent, "dev")
    fsdpctl("release", "dev", cwd=project)
    assert rows(project) == [] and not hold.root.exists()
    first.assert_nothing_left()
    second.assert_nothing_left()
    return hold


def read_seen(run: Run, nodes: int, attempt: int = 1) -> list[str]:
    """Return what each rank has found: the code, whether torch was there, its parent; "" before it has."""
    logs = [run.paths.attempt(attempt).node(rank).rank_log(rank) for rank in range(nodes)]
    texts = [log.read_text() if log.exists() else "" for log in logs]
    return [text.partition("seen ")[2].partition(";")[0] if ";" in text else "" for text in texts]
