"""A real Slurm cluster on one machine: a controller and four nodes, with munge, preemption and requeueing.

    python -m tests.testbed.slurm      starts one, prints how to reach it, and ends it on Ctrl-C

The nodes share this machine's host name, addresses and process table; they differ only in `SLURMD_NODENAME`.
The daemons are in the foreground and tied to their starter: the kernel ends them when pytest dies, however it dies.
"""

from __future__ import annotations

import getpass
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.services import require

NODES = ("node1", "node2", "node3", "node4")
T = TypeVar("T")
_TIED = ["setpriv", "--pdeathsig", "KILL"]

# `main` is preempted with 20 s of grace, `brief` with 1 s, `rude` without; `cancel` loses the job, too. cred_expire is
# the floor of every requeue, SlurmdTimeout the time until a silent node is DOWN, KillWait that from TERM to KILL: all
# shorter than the defaults.
CONFIG = """
ClusterName=testbed
SlurmctldHost=localhost
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={dir}/munge.socket,cred_expire=20
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool-%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
JobRequeue=1
KillWait=5
MessageTimeout=5
SlurmdTimeout=10
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{extra}
NodeName=node[1-4] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{ports[1]}-{ports[4]}] CPUs=2 RealMemory=2000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE GraceTime=20
PartitionName=brief Nodes=ALL MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE GraceTime=1
PartitionName=rude Nodes=ALL MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE GraceTime=0
PartitionName=cancel Nodes=ALL MaxTime=INFINITE PriorityTier=1 PreemptMode=CANCEL GraceTime=0
PartitionName=high Nodes=ALL MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF
"""


