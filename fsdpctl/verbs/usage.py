"""usage: how many GPU hours runs have taken, what they cost, and the energy of their GPUs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from fsdpctl.backends.base import JobUsage
from fsdpctl.backends.table import get_backend
from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import FsdpctlError, UsageError
from fsdpctl.runs.attempt_time import AttemptTime, read_attempt_time, read_energy_j
from fsdpctl.runs.evidence import AttemptFacts, read_plan
from fsdpctl.runs.record import NodeKind, RunRecord
from fsdpctl.runs.store import Listed, list_runs, list_runs_in
from fsdpctl.specs.load import read_profile

_PRICE = re.compile(rb"^price_per_gpu_hour: *[0-9]", re.MULTILINE)


@dataclass(frozen=True)
class Amount:
    """What one or several runs have taken; None where it is not known, or does not apply, for any of them."""

    hours: float = 0.0  # of attempts, without the time between them
    process_hours: float = 0.0
    gpu_hours: float | None = None
    energy_kwh: float | None = None  # of the GPUs
    cost: float | None = None


@dataclass(frozen=True)
class AttemptUse:
    """One attempt: its time, the joules of its GPUs, and the nodes that it had."""

    time: AttemptTime
    energy_j: float | None
    node: NodeKind


@dataclass(frozen=True)
class RunUsage:
    """What one run has taken."""

    run_id: str
    job: str
    user: str
    attempts: int
    amount: Amount
    slurm: JobUsage | None  # of all of its jobs, in whole


@dataclass(frozen=True)
class Usage:
    """What all runs have taken, the oldest run first."""

    runs: tuple[RunUsage, ...]
    users: Mapping[str, Amount]
    total: Amount
    unread: tuple[str, ...]  # runs whose records cannot be read, and why


def read_usage(since: float, root: Path | None = None) -> Usage:
    """Return the usage after `since` of the runs that this user has started, or of all in the directory `root`."""
    if root is not None and not root.is_dir():
        raise UsageError(f"{root} is no directory", hint="--root takes a profile's runs_root")
    listed = list_runs() if root is None else list_runs_in(root)
    now, slurm = time.time(), _read_slurm(listed)
    runs: list[RunUsage] = []
    unread = [f"{one.run_id}: {one.broken}" for one in listed if one.record is None]
    for one in listed:
        if one.record is None:
            continue
        try:
            found = _read_run(one, since, now, slurm.get(one.run_id))
        except (OSError, CodecError) as error:
            unread.append(f"{one.run_id}: {error}")
            continue
        if found is not None:
            runs.append(found)
    runs.reverse()
    by_user = sorted(runs, key=lambda run: run.user)
    users = {user: add_up(run.amount for run in own) for user, own in groupby(by_user, key=lambda run: run.user)}
    return Usage(tuple(runs), users, add_up(run.amount for run in runs), tuple(unread))


def add_up(amounts: Iterable[Amount]) -> Amount:
    """Return the sum; a value that only some have is the sum of those. Pure."""
    found = list(amounts)
    return Amount(
        sum(one.hours for one in found),
        sum(one.process_hours for one in found),
        _sum(one.gpu_hours for one in found),
        _sum(one.energy_kwh for one in found),
        _sum(one.cost for one in found),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def measure(use: AttemptUse, since: float) -> Amount:
    """Return what an attempt has taken after `since`. Pure."""
    seconds, whole, node = use.time.seconds_since(since), use.time.end - use.time.start, use.node
    process_hours = seconds / 3600 * use.time.nodes * node.procs_per_node
    gpu_hours = process_hours if node.device == "cuda" else None
    energy_kwh = use.energy_j * seconds / whole / 3.6e6 if use.energy_j is not None and whole > 0 else None
    price = node.price_per_gpu_hour
    cost = gpu_hours * price if gpu_hours is not None and price is not None else None
    return Amount(seconds / 3600, process_hours, gpu_hours, energy_kwh, cost)


def _read_run(listed: Listed, since: float, now: float, slurm: JobUsage | None) -> RunUsage | None:
    """Return the usage of a run; None if no attempt ran after `since`."""
    assert listed.record is not None
    uses = [use for use in _read_uses(listed.paths, listed.record, now) if use.time.seconds_since(since) > 0]
    if not uses:
        return None
    amount = add_up(measure(use, since) for use in uses)
    return RunUsage(listed.run_id, listed.record.job, _owner(listed.paths.root), len(uses), amount, slurm)


def _read_uses(run: RunPaths, record: RunRecord, now: float) -> Iterator[AttemptUse]:
    plan = read_plan(run)
    newest = NodeKind(plan.procs_per_node, plan.device, _read_price(run))
    for paths in run.attempts():
        attempt = AttemptFacts(paths)
        if (found := read_attempt_time(attempt, now)) is not None:
            node = record.submission_of(attempt.number).node
            yield AttemptUse(found, read_energy_j(attempt), node if node is not None else newest)


def _read_price(run: RunPaths) -> float | None:
    """Return the price of the run's profile. Most have none, and a profile takes long to validate."""
    with suppress(OSError, FsdpctlError):
        if _PRICE.search(read_bytes(run.profile)):
            return read_profile(run.profile).price_per_gpu_hour
    return None


def _owner(path: Path) -> str:
    try:
        return path.owner()
    except (KeyError, OSError):
        return str(path.stat().st_uid)


def _read_slurm(listed: Sequence[Listed]) -> Mapping[str, JobUsage]:
    """Ask each scheduler once for all of its runs."""
    found: dict[str, JobUsage] = {}
    for backend in {one.record.backend for one in listed if one.record is not None}:
        with suppress(FsdpctlError):  # of another version
            own = [one.paths for one in listed if one.record is not None and one.record.backend == backend]
            found |= get_backend(backend).job_usage(own)
    return found
