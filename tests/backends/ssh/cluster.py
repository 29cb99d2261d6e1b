"""The CLI on `login` and a profile of the testbed's hosts, so that the launcher suites run on SSH unchanged."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fsdpctl.contract.paths import RunPaths
from tests.backends import harness
from tests.backends.harness import Run, Where
from tests.testbed.ssh_hosts import NUM_HOSTS, Host, Lan

PROFILE = """
name: ssh-test
backend: {kind: ssh, connect_timeout: 3s}
peer_timeout: 5s
procs_per_node: 1
"""


PRIVATE_RUNS = "/var/tmp/runs"
"""The same path on every host of the testbed, and on each one a directory of its own."""


@dataclass
class Cluster:
    """Hosts, and the path of their profile."""

    lan: Lan
    profile: Path
    private: bool = False  # hosts have nothing but their own disks, and `login` its own, too
    keys: str = ""  # lines of every profile

    @property
    def nodes(self) -> list[Host]:
        return self.lan.nodes

    def write_profile(
        self, extra: str = "", spares: int = 0, python: str = sys.executable, hosts: int = NUM_HOSTS
    ) -> None:
        """A profile of the first `hosts`, the last `spares` of them as spares."""

        def entry(host: Host) -> str:
            return f"  - {{id: {host.name}, address: {host.address}}}\n"

        entries = [entry(host) for host in self.nodes[:hosts]]
        count = hosts - spares
        lists = f"nodes:\n{''.join(entries[:count])}" + (f"spares:\n{''.join(entries[count:])}" if spares else "")
        common = PROFILE.replace("kind: ssh", "kind: ssh, shared_filesystem: false") if self.private else PROFILE
        root = f"runs_root: {PRIVATE_RUNS}\n" if self.private else ""
        self.profile.write_text(f"{common}{root}python: {python}\n{self.keys}{extra}{lists}")

    def host_disk(self, host: Host) -> Path:
        """Return the directory of a host's private runs, as seen from outside of the host."""
        return host.dir / "var-tmp" / "runs"

    def submit_private(self, *words: str, cwd: Path) -> Run:
        """Submit to hosts without a shared disk; the run directory is that of `login`."""
        run = harness.submit(*words, "--profile", str(self.profile), cwd=cwd)
        return Run(run.run_id, RunPaths(self.host_disk(self.lan.login) / run.run_id), cwd)

    def assert_clean(self, limit_s: float = 10) -> None:
        """No host's own process list shows anything, soon."""
        harness.wait_for(lambda: not self.left(), limit_s, lambda: f"clean hosts, but {self.left()}")

    def left(self) -> dict[str, str]:
        return {host.name: found for host in self.nodes if host.is_up and (found := host.processes())}


@pytest.fixture
def cluster(lan: Lan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    command = tmp_path / "fsdpctl-on-login"
    *enter, last = lan.login.command(str(harness.COMMAND), cwd="@")
    words = shlex.join([*enter, last]).replace("--wdns=@", '--wdns="$PWD"')
    command.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    command.chmod(0o755)
    monkeypatch.setattr(harness, "COMMAND", command)
    monkeypatch.setitem(harness.FORKED, command, Where(lan.login.init, {"HOME": str(lan.login.home)}))
    cluster = Cluster(lan, tmp_path / "ssh-test.yaml")
    cluster.write_profile()
    yield cluster