class SlurmCluster:
    """One cluster. `environment` leads every Slurm command to it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for part in ("state", "log", *(f"spool-{node}" for node in NODES)):
            (root / part).mkdir(parents=True)
        self.config, self.user = root / "slurm.conf", getpass.getuser()
        self._ports, self._extra = free_ports(1 + len(NODES)), ""
        self.configure()
        self.environment = {"SLURM_CONF": str(self.config)}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._start_munge()
        self.start_controller()
        for node in NODES:
            self.start_node(node)
        wait_until(lambda: self.idle_nodes() == set(NODES), f"four idle nodes; see {root}/log")

    def stop(self) -> None:
        """End every job, then every daemon."""
        self.repair()
        for name in reversed([*self._daemons]):
            self.kill(name, signal.SIGTERM)

    def repair(self) -> None:
        """Bring back what a test has killed or changed, and end what it has left."""
        if self._extra:
            self.reconfigure()
        if "slurmctld" not in self._daemons:
            self.start_controller()
        for node in NODES:
            if node not in self._daemons:
                self.start_node(node)
        self.run("scancel", "--me")
        if self.idle_nodes() != set(NODES):
            self.run("scontrol", "update", f"NodeName={','.join(NODES)}", "State=RESUME")
        wait_until(
            lambda: not self.run("squeue", "--noheader") and self.idle_nodes() == set(NODES), "an idle cluster", 40
        )

    def configure(self, extra: str = "") -> None:
        """Write slurm.conf, with lines of a test's own."""
        text = CONFIG.format(dir=self.root, ports=self._ports, user=self.user, extra=extra)
        self.config.write_text(text.lstrip())
        self._extra = extra

    def reconfigure(self, extra: str = "", *, forget: bool = False) -> None:
        """Restart the controller under another slurm.conf. It keeps all jobs, unless `forget` is set."""
        self.configure(extra)
        if "slurmctld" in self._daemons:
            self.kill("slurmctld", signal.SIGTERM)
        for path in self.root.glob("state/job_state*") if forget else []:
            path.unlink()
        self.start_controller()

    def start_controller(self) -> None:
        self.start("slurmctld", "slurmctld", "-D", "-f", str(self.config))
        wait_until(lambda: "is UP" in self.run("scontrol", "ping"), "the controller to answer")

    def start_node(self, name: str, *before: str) -> None:
        """Start the slurmd of a node, by the command `before` if there is one."""
        self.start(name, *before, "slurmd", "-D", "-N", name, "-f", str(self.config))

    def give_own_mounts(self, name: str) -> None:
        """Start a node anew that sees its own mounts, and none that tests make later; needs root."""
        self.kill(name, signal.SIGTERM)
        self.start_node(name, "unshare", "--mount")
        self.repair()

    def run_in_mounts(self, name: str, *words: str) -> None:
        """Run a command that mounts something on a node with its own mounts only."""
        subprocess.run(["nsenter", "--mount", f"--target={self._daemons[name].pid}", *words], check=True)

    @property
    def daemon_environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}

    def kill(self, daemon: str, number: int = signal.SIGKILL) -> None:
        """End `slurmctld`, the slurmd of a node, or what `start` has started."""
        process = self._daemons.pop(daemon)
        process.send_signal(number)
        process.wait(timeout=60)

    def cut_off(self) -> dict[str, str]:
        """The environment of a machine that does not reach the controller. Nodes do: a step that ends without its
        controller asks it again only after a minute.
        """
        config = self.root / "cut-off.conf"
        config.write_text(re.sub(r"(?m)^SlurmctldPort=.*", "SlurmctldPort=1", self.config.read_text()))
        return {"SLURM_CONF": str(config)}

    def run(self, *words: str) -> str:
        """Run one Slurm command; return what it prints on both streams."""
        done = subprocess.run(
            words, env={**os.environ, **self.environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return done.stdout.strip()

    def idle_nodes(self) -> set[str]:
        """Not by sinfo's --states=idle, which takes a drained node for one."""
        lines = self.run("sinfo", "--noheader", "--partition=main", "--Node", "--format=%N %t").splitlines()
        return {line.split()[0] for line in lines if line.endswith(" idle")}

    def job(self, job_id: str) -> dict[str, str]:
        """`scontrol show job` as keys and values."""
        words = self.run("scontrol", "--oneliner", "show", "job", job_id).split()
        return dict(word.partition("=")[::2] for word in words)

    def wait_saved(self, job_id: str) -> None:
        """Until the controller has a job, as it is now, on disk: it forgets the last seconds when it is killed."""
        state = self.root / "state" / "job_state"
        before = state.stat().st_mtime_ns if state.exists() else 0
        self.run("scontrol", "update", f"JobId={job_id}", "AdminComment=save")  # or it may see nothing to save
        wait_until(lambda: state.exists() and state.stat().st_mtime_ns > before, "the controller to save its state")

    def preempt(self, seconds: int = 3) -> None:
        """Take all nodes for a more important job, and wait until that has run."""
        words = ["--parsable", "--partition=high", "--nodes=4", "--exclusive", "--output=/dev/null"]
        job_id = self.run("sbatch", *words, f"--wrap=sleep {seconds}")  # its --wait looks after 2, 10, 42 s
        wait_until(lambda: self.job(job_id)["JobState"] == "COMPLETED", f"job {job_id} to run on all nodes", 120)

    def release(self, job_id: str, restarts: int, *changes: str, limit_s: float = 90) -> None:
        """See a job run again, with `changes`, that was requeued for the `restarts`-th time, without Slurm's pause."""

        def left_the_nodes() -> bool:
            job = self.job(job_id)
            return int(job["Restarts"]) >= restarts and job["JobState"] != "COMPLETING"

        wait_until(left_the_nodes, f"job {job_id} to be requeued", limit_s)
        if self.job(job_id)["JobState"] == "PENDING":
            # Not at once: to a slurmd, what is signed in the second of the requeue still belongs to the old job.
            self.run("scontrol", "update", f"JobId={job_id}", "StartTime=now+2", *changes)
        wait_until(lambda: self.job(job_id)["JobState"] == "RUNNING", f"job {job_id} to run again", limit_s)

    def end_time_soon(self, job_id: str) -> None:
        """Move a job's time limit to 70 to 129 s from now: Slurm counts in minutes, and looks twice in each."""
        days, _, clock = self.job(job_id)["RunTime"].rpartition("-")
        hours, minutes, seconds = map(int, clock.split(":"))
        ran_s = (int(days or 0) * 24 + hours) * 3600 + minutes * 60 + seconds
        self.run("scontrol", "update", f"JobId={job_id}", f"TimeLimit={(ran_s + 129) // 60}")

    def _start_munge(self) -> None:
        key, socket = self.root / "munge.key", self.root / "munge.socket"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        words = ["--socket", socket, "--key-file", key, "--pid-file", self.root / "munge.pid"]
        words += ["--log-file", self.root / "log" / "munged.log", "--seed-file", self.root / "munge.seed"]
        self.start("munged", "munged", "--foreground", "--force", *map(str, words))
        wait_until(socket.exists, "munge's socket")

    def start(self, name: str, *words: str, **more: str) -> None:
        """Start a daemon that lasts until `kill`, or until pytest ends."""
        with open(self.root / "log" / f"{name}.log", "ab") as log:
            self._daemons[name] = subprocess.Popen(
                [*_TIED, *words],
                env={**self.daemon_environment, **more},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for pytest
            )


def wait_until(condition: Callable[[], T], what: str, limit_s: float = 20) -> T:
    """Wait for something true and return it; rest three times as long as the question took, as `wait_for` does."""
    deadline = time.monotonic() + limit_s
    while (asked := time.monotonic()) < deadline:
        if found := condition():
            return found
        time.sleep(max(0.05, 3 * (time.monotonic() - asked)))
    raise AssertionError(f"not within {limit_s} s: {what}")


def free_ports(count: int) -> list[int]:
    """Neighbouring ports that are free now, below the ephemeral range."""
    for first in range(17_000 + os.getpid() % 1000 * 5, 24_000, count):
        try:
            for port in range(first, first + count):
                with socket.create_server(("", port)):
                    pass
        except OSError:
            continue
        return list(range(first, first + count))
    raise AssertionError("no free ports")


@pytest.fixture(scope="session")
def slurm_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    require("slurm")
    cluster = SlurmCluster(tmp_path_factory.mktemp("slurm"))
    yield cluster
    cluster.stop()


@pytest.fixture
def slurm(slurm_session: SlurmCluster, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """Four idle nodes and an empty queue, reached by every Slurm command of the test."""
    for name, value in slurm_session.environment.items():
        monkeypatch.setenv(name, value)
    slurm_session.repair()
    yield slurm_session
    slurm_session.repair()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="fsdpctl-slurm-") as root:
        cluster = SlurmCluster(Path(root) / "cluster")
        print(f"export SLURM_CONF={cluster.config}    # Ctrl-C here ends the cluster", flush=True)
        ends = {signal.SIGINT, signal.SIGTERM}
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # not before the daemons have started: they would inherit it
        signal.sigwait(ends)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ends)
        cluster.stop()


if __name__ == "__main__":
    main()
