"""Notices of a run under Slurm: from the submitting machine while it waits, and from inside its job at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.runs.events import notice_events
from tests.backends.harness import wait_for
from tests.backends.slurm.profile import submit_to, write_profile
from tests.services import require
from tests.testbed.slurm import SlurmCluster
from tests.unit.notify.servers import http_server

NOTIFY = """\
notify:
  - {kind: json, url_env: HOOK, on: [no_start, failure], no_start_after: 1s}
"""


def test_a_late_start_and_a_failure_are_sent_before_the_job_is_gone(
    slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("torch")
    (tmp_path / "script.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "job.yaml").write_text("name: late\nprocs_per_node: 1\nentrypoint: {script: script.py}\n")
    profile = Path(write_profile(tmp_path, more=", extra: [--hold]"))
    profile.write_text(profile.read_text() + NOTIFY)
    with http_server(500, 200) as server:
        monkeypatch.setenv("HOOK", server.url)
        run = submit_to(slurm, "job.yaml", "--profile", str(profile), cwd=tmp_path)
        wait_for(lambda: len(notice_events(run.paths)) == 1, 60, lambda: f"the first notice; {run.describe()}")
        slurm.run("scontrol", "release", run.job_id)
        assert run.wait_ended()["state"] == "FAILED", run.describe()
        wait_for(lambda: len(notice_events(run.paths)) == 2, 60, lambda: f"the second notice; {run.describe()}")
    texts = [event.text for event in notice_events(run.paths)]
    assert texts == [
        "notice of no_start to json webhook of $HOOK sent after 2 tries",
        "notice of end and failure to json webhook of $HOOK sent",
    ]
    late, failed = server.bodies[1:]
    assert late["title"] == f"fsdpctl: {run.run_id} has not started" and late["state"] is None
    assert (failed["state"], failed["cause"], failed["why"].split()[0]) == ("FAILED", "exit_code", "exit_code")


WAITS_ONCE = """\
import os, time
from fsdpctl.report import step
step(1)
while os.environ["FSDPCTL_ATTEMPT"] == "1" and not os.path.exists(os.environ["FSDPCTL_STOP_FILE"]):
    time.sleep(0.1)
raise SystemExit(75 if os.environ["FSDPCTL_ATTEMPT"] == "1" else 0)
"""


def test_a_preemption_is_sent_although_slurm_takes_the_nodes(
    slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("torch")
    (tmp_path / "script.py").write_text(WAITS_ONCE)
    (tmp_path / "job.yaml").write_text("name: taken\nprocs_per_node: 1\nentrypoint: {script: script.py}\n")
    profile = Path(write_profile(tmp_path))
    profile.write_text(profile.read_text() + "notify: [{kind: json, url_env: HOOK, on: [preemption, end]}]\n")
    with http_server() as server:
        monkeypatch.setenv("HOOK", server.url)
        run = submit_to(slurm, "job.yaml", "--profile", str(profile), cwd=tmp_path)
        run.wait_step(1)
        slurm.preempt(seconds=0)
        slurm.release(run.job_id, restarts=1)
        assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
        wait_for(lambda: len(notice_events(run.paths)) == 2, 60, lambda: f"both notices; {run.describe()}")
    titles = {body["title"] for body in server.bodies}
    assert titles == {f"fsdpctl: {run.run_id} was preempted and restarts", f"fsdpctl: {run.run_id} SUCCEEDED"}
    assert not run.paths.pending_notices()
