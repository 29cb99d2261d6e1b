"""Hosts that share no disk with each other or with the submitting machine. For hosts that fail see test_exact.py."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fsdpctl.contract.paths import RunPaths
from fsdpctl.explain.flight.finding import FlightKind
from fsdpctl.explain.flight.read import find_mismatch
from tests.backends import exact
from tests.backends.contract import WAITS_FOR_STOP, LauncherContract
from tests.backends.harness import Run, fsdpctl, kill, submit, wait_for
from tests.backends.ssh.cluster import PRIVATE_RUNS, Cluster
from tests.services import require
from train.data.tokens import write_dataset


class TestSshPrivate(LauncherContract):
    """Of what every launcher does, that which goes from disk to disk here: logs, notes, how nodes ended.

    All of it was seen to hold; the rest is not shown again, minute by minute, after `TestSsh`.
    """

    leaves_within_s = 30.0  # a word needs a moment to each host, and back
    test_ranks_get_their_environment_arguments_and_secrets = None
    test_of_two_runs_at_once_one_is_stopped_and_resumed = None
    test_cancel_ends_detached_child_processes_too = None
    test_a_run_starts_after_another_has_succeeded_and_never_after_one_that_has_not = None
    test_hanging_peers_of_a_dead_rank_do_not_delay_the_end = None
    test_a_stop_signal_reaches_all_ranks_at_once_and_the_grace_is_the_time_to_obey = None

    cluster: Cluster

    @pytest.fixture
    def project(self, tmp_path: Path, cluster: Cluster) -> Path:
        require("torch")
        cluster.private = True
        cluster.write_profile()
        self.cluster, self.profile = cluster, str(cluster.profile)
        directory = tmp_path / "my project"
        directory.mkdir()
        return directory

    def submit(self, *words: str, cwd: Path) -> Run:
        run = super().submit(*words, cwd=cwd)
        return Run(run.run_id, RunPaths(self.cluster.host_disk(self.cluster.lan.login) / run.run_id), cwd)

    def rehearsals(self, run: Run) -> set[str]:
        disks = [self.cluster.host_disk(host) for host in (self.cluster.lan.login, *self.cluster.nodes)]
        return {path.name for disk in disks for path in disk.glob("*-rehearsal-*")}

    def written(self, run: Run, pattern: str) -> list[Path]:
        disks = [self.cluster.host_disk(host) / run.run_id for host in self.cluster.nodes]
        return sorted((path for disk in disks for path in disk.glob(pattern)), key=lambda path: path.name)


CUT_S = 60
"""Three times as long as a host may be silent and a run may make no progress."""
SAYS_A_SECRET = 'import os\nprint("secret of", len(os.environ["TOKEN_CANARY"]), flush=True)\n' + WAITS_FOR_STOP
HANGS = """
import time, torch, torch.distributed as dist
from fsdpctl.report import step
dist.init_process_group("gloo")
step(1)
dist.all_reduce(torch.ones(2))
if dist.get_rank() == 1:
    time.sleep(600)
