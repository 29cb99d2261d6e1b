"""RunRecord: what the submitting side stores of a run. Everything else is read from files of the node side."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from fsdpctl.contract import SCHEMA
from fsdpctl.contract.plan import Device

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # without characters that look alike


@dataclass(frozen=True)
class NodeKind:
    """What each node of a submission has, and costs."""

    procs_per_node: int
    device: Device
    price_per_gpu_hour: float | None = None


@dataclass(frozen=True)
class Submission:
    """One `submit` or `resume`."""

    kind: Literal["submit", "resume"]
    time: float  # seconds since the epoch
    nodes: int
    first_attempt: int
    step: int | None = None  # the one that `resume --step` went back to
    node: NodeKind | None = None  # None: of an older version, which has it in the plan and profile of the newest only


@dataclass(frozen=True)
class RunRecord:
    """`run.json`, written under the run's lock before anything is started."""

    schema: int
    run_id: str
    created: float  # seconds since the epoch
    job: str
    profile: str
    backend: str
    submissions: tuple[Submission, ...]

    @classmethod
    def new(
        cls, run_id: str, job: str, profile: str, backend: str, now: float, nodes: int, node: NodeKind | None = None
    ) -> RunRecord:
        first = Submission("submit", now, nodes, 1, node=node)
        return cls(SCHEMA, run_id, now, job, profile, backend, (first,))

    def submission_of(self, attempt: int) -> Submission:
        """Return the submission that an attempt is of."""
        first, *later = self.submissions
        return [first, *(one for one in later if one.first_attempt <= attempt)][-1]


def new_run_id(name: str) -> str:
    """Return the job's name and four random characters: short to type; the caller retries if the id exists."""
    return f"{name}-{''.join(random.SystemRandom().choices(_LETTERS, k=4))}"
