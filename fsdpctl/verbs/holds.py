"""Take nodes that stay between runs, list them, and give them back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.backends.base import HoldView
from fsdpctl.backends.placement import Own
from fsdpctl.backends.table import get_backend
from fsdpctl.contract.codec import find_json, read_json, write_text
from fsdpctl.contract.paths import HoldPaths, RunPaths
from fsdpctl.contract.plan import HoldPlan, LaunchPlan
from fsdpctl.errors import BusyError, LaunchError, UsageError
from fsdpctl.holds import store
from fsdpctl.holds.decide import Use, ends_at
from fsdpctl.holds.record import Held, Hold, find_held
from fsdpctl.holds.use import read_use
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.snapshot import copy_package
from fsdpctl.runs.record import new_run_id
from fsdpctl.specs.job import Entrypoint, JobSpec
from fsdpctl.specs.load import read_profile
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.verbs.placing import place
from fsdpctl.verbs.submit_host import runs_root_of, submit_host

POLL_S = 0.5
ENDING_S = 10.0
"""How long a submit and a release wait for the supervisor of a run that has ended."""


@dataclass(frozen=True)
class HoldStatus:
    """A hold, and what is known about it now."""

    paths: HoldPaths
    record: Hold
    held: Held | None  # None while a scheduler has given nothing
    use: Use
    view: HoldView

    @property
    def ends(self) -> float | None:
        """When it ends without another run, seconds since the epoch."""
        return ends_at(self.record, self.held, self.use) if self.held is not None else None

    def is_over(self, now: float) -> bool:
        if self.held is None and not get_backend(self.record.backend).has_scheduler:
            return True  # the command that took it was killed
        return self.view.state == "over" or (self.ends is not None and now >= self.ends)


def take_hold(profile: ClusterProfile, nodes: int, time_s: int, idle_s: int, name: str | None = None) -> HoldStatus:
    """Take nodes, or ask a scheduler for them. Raise BusyError, UsageError and LaunchError, with nothing taken then."""
    with store.changing():
        known = {status.record.name for status in _forget_ended()}
        if name in known:
            raise UsageError(f"there is a hold {name} already", hint=f"fsdpctl release {name}, or another --name")
        name = name or next(new for new in iter(lambda: new_run_id("hold"), None) if new not in known)
        hold, plan = HoldPaths.below(runs_root_of(profile), name), _plan(profile, nodes)
        (plan, _), backend = place(plan), get_backend(plan.backend)
        gpus = nodes * plan.procs_per_node if plan.device == "cuda" else 0
        record = Hold(
            name=name,
            profile=profile.name,
            backend=plan.backend,
            num_nodes=nodes,
            created=time.time(),
            time_s=time_s,
            idle_s=idle_s,
            gpus=gpus,
            price_per_gpu_hour=profile.price_per_gpu_hour,
        )

        def fill(hold: HoldPaths) -> None:
            from fsdpctl.schema.dump import dump_yaml

            write_text(hold.profile, dump_yaml(profile))
            if backend.has_scheduler:  # its job runs this code
                copy_package(RunPaths(hold.root))

        store.remove(hold)  # what a killed command has left
        try:
            store.create(hold, record, fill)
            backend.holding.take(hold, record, plan)
        except BaseException:
            store.remove(hold)
            raise
    return _read_status(hold)


def wait_for_nodes(status: HoldStatus, report: Callable[[str], None]) -> HoldStatus:
    """Wait until the nodes are given, with a line for each new reason of the scheduler. Raise LaunchError if they never
    will be.
    """
    said = ""
    while status.held is None:
        if status.view.state == "over":
            reason = f"{status.view.reason}{_last_line(status.paths.batch_log)}"
            store.remove(status.paths)
            raise LaunchError(f"hold {status.record.name} has ended: {reason}")
        if status.view.state == "queued" and status.view.reason != said:
            report(f"hold {status.record.name} waits for nodes: {status.view.reason}")
            said = status.view.reason
        time.sleep(POLL_S)
        status = _read_status(status.paths)
    return status


def list_holds() -> list[HoldStatus]:
    """Return the holds that have not ended; forget the others."""
    found = _read_all()
    if any(status.is_over(time.time()) for status in found):
        try:
            with store.changing():
                return _forget_ended()  # one may have been in the making
        except BusyError:  # another command takes nodes: the next one forgets them
            pass
    return [status for status in found if not status.is_over(time.time())]


def _forget_ended() -> list[HoldStatus]:
    """Remove the holds that have ended, and return the others; the lock of the list is held."""
    found, now = _read_all(), time.time()
    for status in found:
        if status.is_over(now):
            store.remove(status.paths)
    return [status for status in found if not status.is_over(now)]


def find_hold(name: str) -> HoldStatus:
    """Return a hold by its name. Raise UsageError."""
    found = {status.record.name: status for status in list_holds()}
    if name not in found:
        known = f"; there are: {', '.join(found)}" if found else ""
        raise UsageError(f"no hold {name}{known}", hint="fsdpctl hold -p PROFILE --nodes N takes nodes")
    return found[name]


def release(name: str) -> None:
    """Give the nodes of a hold back. Raise BusyError while a run is on them, but not for one that has ended."""
    status = find_hold(name)
    with store.entering(status.paths):
        if (use := _wait_for_end(status.paths)).run_id is not None and not use.is_ending:
            raise BusyError(f"run {use.run_id} is in hold {name}", hint=f"fsdpctl stop {use.run_id}, or cancel")
        profile = read_profile(status.paths.profile)
        get_backend(status.record.backend).holding.release(status.paths, _plan(profile, status.record.num_nodes))
        store.remove(status.paths)


@contextmanager
def entering(status: HoldStatus | None, run: RunPaths) -> Iterator[None]:
    """Start a run in this context, in a hold if one is given. Raise BusyError if another run is on its nodes, or starts
    there.
    """
    if status is None:
        yield
        return
    with store.entering(status.paths):
        use, name = _wait_for_end(status.paths), status.record.name
        if (other := use.run_id) is not None and use.is_ending:
            reason = (
                f"run {other} has ended, and the nodes of hold {name} have not all confirmed that nothing of it is left"
            )
            raise BusyError(reason, hint="wait a minute, until `fsdpctl holds` shows no run")
        if other is not None:
            raise BusyError(f"run {other} is in hold {name}", hint=f"fsdpctl stop {other}, or wait until it ends")
        write_text(status.paths.newest_run, f"{run.root}\n")
        yield


def _wait_for_end(hold: HoldPaths) -> Use:
    """Return what the nodes of a hold are used for; wait for the supervisor of a run that has ended."""
    deadline = time.monotonic() + ENDING_S
    while (use := read_use(hold)).is_ending and time.monotonic() < deadline:
        time.sleep(0.05)
    return use


def profile_of(status: HoldStatus, profile: str | None, backend: Sequence[str]) -> str:
    """Return the file of a hold's profile. Raise UsageError if the user asks for another one."""
    if profile is not None or backend:
        raise UsageError(
            f"hold {status.record.name} has profile {status.record.profile}: --in takes no other one, and no --backend"
        )
    return str(status.paths.profile)


