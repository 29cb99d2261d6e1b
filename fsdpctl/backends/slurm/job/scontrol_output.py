"""Parse what `scontrol` prints, in any version of Slurm from 21.08 on. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fsdpctl.contract.plan import AllocatedNode

END_STATES = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"),
    *("REVOKED", "TIMEOUT"),
)
"""All states of a job that has ended."""
ENDING_STATES = ("COMPLETING", *END_STATES)
"""Those of a job that ends or has ended."""


@dataclass(frozen=True)
class Job:
    """One job as the controller sees it now."""

    job_id: str
    state: str
    reason: str
    restarts: int
    is_preempted: bool  # the scheduler is taking its nodes, or has taken them
    excluded: str  # host list expression, "" for none
    is_taken: bool = False  # a preemption ended it, not a cancel in the meantime

    @property
    def is_ending(self) -> bool:
        return self.state in ENDING_STATES


def parse_job(text: str) -> Job:
    """Parse `scontrol show job ID`. Raise ValueError for other text.

    Only keys at the start of a line, or after one that takes no free text, are read: a job's name may contain anything.
    """

    def find(pattern: str) -> str | None:
        found = re.search(pattern, text, re.MULTILINE)
        return found[1] if found else None

    job_id, state = find(r"^JobId=(\S+)"), find(r"^\s*JobState=(\S+)")
    if job_id is None or state is None:
        raise ValueError(f"not what `scontrol show job` prints: {text[:80]!r}")
    excluded = find(r"^\s*ReqNodeList=\S* ExcNodeList=(\S+)")
    preempted = find(r"^\s*PreemptEligibleTime=\S+ PreemptTime=(\S+)") or "None"
    is_preempted = preempted not in ("None", "Unknown")
    return Job(
        job_id=job_id,
        state=state,
        reason=find(r"^\s*JobState=\S+ Reason=(\S+)") or "",
        restarts=int(find(r"^\s*Requeue=\d+ Restarts=(\d+)") or 0),
        is_preempted=is_preempted,
        excluded=excluded if excluded not in (None, "(null)") else "",
        # Slurm writes both with one clock, whether or not a grace came before.
        is_taken=is_preempted and state in ENDING_STATES and find(r"^\s*StartTime=\S+ EndTime=(\S+)") == preempted,
    )


def parse_nodes(text: str) -> dict[str, AllocatedNode]:
    """Parse `scontrol show node LIST`: return node name -> name and address."""
    found = {}
    for block in re.split(r"\n\s*\n", text):
        name, address = re.search(r"^NodeName=(\S+)", block), re.search(r"NodeAddr=(\S+)", block)
        if name:
            found[name[1]] = AllocatedNode(name[1], address[1] if address else name[1])
    return found