dist.all_reduce(torch.ones(2))
"""
WRITES_HERE = "open('by-rank.txt', 'a').write('weights')\n"


@pytest.fixture
def project(tmp_path: Path, cluster: Cluster) -> Path:
    require("torch")
    cluster.private = True
    directory = tmp_path / "my project"
    directory.mkdir()
    (directory / "job.yaml").write_text("name: probe\nnodes: 2\nentrypoint: {script: script.py}\n")
    (directory / "script.py").write_text(WRITES_HERE + SAYS_A_SECRET)
    return directory


def wait_up(cluster: Cluster, run: Run) -> None:
    """Until both ranks have left their mark on the disks of their hosts."""
    marks = [cluster.host_disk(host) / run.run_id for host in cluster.nodes[:2]]
    wait_for(lambda: sum(len(list(disk.glob("up-*"))) for disk in marks) == 2, 60, run.describe)
    for disk in marks:
        for mark in disk.glob("up-*"):
            mark.unlink()


def test_runs_survive_a_disconnected_submit_host_and_all_commands_work(
    cluster: Cluster, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_CANARY", "s3cret")
    cluster.private = False
    cluster.write_profile("pass_env: [TOKEN_CANARY]\n")
    shared = submit("./job.yaml", "--profile", str(cluster.profile), cwd=project)
    cluster.private = True
    cluster.write_profile("pass_env: [TOKEN_CANARY]\n")
    run = cluster.submit_private("./job.yaml", cwd=project)
    wait_up(cluster, run)
    wait_for(lambda: len(list(shared.paths.root.glob("up-*"))) == 2, 60, shared.describe)
    cut = time.monotonic()
    cluster.lan.login.pull_cable()
    wait_for(lambda: run.status()["reason"].startswith("no host answers"), 60, run.describe)
    time.sleep(max(0, cut + CUT_S - time.monotonic()))
    cluster.lan.login.plug_cable()
    assert (shared.status()["state"], shared.status()["attempt"]) == ("RUNNING", 1), shared.describe()
    fsdpctl("stop", shared.run_id, cwd=project)
    assert (shared.status()["state"], shared.status()["attempt"]) == ("STOPPED", 1), shared.describe()
    wait_for(lambda: run.status()["reason"] == "training", 60, run.describe)
    wait_for(lambda: "secret of 6" in fsdpctl("logs", run.run_id, cwd=project).stdout, 20, run.describe)
    assert (run.status()["state"], run.status()["attempt"]) == ("RUNNING", 1), run.describe()
    assert "ranks 0,1 (2)\nmain thread\n" in fsdpctl("stacks", run.run_id, cwd=project).stdout
    kill(run.find(None, "fsdpctl.backends.detached"))
    fsdpctl("supervise", run.run_id, cwd=project)
    for host in cluster.nodes[:2]:
        assert (cluster.host_disk(host) / run.run_id / "secrets.json").stat().st_mode & 0o777 == 0o600
    fsdpctl("stop", run.run_id, cwd=project)
    assert (run.status()["state"], run.status()["attempt"]) == ("STOPPED", 1), run.describe()

    (project / "script.py").write_text("print('other', flush=True)\n" + WAITS_FOR_STOP)
    changed = cluster.host_disk(cluster.nodes[1]) / run.run_id / "code/fsdpctl/commands/torchrun.py"
    changed.write_text("changed on the host")
    fsdpctl("resume", run.run_id, "--update-code", cwd=project.parent)
    for host in cluster.nodes[:2]:
        written = cluster.host_disk(host) / run.run_id / "code" / "src" / "by-rank.txt"
        assert set(written.read_text().split("weights")) == {""}
    assert changed.read_bytes() == (run.paths.code / "fsdpctl/commands/torchrun.py").read_bytes()
    wait_up(cluster, run)
    wait_for(lambda: "| other" in fsdpctl("logs", run.run_id, cwd=project).stdout, 20, run.describe)
    shown = fsdpctl("shell", run.run_id, "--node", "1", cwd=project, stdin='echo "$(hostname) $TOKEN_CANARY"').stdout
    assert shown == "node2 s3cret\n"
    fsdpctl("cancel", run.run_id, cwd=project)
    assert (run.status()["state"], run.status()["hosts"]) == ("CANCELLED", ["node1", "node2"]), run.describe()

    (project / "script.py").write_text(HANGS)
    fsdpctl("resume", run.run_id, "--update-code", "--set", "hang={after: 3s}", cwd=project)
    check_flight_records(run)
    run.assert_nothing_left()
    cluster.assert_clean()


def check_flight_records(run: Run) -> None:
    """The flight record of each host reaches this disk before the attempt has ended, and all are merged."""
    assert run.wait_ended()["state"] == "FAILED", run.describe()
    attempt = run.paths.attempts()[-1]
    assert all(node.rank_flight(node.node_rank).stat().st_size for node in attempt.nodes()), run.describe()
    found = find_mismatch(attempt)
    assert found is not None and (found.kind, found.ranks_missing) == (FlightKind.MISSING, (1,)), found
    assert any("script.py" in frame for side in found.sides if side.has_entered for frame in side.stack)
    shown = fsdpctl("explain", run.run_id, cwd=run.cwd).stdout
    assert "rank 1 on node2" in shown and "rank 1 did not enter gloo all_reduce number 2" in shown


def test_prepared_data_is_copied_to_every_host(cluster: Cluster, project: Path) -> None:
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


def test_rewind_to_an_older_step_on_more_hosts_and_checkpoint_commands(cluster: Cluster, project: Path) -> None:
    """From one host to two, back to an older step; then one copy is damaged, one host is down, one run begins anew."""
    (project / "exact.yaml").write_text(exact.JOB)
    cluster.write_profile()
    short = ("--set", "trainer.steps=21", "--set", "trainer.checkpoint.keep=9")
    run = cluster.submit_private("./exact.yaml", "--nodes", "1", *short, cwd=project)
    assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
    copies, others = [cluster.host_disk(host) / run.run_id / "checkpoints" for host in cluster.nodes[:2]]
    checkpoints = partial(fsdpctl, "checkpoints", cwd=project)
    assert [(row["step"], row["copies"]) for row in json.loads(checkpoints("ls", "--json").stdout)] == [
        (21, {"node1": ""}),
        (14, {"node1": ""}),
        (7, {"node1": ""}),
    ]

    resume = partial(fsdpctl, "resume", run.run_id, "--nodes", "2", "--set", "trainer.steps=14", cwd=project)
    refused = resume("--step", "8", expect=2).stderr
    assert "no host that answers has a complete checkpoint of step 8; there are step-00000021 (node1), " in refused
    resume("--step", "7")
    assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
    assert "node 1 got step-00000007" in run.paths.attempt(2).node(0).rank_log(0).read_text()
    uses = run.status()["ledger"]
    assert set(uses) >= {"start", "restore", "step", "redone", "idle", "end"} and "running" not in uses
    assert [line["step"] for line in run.metrics()] == list(range(1, 15))
    assert [line["attempt"] for line in run.metrics()] == [1] * 7 + [2] * 7
    assert sorted(path.name for path in (copies / "set-aside-1").iterdir()) == ["step-00000014", "step-00000021"]

    shard = next((copies / "step-00000014").glob("*.distcp"))
    shard.write_bytes(bytes(shard.stat().st_size))
    assert checkpoints("ls").stdout.count("complete on node1, node2") == 2
    verified = checkpoints("verify", expect=1)
    assert verified.stdout.splitlines() == ["step-00000014: ok on node2", "step-00000007: ok on node1, node2"]
    assert f"error: step-00000014 on node1: {shard.name} does not have the digest" in verified.stderr
    weights = cluster.lan.login.dir / "var-tmp" / "weights"
    before = others.stat().st_mtime_ns
    checkpoints("export", "--out", "/var/tmp/weights")
    assert others.stat().st_mtime_ns > before, "what is fetched from a host is leased there"
    assert not list(others.glob("*.lease-*"))
    assert sorted(path.name for path in weights.iterdir()) == ["config.json", "model.safetensors"]

    cluster.nodes[0].pull_cable()
    pruned = checkpoints("prune")
    assert pruned.stdout == "step-00000007: removed\n"
    assert len([line for line in pruned.stderr.splitlines() if "node1 (10.77.0.1): " in line]) == 1
    cluster.nodes[0].plug_cable()
    assert (sorted(path.name for path in others.glob("step-*")), len(list(copies.glob("step-*")))) == (
        ["step-00000014"],
        2,
    )

    second = cluster.submit_private("./exact.yaml", "--set", "trainer.init_from=/var/tmp/weights", cwd=project)
    fsdpctl("cancel", second.run_id, cwd=project)
    for host in cluster.nodes[:2]:
        for path in weights.iterdir():
            assert (host.dir / "var-tmp" / "weights" / path.name).read_bytes() == path.read_bytes()
    cluster.assert_clean()


def test_a_directory_that_is_shared_after_all_is_refused(cluster: Cluster, project: Path, tmp_path: Path) -> None:
    cluster.write_profile()
    cluster.profile.write_text(cluster.profile.read_text().replace(PRIVATE_RUNS, json.dumps(str(tmp_path / "runs"))))
    words = ("submit", "./job.yaml", "--profile", str(cluster.profile))
    said = fsdpctl(*words, cwd=project, expect=4).stderr
    for node in ("node1 (10.77.0.1)", "node2 (10.77.0.2)"):
        assert f"{node}: has the same directory {tmp_path}/runs/probe-" in said
    assert said.count("set shared_filesystem: true") == 2
    cluster.assert_clean()


@pytest.mark.parametrize(
    ("size", "reason"),
    [("256k", ": No space left on device: "), ("40m", "MiB are free in ")],
    ids=["full", "nearly full"],
)
def test_a_host_with_a_full_disk_is_named_and_nothing_starts(
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
