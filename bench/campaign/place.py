"""Where the campaign's run is: two nodes of this machine, or two SSH hosts in namespaces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from fsdpctl.commands.torchrun import TORCHRUN
from fsdpctl.contract.codec import read_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.records import ProcessIdentity
from fsdpctl.node.agent.rank_watch import rank_processes
from fsdpctl.node.os.processes import Tag, command_line, find, rank_of, start_ticks
from fsdpctl.runs.evidence import RunFacts
from tests.testbed.ssh_hosts import Host, Lan

JOB = "llm-tiny"
NUM_NODES = 2
SMALL = (
    *("--set", "restarts=1000", "--set", "time_limit=48h", "--set", "trainer.steps=10000000"),
    *("--set", "trainer.batch.sequences=8", "--set", "trainer.batch.micro_batch=2"),
    *("--set", "trainer.checkpoint.every_steps=10", "--set", "trainer.eval.sequences=16"),
    *("--set", "trainer.eval.every_steps=50", "--set", "trainer.log_every=100"),
)
"""Steps of a fraction of a second, saved often: what is measured is the way back."""


class Place(ABC):
    """The hosts of one run, and its processes as this machine sees them."""

    run: RunPaths

    def __init__(self, root: Path, ranks: int) -> None:
        self.home, self.ranks = root / "home", ranks
        self.env = {**os.environ, "FSDPCTL_HOME": str(self.home)}

    @abstractmethod
    def command(self, *words: str) -> list[str]:
        """Return the command line of `fsdpctl` where a user of the place would type it."""

    @abstractmethod
    def profile(self) -> str:
        """Return the profile as YAML."""

    def submit(self) -> None:
        profile = self.home / "campaign.yaml"
        profile.write_text(self.profile())
        words = ("submit", JOB, "--profile", str(profile), "--nodes", str(NUM_NODES), *SMALL, "--json")
        self.run = RunPaths(Path(json.loads(self.fsdpctl(*words, "--procs-per-node", str(self.ranks)))["run_dir"]))

    def fsdpctl(self, *words: str) -> str:
        done = subprocess.run(self.command(*words), env=self.env, cwd=self.home, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"fsdpctl {' '.join(words)}: {done.stderr or done.stdout}")
        return done.stdout

    def has_ended(self) -> bool:
        """Return whether the run has ended for good: it had too many faults, or too little time between them."""
        return RunFacts(self.run).has_ended

    def supervisor(self) -> int:
        """Return the pid of the supervisor, where it runs."""
        return read_json(ProcessIdentity, self.run.supervisor).pid

    def kill_supervisor(self) -> None:
        os.kill(self.supervisor(), 9)

    def tag(self, node: int) -> Tag:
        return Tag(self.run.root.name, node)

    def rank(self, node: int, local_rank: int) -> int:
        return rank_processes(self.tag(node))[node * self.ranks + local_rank]

    def torchrun(self, node: int) -> int:
        return self._oldest(node, TORCHRUN)

    def agent(self, node: int) -> int:
        """Return the pid of a node's agent: its guard, which has the same command line, is younger."""
        return self._oldest(node, "fsdpctl.node.agent")

    def _oldest(self, node: int, word: str) -> int:
        pids = [pid for pid in find(self.tag(node)) if word.encode() in command_line(pid) and rank_of(pid) is None]
        return min(pids, key=lambda pid: (start_ticks(pid) or 0, pid))

    def fill_disk(self, seconds: float) -> None:
        """Leave no space on the disk of the run for a while."""
        ballast = self.home / "ballast"
        try:
            with open(ballast, "wb", buffering=0) as file:
                while file.write(b"x" * 65_536):
                    pass
        except OSError:
            time.sleep(seconds)
        finally:
            ballast.unlink()

    def close(self) -> None:
        """End the run, and what the place has started."""
        self.fsdpctl("cancel", self.run.root.name)


class LocalPlace(Place):
    """Two nodes of this machine."""

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "fsdpctl", *words]

    def profile(self) -> str:
        loopback = "allow_loopback: true\nmaster_address: 127.0.0.1\nnetwork: {interface: lo}\n"
        return f"name: campaign\nbackend: local\n{loopback}"


class SshPlace(Place):
    """Two hosts of the tests' network, and one where commands are typed."""

    def __init__(self, root: Path, ranks: int) -> None:
        super().__init__(root, ranks)
        (root / "lan").mkdir()
        self.lan = Lan(root / "lan", self.home)

    @property
    def hosts(self) -> Sequence[Host]:
        return self.lan.nodes[:NUM_NODES]

    def command(self, *words: str) -> list[str]:
        return self.lan.login.command(sys.executable, "-m", "fsdpctl", *words, cwd=self.home)

    def profile(self) -> str:
        hosts = "".join(f"  - {{id: {host.name}, address: {host.address}}}\n" for host in self.hosts)
        backend = "backend: {kind: ssh, connect_timeout: 3s}\npeer_timeout: 5s\n"
        return f"name: campaign\n{backend}python: {sys.executable}\nnodes:\n{hosts}"

    def kill_supervisor(self) -> None:
        self.lan.login.run("kill", "-KILL", str(self.supervisor()))

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.lan.close()
