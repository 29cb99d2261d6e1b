"""Doctor's transport to nodes of a Slurm cluster: a short allocation, and one step for each request."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence

from fsdpctl.backends.base import NodeAnswer
from fsdpctl.backends.fanout import HostError
from fsdpctl.backends.slurm.environment import job_environment
from fsdpctl.backends.slurm.job.scontrol import TIMEOUT_S, SlurmError, ask, expand_hosts, find_addresses
from fsdpctl.backends.slurm.sbatch import error_line
from fsdpctl.commands.container import enter, step_options, task_setup
from fsdpctl.commands.setup_lines import with_setup
from fsdpctl.contract.plan import LaunchPlan, PlannedNode
from fsdpctl.errors import LaunchError

PATIENCE_S = 60
"""How long nodes may take to become free: a user waits at a terminal."""
ALLOCATION_MINUTES = 10
"""For three requests; released as soon as they are answered."""

_GRANTED = re.compile(r"Granted job allocation (\d+)")


class SlurmProbeTransport:
    """The `ProbeTransport` of a Slurm profile; `plan` has the nodes that Slurm allocated."""

    def __init__(self, plan: LaunchPlan) -> None:
        self._env = job_environment(os.environ)
        self._job_id = _allocate(plan, self._env)
        try:
            hosts = ask(["squeue", "--noheader", f"--jobs={self._job_id}", "--format=%N"], self._env).strip()
            self.plan = plan.place(find_addresses(expand_hosts(hosts)))
        except SlurmError as error:
            self.close()
            raise LaunchError(f"Slurm does not report the nodes of the allocation: {error}") from error

    def run(self, node: PlannedNode, argv: Sequence[str], stdin: bytes, limit_s: float) -> NodeAnswer:
        where = [f"--jobid={self._job_id}", f"--nodelist={node.id}", "--nodes=1", "--ntasks=1", "--overlap"]
        srun = ["srun", *where, "--mpi=none", "--cpu-bind=none", "--chdir=/", *step_options(self.plan)]
        srun += with_setup(task_setup(self.plan), [*enter(self.plan), *argv])
        try:
            done = subprocess.run(srun, input=stdin, env=self._env, capture_output=True, timeout=limit_s, check=False)
        except subprocess.TimeoutExpired:
            raise HostError(f"no answer within {limit_s:.0f} s") from None
        stderr = done.stderr.decode(errors="replace").splitlines()
        printed = [line for line in stderr if not line.startswith("srun: ")] or stderr
        return NodeAnswer(done.returncode, done.stdout.decode(errors="replace"), "\n".join(printed))

    def close(self) -> None:
        try:
            ask(["scancel", self._job_id], self._env)
        except SlurmError as error:
            raise LaunchError(f"job {self._job_id} cannot be cancelled: {error}", hint="scancel it") from error


def _allocate(plan: LaunchPlan, env: dict[str, str]) -> str:
    """Allocate nodes as a run of this profile would. Raise LaunchError if there are none now."""
    assert plan.slurm is not None
    size = [f"--nodes={len(plan.nodes)}", "--ntasks-per-node=1", f"--time={ALLOCATION_MINUTES}"]
    try:  # salloc would wait in vain for nodes that no job can get
        ask(["srun", "--test-only", *size, *plan.slurm.options, "true"], env)
    except SlurmError as error:
        raise _no_nodes(plan, str(error).removeprefix("srun: ")) from error
    own = ["--no-shell", f"--immediate={PATIENCE_S}", "--job-name=fsdpctl-doctor"]
    argv = ["salloc", *own, *size, *plan.slurm.options]
    limit_s = PATIENCE_S + TIMEOUT_S
    try:
        done = subprocess.run(
            argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except FileNotFoundError:
        raise LaunchError("salloc is not on the PATH: this machine is no login node of a Slurm cluster") from None
    except subprocess.TimeoutExpired:
        raise LaunchError(f"salloc gave no answer within {limit_s:.0f} s") from None
    if (granted := _GRANTED.search(done.stderr)) is not None:
        return granted[1]
    raise _no_nodes(plan, error_line(done.stderr).replace("salloc: error: ", ""))


def _no_nodes(plan: LaunchPlan, reason: str) -> LaunchError:
    nodes = f"{len(plan.nodes)} node{'s' if len(plan.nodes) > 1 else ''}"
    return LaunchError(
        f"Slurm does not give {nodes} now: {reason}", hint="`sinfo` shows what is free; --nodes N asks for N"
    )


def open_probe_transport(plan: LaunchPlan) -> SlurmProbeTransport:
    return SlurmProbeTransport(plan)
