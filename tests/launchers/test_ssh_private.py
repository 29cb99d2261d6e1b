"""Hosts that share no disk with each other or with the submitting machine. What dies is in test_ssh_exact.py."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.launchers import exact
from tests.launchers.contract import WAITS_FOR_STOP
from tests.launchers.harness import Run, fsdpctl, kill, wait_for
from tests.launchers.ssh_cluster import PRIVATE_RUNS, Cluster
from tests.services import require
from train.tokens import write_dataset

SAYS_A_SECRET = 'import os\nprint("secret of", len(os.environ["TOKEN_CANARY"]), flush=True)\n' + WAITS_FOR_STOP


@pytest.fixture
def project(tmp_path: Path, cluster: Cluster) -> Path:
    require("torch")
    cluster.private = True
    directory = tmp_path / "my project"
    directory.mkdir()
    (directory / "job.yaml").write_text("name: probe\nnodes: 2\nentrypoint: {script: script.py}\n")
    (directory / "script.py").write_text(SAYS_A_SECRET)
    return directory


def wait_up(cluster: Cluster, run: Run) -> None:
    """Until both ranks have left their mark on the disks of their hosts."""
    marks = [cluster.host_disk(host) / run.run_id for host in cluster.nodes[:2]]
    wait_for(lambda: sum(len(list(disk.glob("up-*"))) for disk in marks) == 2, 60, run.describe)
    for disk in marks:
        for mark in disk.glob("up-*"):
            mark.unlink()


def test_all_verbs_work_and_a_submitter_that_is_cut_off_ends_nothing(
    cluster: Cluster, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_CANARY", "s3cret")
    cluster.write_profile("pass_env: [TOKEN_CANARY]\n")
    run = cluster.submit_private("./job.yaml", cwd=project)
    wait_up(cluster, run)
    cluster.lan.login.pull_cable()
    wait_for(lambda: run.status()["reason"].startswith("no host answers"), 60, run.describe)
    cluster.lan.login.plug_cable()
    wait_for(lambda: run.status()["reason"] == "training", 60, run.describe)
    wait_for(lambda: "secret of 6" in fsdpctl("logs", run.run_id, cwd=project).stdout, 20, run.describe)
    assert (run.status()["state"], run.status()["attempt"]) == ("RUNNING", 1), run.describe()
    kill(run.find(None, "fsdpctl.supervise"))
    fsdpctl("supervise", run.run_id, cwd=project)
    for host in cluster.nodes[:2]:
        assert (cluster.host_disk(host) / run.run_id / "secrets.json").stat().st_mode & 0o777 == 0o600
    fsdpctl("stop", run.run_id, cwd=project)
    assert (run.status()["state"], run.status()["attempt"]) == ("STOPPED", 1), run.describe()

    (project / "script.py").write_text("print('other', flush=True)\n" + WAITS_FOR_STOP)
    changed = cluster.host_disk(cluster.nodes[1]) / run.run_id / "code/fsdpctl/torchrun.py"
    changed.write_text("somebody was here")
    fsdpctl("resume", run.run_id, "--update-code", cwd=project)
    assert changed.read_bytes() == (run.paths.code / "fsdpctl/torchrun.py").read_bytes()
    wait_up(cluster, run)
    wait_for(lambda: "| other" in fsdpctl("logs", run.run_id, cwd=project).stdout, 20, run.describe)
    fsdpctl("cancel", run.run_id, cwd=project)
    assert run.status()["state"] == "CANCELLED", run.describe()
    run.assert_nothing_left()
    cluster.assert_clean()


def test_prepared_data_are_sent(cluster: Cluster, project: Path) -> None:
    data, *copies = [host.dir / "var-tmp" / "data" for host in (cluster.lan.login, *cluster.nodes[:2])]
    data.mkdir()
    text = [(split, np.frombuffer(b"some words " * 99, dtype=np.uint8)) for split in ("train", "val")]
    write_dataset(data, text, source="words", fingerprint="f", dtype="uint16", vocab_size=128)
    (project / "exact.yaml").write_text(exact.JOB)
    cluster.write_profile()
    run = cluster.submit_private("./exact.yaml", "--set", "trainer.data.source=/var/tmp/data", cwd=project)
    fsdpctl("cancel", run.run_id, cwd=project)
    for copy in copies:
        assert {path.name: path.read_bytes() for path in copy.iterdir()} == {
            path.name: path.read_bytes() for path in data.iterdir()
        }
    cluster.assert_clean()


def test_a_directory_that_is_shared_after_all_is_named(cluster: Cluster, project: Path, tmp_path: Path) -> None:
    cluster.write_profile()
    cluster.profile.write_text(cluster.profile.read_text().replace(PRIVATE_RUNS, json.dumps(str(tmp_path / "runs"))))
    words = ("submit", "./job.yaml", "--profile", str(cluster.profile))
    said = fsdpctl(*words, cwd=project, expect=4).stderr
    for node in ("node1 (10.77.0.1)", "node2 (10.77.0.2)"):
        assert f"{node}: has this very directory {tmp_path}/runs/probe-" in said
    assert said.count("set shared_filesystem: true") == 2
    cluster.assert_clean()


@pytest.mark.parametrize(
    ("size", "reason"),
    [("256k", ": No space left on device: "), ("40m", "MiB are free in ")],
    ids=["full", "nearly full"],
)
def test_a_host_whose_disk_is_full_is_named_and_nothing_starts(
    size: str, reason: str, cluster: Cluster, project: Path
) -> None:
    cluster.write_profile()
    host = cluster.nodes[1]
    host.run("mkdir", "-p", PRIVATE_RUNS)
    host.run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", PRIVATE_RUNS)
    try:
        words = ("submit", "./job.yaml", "--profile", str(cluster.profile))
        (said,) = [line for line in fsdpctl(*words, cwd=project, expect=4).stderr.splitlines() if "node" in line]
    finally:
        host.run("umount", PRIVATE_RUNS)
    assert said.startswith("error: node2 (10.77.0.2): ") and reason + PRIVATE_RUNS in said
    cluster.assert_clean()