def plan_of(status: HoldStatus) -> HoldPlan:
    """Return a hold's part of a plan. Raise LaunchError while its nodes are not given."""
    if status.held is None or status.ends is None:
        reason = status.view.reason or status.view.state
        raise LaunchError(f"hold {status.record.name} has no nodes yet: {reason}", hint="fsdpctl holds")
    until = status.held.since + status.record.time_s
    return HoldPlan(status.record.name, str(status.paths.root), until, status.record.idle_s, status.held.job_id)


def own_machines(status: HoldStatus) -> Own:
    """Return the machines of a hold."""
    return Own(status.record.name, status.held.machines if status.held is not None else ())


def _last_line(log: Path) -> str:
    """Return the last line of the output of a hold's job, to be appended to a reason."""
    lines = log.read_text(errors="replace").split("\n")[-2:-1] if log.exists() else []
    return f"; {lines[0]}" if lines and lines[0] else ""


def _plan(profile: ClusterProfile, nodes: int) -> LaunchPlan:
    """Return the plan of a job on the nodes of a hold."""
    job = JobSpec(name="hold", nodes=nodes, entrypoint=Entrypoint(script="hold"))
    return build_plan(profile, job, submit_host(profile, runs_root_of(profile), "fsdpctl-hold", Path.cwd()))


def _read_all() -> list[HoldStatus]:
    found = {hold: find_json(Hold, hold.record) for hold in store.list_holds()}
    records = {hold: record for hold, record in found.items() if record is not None}
    views: dict[HoldPaths, HoldView] = {}
    for backend in {record.backend for record in records.values()}:
        holds = [hold for hold, record in records.items() if record.backend == backend]
        views |= get_backend(backend).holding.look(holds)
    return [HoldStatus(hold, record, find_held(hold), read_use(hold), views[hold]) for hold, record in records.items()]


def _read_status(hold: HoldPaths) -> HoldStatus:
    record = read_json(Hold, hold.record)
    view = get_backend(record.backend).holding.look([hold])[hold]
    return HoldStatus(hold, record, find_held(hold), read_use(hold), view)
