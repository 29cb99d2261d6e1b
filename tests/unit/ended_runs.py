"""Directories of runs that have ended, as the launcher and the ranks leave them, in milliseconds."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from fsdpctl.contract import Cause, State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.events import Actor, Event, EventKind, to_line
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.records import Outcome, ProcessIdentity
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.runs.store import create
from fsdpctl.runs.verdict import Verdict
from fsdpctl.specs.load import parse_job, parse_profile

BEGAN = 1_790_000_000.0
PROFILE = "name: local\nbackend: local\n"


def make_run(
    run_id: str,
    steps: int = 40,
    starts: Sequence[int] = (1,),
    job: str = "entrypoint: {module: m}\n",
    values: Mapping[str, Any] | None = None,
    save_every: int = 10,
    text: str = "finished",
    state: State = State.SUCCEEDED,
) -> RunPaths:
    """Create a run of one node whose attempts start at these steps, a step a second, one minute between attempts.

    `values` are added to each line of metrics; `text` is the reason of the last verdict.
    """
    record = RunRecord.new(run_id, run_id.rpartition("-")[0], "local", "local", BEGAN - 20, 1)
    run = create(default_runs_root(), record, lambda run: None)
    spec = parse_job(f"name: {record.job}\n{job}", "j.yaml")
    plan = build_plan(parse_profile(PROFILE, "p"), spec, SubmitHost(run_id, str(run.root), "/here", "python3", ()))
    write_json(run.plan, plan)
    run.job.write_text(f"name: {record.job}\n{job}")
    run.profile.write_text(PROFILE)
    with open(run.metrics, "w", encoding="utf-8") as file:
        for number, (first, after) in enumerate(zip(starts, [*starts[1:], steps + 1], strict=True), 1):
            _make_attempt(run, number, first, after - 1, save_every)
            for step in range(first, after):
                file.write(json.dumps(_line(step, number) | dict(values or {})) + "\n")
            ends = after > steps
            verdict = Verdict(
                state if ends else State.FAILED,
                text if ends else "rank 0: killed",
                restart=not ends,
                step=after - 1,
                cause=(Cause.FINISHED if state is State.SUCCEEDED else Cause.EXCEPTION) if ends else Cause.SIGNAL,
                hosts=("alpha",),
            )
            write_json(run.attempt(number).verdict, verdict)
            os.utime(run.attempt(number).verdict, (time_of(after, number), time_of(after, number)))
    if state is State.SUCCEEDED:
        write_json(run.attempt(len(starts)).outcome, Outcome("finished", steps, summary={"held_out_loss": 2.5}))
    return run


def time_of(step: int, attempt: int) -> float:
    return BEGAN + step + 60 * (attempt - 1)


def _line(step: int, attempt: int) -> dict[str, Any]:
    return {
        "step": step,
        "loss": 2 + 3 * math.exp(-step / 20),
        "grad_norm": 1.0 + step % 3,
        "tokens_per_s": 1000.0 if step % 10 else 500.0,
        "mfu": None,
        "time": time_of(step, attempt),
        "attempt": attempt,
        "slow_ranks": {},
    }


def _make_attempt(run: RunPaths, number: int, first: int, last: int, save_every: int) -> None:
    node = run.attempt(number).node(0)
    node.root.mkdir(parents=True)
    started = time_of(first, number) - 10
    write_json(node.agent, ProcessIdentity("alpha", 1, 1, "other-boot", started))
    node.end.write_text(json.dumps({"code": 0, "reason": "", "time": time_of(last, number) + 1}))
    kind = EventKind.STARTED if number == 1 else EventKind.RESTARTED
    events = [Event(kind, started, Actor.SUPERVISOR, "started on 1 node", number)]
    events.append(Event(EventKind.ENDED, time_of(last, number) + 2, Actor.SUPERVISOR, "ended", number, step=last))
    run.attempt(number).events.write_text("".join(to_line(event) + "\n" for event in events))
    saves = [
        Event(
            EventKind.SAVED, time_of(step, number), Actor.RANK, f"step-{step:08} in 0.50 s", number, rank=0, step=step
        )
        for step in range(first, last + 1)
        if step % save_every == 0
    ]
    node.events.write_text("".join(to_line(event) + "\n" for event in saves))
