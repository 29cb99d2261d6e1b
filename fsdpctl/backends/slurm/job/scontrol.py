"""Run Slurm's commands with a time limit: the controller may be down, and a run must continue without it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from fsdpctl.backends.slurm.job.scontrol_output import Job, parse_job, parse_nodes
from fsdpctl.contract.plan import AllocatedNode
from fsdpctl.node.os import signals

TIMEOUT_S = 30.0


class SlurmError(Exception):
    """Slurm refuses or does not answer; the message is the last line that it printed."""


def ask(argv: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """Run one Slurm command and return what it prints. Raise SlurmError."""
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            env=env,
            preexec_fn=signals.ignore,  # a requeue ends everything in the job, `scontrol requeue` itself included
        )
    except FileNotFoundError:
        raise SlurmError(f"{argv[0]} is not on the PATH of this machine") from None
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{argv[0]} gave no answer within {TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise SlurmError(f"{argv[0]}: {lines[-1]}")
    return done.stdout


def show_job(job_id: str) -> Job:
    return parse_job(ask(["scontrol", "show", "job", job_id]))


def expand_hosts(host_list: str) -> tuple[str, ...]:
    """Return the names of a host list expression, in its order; the controller is not asked. Raise SlurmError."""
    return tuple(ask(["scontrol", "show", "hostnames", host_list]).split())


def find_addresses(names: Sequence[str]) -> tuple[AllocatedNode, ...]:
    """Return nodes with the addresses that Slurm itself uses; with their names where it does not report them."""
    try:
        known = parse_nodes(ask(["scontrol", "show", "node", ",".join(names)]))
    except SlurmError:
        known = {}
    return tuple(known.get(name, AllocatedNode(name, name)) for name in names)


def requeue(job_id: str, excluded: str) -> None:
    """Put the running job back into the queue, then exclude nodes: Slurm accepts that only for a job that is ending."""
    ask(["scontrol", "requeue", job_id])
    if excluded:
        ask(["scontrol", "update", f"JobId={job_id}", f"ExcNodeList={excluded}"])
