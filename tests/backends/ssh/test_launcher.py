"""The SSH launcher on real hosts: the common behaviour, and what only several machines can show."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from fsdpctl.commands.torchrun import TORCHRUN
from fsdpctl.contract import Cause, State
from fsdpctl.contract.codec import read_json
from fsdpctl.contract.plan import DroppedHost
from fsdpctl.runs.events import record_verdict
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.runs.verdict import Verdict
from tests.backends import harness
from tests.backends.contract import IGNORES_STOP, RECORDER, WAITS_FOR_STOP, LauncherContract
from tests.backends.harness import Run, command_line, fsdpctl, kill_supervisor, wait_for
from tests.backends.killed_submit import kill_at_each_step
from tests.backends.ssh.cluster import Cluster
from tests.testbed.ssh_hosts import Host


class TestSsh(LauncherContract):
    @pytest.fixture
    def project(self, tmp_path: Path, cluster: Cluster) -> Path:
        self.profile = str(cluster.profile)
        directory = tmp_path / "my project"
        directory.mkdir()
        return directory

    def refused(self, cluster: Cluster, project: Path) -> str:
        """Submit to two hosts in vain; return stderr. Nothing may be left on any host."""
        (project / "script.py").write_text(WAITS_FOR_STOP)
        (project / "job.yaml").write_text("name: probe\nnodes: 2\nentrypoint: {script: script.py}\n")
        said = fsdpctl("submit", "./job.yaml", "--profile", self.profile, cwd=project, expect=4).stderr
        cluster.assert_clean()
        assert "FAILED" in fsdpctl("ls", cwd=project).stdout
        return said

    def test_an_unknown_host_key_stops_the_start_on_all_hosts(self, cluster: Cluster, project: Path) -> None:
        cluster.lan.know(cluster.nodes[0])
        said = self.refused(cluster, project)
        assert "node2 (10.77.0.2): the host key of 10.77.0.2 is unknown" in said
        assert "node1" not in said
        words = ("submit", "./job.yaml", "--profile", self.profile, "--trust-hosts")
        done = fsdpctl(*words, "--json", cwd=project)
        told = [line.partition(" (")[0] for line in done.stderr.splitlines() if "new host key ssh-ed25519 SHA" in line]
        assert told == ["node2", "node3", "node4"]
        run = Run.of(json.loads(done.stdout), project)
        fsdpctl("cancel", run.run_id, cwd=project)
        cluster.assert_clean()

    def test_all_unreachable_hosts_are_named_within_the_timeout(self, cluster: Cluster, project: Path) -> None:
        for host in cluster.nodes[:2]:
            host.pull_cable()
        started = time.monotonic()
        said = self.refused(cluster, project)
        assert time.monotonic() - started < 60, "half of what TCP would take"
        assert "nodes started" not in said, "a pipe is spared the live line"
        for host in cluster.nodes[:2]:
            assert f"{host.name} ({host.address}): no answer within 3 s" in said or "No route to host" in said
            host.plug_cable()

    def test_a_terminal_shows_which_hosts_a_start_waits_for(self, cluster: Cluster, project: Path) -> None:
        (project / "script.py").write_text(WAITS_FOR_STOP)
        (project / "job.yaml").write_text("name: probe\nnodes: 2\nentrypoint: {script: script.py}\n")
        cluster.nodes[1].pull_cable()
        screen, terminal = os.openpty()
        words = [harness.COMMAND, "submit", "./job.yaml", "--profile", self.profile]
        done = subprocess.run(words, cwd=project, stdout=subprocess.DEVNULL, stderr=terminal, timeout=60)
        said = os.read(screen, 65_536).decode()
        os.close(screen)
        os.close(terminal)
        assert done.returncode == 4
        assert re.search(r"\r\x1b\[2K0 of 2 nodes started; .*no answer yet: (node1, )?node2", said)
        assert "\r\x1b[2Kerror: " in said, "the live line is cleared before anything else is printed"
        cluster.nodes[1].plug_cable()
        cluster.assert_clean()

    def test_a_runs_root_that_is_not_shared_is_named(self, cluster: Cluster, project: Path) -> None:
        cluster.write_profile("runs_root: /var/tmp/runs\n")
        (project / "script.py").write_text(WAITS_FOR_STOP)
        (project / "job.yaml").write_text("name: probe\nnodes: 2\nentrypoint: {script: script.py}\n")
        said = fsdpctl("submit", "./job.yaml", "--profile", self.profile, cwd=project, expect=4).stderr
        assert "node1 (10.77.0.1): /var/tmp/runs/probe-" in said and "must be a directory that all hosts" in said
        cluster.assert_clean()

    def test_a_disk_that_a_host_mounts_late_is_waited_for(self, cluster: Cluster, project: Path) -> None:
        late, runs = cluster.nodes[1], default_runs_root()
        runs.mkdir(parents=True)
        late.run("mount", "-t", "tmpfs", "tmpfs", str(runs))
        (project / "script.py").write_text(WAITS_FOR_STOP)
        (project / "job.yaml").write_text("name: probe\nnodes: 2\nentrypoint: {script: script.py}\n")
        words = [harness.COMMAND, "submit", "./job.yaml", "--profile", self.profile, "--json"]
        submitting = subprocess.Popen(words, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        told, events = "is not there yet on node2", partial(runs.glob, "*/attempts/1/events.jsonl")
        try:
            wait_for(lambda: any(told in file.read_text() for file in events()), 30, told)
        finally:
            late.run("umount", str(runs))
        said, _ = submitting.communicate(timeout=60)
        run = Run.of(json.loads(said), project)
        assert (run.status()["state"], run.status()["attempt"]) == ("RUNNING", 1), run.describe()
        fsdpctl("cancel", run.run_id, cwd=project)
        cluster.assert_clean()

    def test_the_node_with_another_torch_is_named(self, cluster: Cluster, project: Path) -> None:
        cluster.write_profile(python=python_with_another_torch(cluster, cluster.nodes[1]))
        assert "node2 (10.77.0.2): torch 0.1, the other nodes have " in self.refused(cluster, project)

    @pytest.mark.parametrize("fault", ["Read-only file system", "torch 0.1, the other nodes have"])
    def test_spares_are_tried_until_one_passes_its_checks(self, fault: str, cluster: Cluster, project: Path) -> None:
        """The head's only port is taken, the first spare has a fault, too, the second is well."""
        port, (head, _, spare, _) = 23_871, cluster.nodes
        python = python_with_another_torch(cluster, spare) if "torch" in fault else sys.executable
        cluster.write_profile(f"ports: {{first: {port}, last: {port}}}\n", spares=2, python=python)
        with listening(head, port), contextlib.nullcontext() if "torch" in fault else read_only(spare):
            run = self.submit_script(project, RECORDER, extra="restarts: 3\n")
            status = run.wait_ended()
        assert (status["state"], status["attempt"]) == ("SUCCEEDED", 3), run.describe()
        busy, unfit = read_json(tuple[DroppedHost, ...], run.paths.dropped)
        assert (busy.node.id, unfit.node.id) == ("node1", "node3")
        assert f"no free port in {port}-{port} on the head" in busy.reason
        assert fault in unfit.reason
        refused = json.loads(run.paths.attempt(2).verdict.read_text())["reason"]
        assert refused.startswith("node3 (10.77.0.3): ") and fault in refused
        cluster.assert_clean()
        listed = json.loads(fsdpctl("nodes", "--json", cwd=project).stdout)
        assert {(row["node"], row["reason"]) for row in listed} == {
            (dropped.node.id, dropped.reason) for dropped in (busy, unfit)
        }

    def test_cancel_is_retried_until_a_host_answers_again_and_ends_only_its_run(
        self, cluster: Cluster, project: Path
    ) -> None:
        run = self.submit_script(project, IGNORES_STOP)
        self.wait_up(run)
        with others_with_the_command_line_of_a_rank(run, cluster.nodes[1]):
            cluster.nodes[1].pull_cable()
            said = fsdpctl("cancel", run.run_id, cwd=project, expect=4).stderr
            assert "not yet confirmed that nothing is left: node2 (10.77.0.2): " in said
            status = run.status()
            assert status["state"] == "RUNNING" and "node2 (10.77.0.2)" in status["reason"]
            cluster.nodes[1].plug_cable()
            ended = run.wait_ended()
            assert ended["state"] == "CANCELLED", run.describe()
            *tried, confirmed = [event["text"] for event in ended["events"] if "confirmed" in event["text"]]
            assert all(text.startswith("not yet confirmed that nothing is left: node2 (10.77.0.2): ") for text in tried)
            assert 1 <= len(tried) == len(set(tried)), "each error of the host once"
            assert confirmed == "confirmed on every node that nothing is left"
            run.assert_nothing_left()
            left = cluster.nodes[1].processes().splitlines()
            assert len(left) == 2 and all("read forever" in line for line in left)
        cluster.assert_clean()

    def test_cancel_ends_what_a_lost_run_has_left(self, cluster: Cluster, project: Path) -> None:
        cluster.write_profile(hosts=2)
        run = self.submit_script(project, IGNORES_STOP)
        self.wait_up(run)
        kill_supervisor(run)
        record_verdict(run.paths.attempt(1), Verdict(State.LOST, "no agent is left", cause=Cause.LOST))
        assert fsdpctl("cancel", run.run_id, cwd=project).stderr.endswith("no process of it is left\n")
        assert run.status()["state"] == "LOST", run.describe()
        run.assert_nothing_left()
        cluster.assert_clean()

    def test_a_run_that_waits_for_a_dead_host_can_be_cancelled(self, cluster: Cluster, project: Path) -> None:
        cluster.write_profile(hosts=2)
        run = self.submit_script(project, IGNORES_STOP, extra="restarts: 1\n")
        self.wait_up(run)
        cluster.nodes[1].die()
        wait_for(lambda: run.status()["state"] == "RESTARTING", 60, run.describe)
        fsdpctl("cancel", run.run_id, cwd=project, expect=4)
        cluster.nodes[1].boot()
        assert run.wait_ended()["state"] == "CANCELLED", run.describe()
        assert len(run.paths.attempts()) == 1
        run.assert_nothing_left()
        cluster.assert_clean()

    def test_a_submit_killed_at_any_step_leaves_nothing_or_a_visible_run(
        self, cluster: Cluster, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The last submit lives, on the hosts of all those that were killed. None waits for the peer timeout."""
        cluster.profile.write_text(cluster.profile.read_text().replace("peer_timeout: 5s", "peer_timeout: 60s"))
        (project / "script.py").write_text(WAITS_FOR_STOP)
        (project / "job.yaml").write_text("name: probe\nnodes: 2\nentrypoint: {script: script.py}\n")
        words = ("./job.yaml", "--profile", self.profile)
        states: list[str | None] = []
        on_login = cluster.lan.login.command
        for run in kill_at_each_step(*words, cwd=project, homes=tmp_path, monkeypatch=monkeypatch, command=on_login):
            states.append(run.status()["state"] if run else None)
            if run is None:
                cluster.assert_clean()
            elif states[-2:] == [None, "PLANNED"]:
                fsdpctl("resume", run.run_id, cwd=project)
                self.wait_up(run, ranks=2)
                fsdpctl("stop", run.run_id, cwd=project)
                assert run.status()["state"] == "STOPPED", run.describe()
            else:
                fsdpctl("cancel", run.run_id, cwd=project)
                assert run.status()["state"] == ("PLANNED" if states[-1] == "PLANNED" else "CANCELLED")
                cluster.assert_clean()
        found = [state for state in states if state]
        assert 0 < len(found) < len(states), "some kills came before the run existed, some after"
        # Ready to start; its attempt was claimed, but no supervisor runs; all hosts have started.
        assert sorted(set(found)) == ["LOST", "PLANNED", "RUNNING"]

    def test_a_submit_killed_while_hosts_start_is_finished_by_the_supervisor(
        self, cluster: Cluster, project: Path, home: Path
    ) -> None:
        (project / "script.py").write_text(WAITS_FOR_STOP)
        (project / "job.yaml").write_text("name: probe\nnodes: 2\nentrypoint: {script: script.py}\n")
        submit = subprocess.Popen(
            [str(harness.COMMAND), "submit", "./job.yaml", "--profile", self.profile],
            cwd=project,
            start_new_session=True,
            stderr=subprocess.DEVNULL,
        )
        (new,) = wait_for(lambda: list(home.glob("fsdpctl/runs/*/supervisor.json")), 60, "the supervisor")
        cluster.lan.login.run("pkill", "-KILL", "-f", "submit ./job.yaml")
        submit.wait()
        run = Run.of({"run_id": new.parent.name, "run_dir": str(new.parent)}, project)
        self.wait_up(run, ranks=2)
        fsdpctl("stop", run.run_id, cwd=project)
        assert run.status()["state"] == "STOPPED", run.describe()
        cluster.assert_clean()

    def test_an_interrupted_submit_reports_that_the_run_may_still_start(
        self, cluster: Cluster, project: Path, home: Path
    ) -> None:
        go = project / "go"
        wait = f"until test -e {shlex.quote(str(go))}; do sleep 0.1; done"  # before each answer of a host
        cluster.write_profile(f"setup: [{json.dumps(wait)}]\n")
        (project / "script.py").write_text(WAITS_FOR_STOP)
        (project / "job.yaml").write_text("name: probe\nnodes: 2\nentrypoint: {script: script.py}\n")
        words = [str(harness.COMMAND), "submit", "./job.yaml", "--profile", self.profile]
        submit = subprocess.Popen(words, cwd=project, stderr=subprocess.PIPE, text=True)
        (supervisor,) = wait_for(lambda: list(home.glob("fsdpctl/runs/*/supervisor.json")), 60, "the supervisor")
        cluster.lan.login.run("pkill", "-INT", "-f", "submit ./job.yaml")
        _, said = submit.communicate(timeout=60)
        go.touch()
        run = Run.of({"run_id": supervisor.parent.name, "run_dir": str(supervisor.parent)}, project)
        assert submit.returncode == 130
        assert f"{run.run_id} may still start; fsdpctl cancel {run.run_id} ends it" in said
        self.wait_up(run, ranks=2)
        fsdpctl("cancel", run.run_id, cwd=project)
        cluster.assert_clean()

    def test_a_connection_lost_while_an_agent_starts_leaves_no_agent(self, cluster: Cluster, project: Path) -> None:
        """The host continues with its request, and starts its agent after all others have been ended."""
        host = cluster.nodes[1]
        slow = 'test "$(hostname)" != node2 || mkdir /var/tmp/asked 2>/dev/null || sleep 5'  # all questions but one
        cluster.write_profile(f"setup: [{json.dumps(slow)}]\n")
        (project / "script.py").write_text(WAITS_FOR_STOP)
        (project / "job.yaml").write_text("name: probe\nnodes: 2\nentrypoint: {script: script.py}\n")
        words = [str(harness.COMMAND), "submit", "./job.yaml", "--profile", self.profile]
        submit = subprocess.Popen(words, cwd=project, stderr=subprocess.PIPE, text=True)
        try:
            wait_for(lambda: "sleep 5" in host.processes(), 60, "the host to be asked for its agent")
            host.run("pkill", "-KILL", "-f", "sshd: root")
            _, said = submit.communicate(timeout=60)
        finally:
            host.run("rm", "-rf", "/var/tmp/asked")
        assert submit.returncode == 4, said
        assert "node2 (10.77.0.2): the connection broke" in said
        cluster.assert_clean(20)
        (row,) = json.loads(fsdpctl("ls", "--json", cwd=project).stdout)
        assert row["state"] == "FAILED"

    def test_each_host_has_its_own_interface_and_variables(self, cluster: Cluster, project: Path) -> None:
        cluster.write_profile()
        text = cluster.profile.read_text()
        cluster.profile.write_text(text.replace("10.77.0.2}", "10.77.0.2, env: {COLOUR: red}}"))
        with renamed(cluster.nodes[1], "e0", "ib7"):
            run = self.submit_script(project, RECORDER)
            assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
        environs = [seen["env"] for seen in self.seen(run)]
        names = ("FSDPCTL_IFNAME", "GLOO_SOCKET_IFNAME", "COLOUR")
        found = [tuple(env.get(name) for name in names) for env in environs if isinstance(env, dict)]
        assert found == [("e0", "e0", None)] * 2 + [("ib7", "ib7", "red")] * 2


@contextmanager
def others_with_the_command_line_of_a_rank(run: Run, host: Host) -> Iterator[None]:
    """Two processes that are not of the run: one of the same user, one of another."""
    (rank,) = [pid for pid in run.find(1, "fsdpctl.node.agent.rank script.py") if _is_rank(pid)][:1]
    words = Path(f"/proc/{rank}/cmdline").read_text().split("\0")[:-1]
    sleeper = ["sh", "-c", "read forever", *words]  # another user may not be able to reach our interpreter
    others = [
        subprocess.Popen(host.command(*who, *sleeper), stdin=subprocess.PIPE)
        for who in ((), ("setpriv", "--reuid", "4242", "--clear-groups"))
    ]
    try:
        wait_for(lambda: host.processes().count("read forever") == 2, 10, "the others")
        yield
    finally:
        for process in others:
            process.kill()
            process.communicate()


@contextmanager
def listening(host: Host, port: int) -> Iterator[None]:
    """Run a server of another user on the host."""
    ears = f"import socket; s = socket.create_server(('', {port})); print('up', flush=True); input()"
    server = subprocess.Popen(
        host.command(sys.executable, "-c", ears), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None and server.stdout.readline() == "up\n"
    try:
        yield
    finally:
        server.communicate("\n", timeout=10)


@contextmanager
def read_only(host: Host) -> Iterator[None]:
    """The shared disk, as the host sees it."""
    shared = str(host.lan.shared)
    host.run("mount", "-o", "remount,bind,ro", shared)
    try:
        yield
    finally:
        host.run("mount", "-o", "remount,bind,rw", shared)


def python_with_another_torch(cluster: Cluster, odd: Host) -> str:
    """An interpreter of all hosts that finds another torch on one."""
    for host in cluster.nodes:
        other = 'export PYTHONPATH="/var/tmp/other:$PYTHONPATH"\n' if host is odd else ""
        shim = host.dir / "var-tmp" / "python"
        shim.write_text(f'#!/bin/sh\n{other}exec {sys.executable} "$@"\n')
        shim.chmod(0o755)
    metadata = odd.dir / "var-tmp" / "other" / "torch-0.1.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True, exist_ok=True)
    metadata.write_text("Metadata-Version: 2.1\nName: torch\nVersion: 0.1\n")
    return "/var/tmp/python"


@contextmanager
def renamed(host: Host, old: str, new: str) -> Iterator[None]:
    """The host's network interface under another name."""

    def rename(before: str, after: str) -> None:
        host.run("sh", "-ec", f"ip link set {before} down; ip link set {before} name {after}; ip link set {after} up")

    rename(old, new)
    try:
        yield
    finally:
        rename(new, old)


def _is_rank(pid: int) -> bool:
    return TORCHRUN not in command_line(pid)
