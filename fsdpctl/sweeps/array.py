"""Start the runs of a sweep as one job array, where its scheduler can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from fsdpctl.backends.table import get_backend
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import RefusedError
from fsdpctl.runs.evidence import read_plan
from fsdpctl.runs.store import discard, locked
from fsdpctl.sweeps.decide import Todo
from fsdpctl.sweeps.record import SweepRecord, SweptRun
from fsdpctl.verbs.no_start import start_no_start_watch
from fsdpctl.verbs.resume import resume
from fsdpctl.verbs.submit import Request, create_run


@dataclass
class _Prepared:
    """Runs whose newest submission is stored and not started yet."""

    runs: list[RunPaths] = field(default_factory=list)
    plans: list[LaunchPlan] = field(default_factory=list)

    def add(self, run: RunPaths, plan: LaunchPlan) -> None:
        self.runs.append(run)
        self.plans.append(plan)


def find_obstacle(
    record: SweepRecord, todos: Sequence[Todo], requests: Mapping[str, Request], at_once: int | None
) -> str | None:
    """Return why the runs that are to start cannot be one job array; None if they can, "" if none is expected."""
    plans = [
        requests[run.run_id].plan if todo is Todo.SUBMIT else read_plan(record.paths(run))
        for run, todo in zip(record.runs, todos, strict=True)
        if todo in (Todo.SUBMIT, Todo.RESUME)
    ]
    if len(plans) < 2 or (arrays := get_backend(plans[0].backend).job_arrays) is None:
        return ""
    if at_once is not None and Todo.WAIT in todos:
        return "others of this sweep are alive, and count for --at-once"
    return arrays.find_obstacle(plans)


def start_together(
    record: SweepRecord, runs: Sequence[SweptRun], requests: Mapping[str, Request], at_once: int | None
) -> str:
    """Create or resume these runs, and start them as one job array; return its id.

    Raise RefusedError if the scheduler does not accept it. New runs are removed then.
    """
    prepared = _Prepared()
    created = []
    for run in runs:
        if run.state is None:
            request = requests[run.run_id]
            created.append(create_run(request))
            prepared.add(created[-1], request.plan)
        else:
            resume(record.paths(run), start=prepared.add)
    try:
        return _start(prepared, record.name, at_once)
    except RefusedError:
        for paths in created:
            discard(paths)
        raise


def _start(prepared: _Prepared, name: str, at_once: int | None) -> str:
    arrays = get_backend(prepared.plans[0].backend).job_arrays
    assert arrays is not None
    with ExitStack() as locks:
        for run in prepared.runs:
            locks.enter_context(locked(run))
        array_id = arrays.start_array(prepared.runs, prepared.plans, name, at_once)
        for run, plan in zip(prepared.runs, prepared.plans, strict=True):
            start_no_start_watch(run, plan)
    return array_id
