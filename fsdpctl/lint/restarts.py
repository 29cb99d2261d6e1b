"""Rules about what ends a run, and what follows."""

from __future__ import annotations

from collections.abc import Iterator

from fsdpctl.lint.rule import Found, rule
from fsdpctl.lint.subject import Subject
from fsdpctl.schema.types import format_duration
from fsdpctl.specs.lint import RuleId

HOUR = 3600
LONG_S = 6 * HOUR
SHORTEST_TIMEOUT_S = 10
"""Of a heartbeat on a shared disk: NFS shows a change up to 3 s late, and a busy server later."""


@rule(
    RuleId.NO_RESTARTS,
    "advice",
    what="A long run on several nodes does not restart after a failure.",
    why="The more nodes, the more often one fails: the first failure of a night ends the run, and its GPUs are idle"
    " until the morning. Restarts continue from the newest checkpoint, and end where they make no progress.",
    change="Set `restarts`, for example to 10.",
    source="docs/restarts.md",
)
def no_restarts(subject: Subject) -> Iterator[Found]:
    limit_s = subject.job.time_limit
    if not subject.job.restarts and subject.has_network and (limit_s is None or limit_s > LONG_S):
        yield Found("restarts", f"the first failure on any of {subject.nodes} nodes ends the run")


@rule(
    RuleId.SPARES_WITHOUT_RESTARTS,
    "warning",
    what="Spares are listed, and the run never restarts.",
    why="A spare replaces a failed host when the run restarts. With `restarts: 0` the run ends instead, and the spare"
    " waits for a `resume` by hand.",
    change="Set `restarts` in the job.",
    source="docs/launchers-ssh.md",
)
def spares_without_restarts(subject: Subject) -> Iterator[Found]:
    if subject.profile.spares and not subject.job.restarts:
        count = len(subject.profile.spares)
        yield Found("restarts", f"{count} spare{'s' if count > 1 else ''} in the profile, but restarts is 0")


@rule(
    RuleId.NO_REQUEUES,
    "warning",
    what="A run that Slurm interrupts does not come back.",
    why="With `max_requeues: 0` the run ends at the first preemption, node failure or end of an allocation, and waits"
    " for a `resume` by hand.",
    change="Remove `backend.max_requeues`.",
    source="docs/launchers-slurm.md",
)
def no_requeues(subject: Subject) -> Iterator[Found]:
    if subject.slurm is not None and subject.slurm.max_requeues == 0:
        yield Found("backend.max_requeues", "the first preemption or time limit ends the run for good")


@rule(
    RuleId.NO_TIME_LIMIT,
    "advice",
    what="Slurm is not asked for a time.",
    why="Without `time_limit` and `backend.time` each allocation has the default of the partition, often an hour or"
    " less, after which the run saves, waits in the queue again and starts again. A job with the longest time of the"
    " partition, where that is the default, is also started later than a shorter one by a backfill scheduler.",
    change="Set `backend.time` to the longest allocation of the partition, or `time_limit` in the job.",
    source="https://slurm.schedmd.com/sbatch.html#OPT_time",
)
def no_time_limit(subject: Subject) -> Iterator[Found]:
    if subject.slurm is not None and subject.plan.time_limit_s is None:
        yield Found("time_limit", "each allocation is as long as the default of the partition")


@rule(
    RuleId.LONG_HANG_LIMIT,
    "warning",
    what="A hang is noticed only after hours.",
    why="While a rank hangs all GPUs wait. The limits adapt to steps that are slow: they need not be raised for those.",
    change="Remove the key, or set it to some minutes.",
    source="docs/hangs.md",
)
def long_hang_limit(subject: Subject) -> Iterator[Found]:
    for name in ("after", "data", "start", "disk", "leave_after"):
        limit_s = getattr(subject.job.hang, name)
        if limit_s is not None and limit_s > HOUR:
            yield Found(f"hang.{name}", f"{subject.world} ranks may wait for {format_duration(limit_s)} before it ends")


@rule(
    RuleId.SHORT_PEER_TIMEOUT,
    "warning",
    what="A node counts as lost after a few seconds.",
    why="Heartbeats are files on the shared disk: on NFS a change is visible up to 3 s late, and a file server that is"
    " busy delays it further. A short outage then ends a healthy attempt.",
    change="Leave `peer_timeout` at 15s.",
    source="docs/limits.md",
)
def short_peer_timeout(subject: Subject) -> Iterator[Found]:
    if subject.has_network and subject.plan.shared_disk and subject.profile.peer_timeout < SHORTEST_TIMEOUT_S:
        limit = format_duration(subject.profile.peer_timeout)
        yield Found("peer_timeout", f"a file server that is slow for {limit} ends the attempt")
