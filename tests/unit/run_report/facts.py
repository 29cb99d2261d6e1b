"""A run of an hour without anything to change, of which tests change one fact."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

from fsdpctl.contract import Cause, Phase, State
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.ledger.account import Interval, Ledger, TimeUse
from fsdpctl.run_report.facts import Attempt, Checkpoint, Code, Facts, Steps
from fsdpctl.specs.load import parse_job, parse_profile

HOST = SubmitHost("mine-aaaa", "/runs/mine-aaaa", "/here", "python3", ())
PLAN = build_plan(
    parse_profile("name: local\nbackend: local\n", "p"), parse_job("name: mine\nentrypoint: {module: m}\n", "j"), HOST
)
STEPS = Steps(
    count=3600,
    first=1,
    last=3600,
    step_s=1.0,
    tokens_per_s=1000.0,
    mfu=0.45,
    first_loss=5.0,
    last_loss=2.0,
    lowest_loss=1.9,
    num_saves=4,
    save_stall_s=0.5,
    tokens=3_600_000,
    skipped=0,
)
ATTEMPT = Attempt(1, 0.0, 3600.0, 1, 3600, State.SUCCEEDED, Cause.FINISHED, "finished", ("alpha",))


def ledger_of(**seconds: float) -> Ledger:
    """Return the ledger of uses that follow each other."""
    ends = list(accumulate(seconds.values(), initial=0.0))
    parts = zip(seconds, pairwise(ends), strict=True)
    return Ledger(tuple(Interval(TimeUse(use), begin, end, 1) for use, (begin, end) in parts), knows_steps=True)


GOOD = Facts(
    run_id="mine-aaaa",
    job="mine",
    profile="local",
    backend="local",
    state=State.SUCCEEDED,
    phase=Phase.ENDED,
    cause=Cause.FINISHED,
    reason="finished at step 3600",
    directory="/runs/mine-aaaa",
    submitted=0.0,
    read_at=4000.0,
    job_id=None,
    total_steps=3600,
    plan=PLAN,
    configuration={},
    code=Code(None, "", {}),
    attempts=(ATTEMPT,),
    nodes=(),
    ledger=ledger_of(step=3528.0, start=72.0),
    steps=STEPS,
    outcome={},
    curves=None,
    events=(),
    gpus=(),
    energy_kwh=None,
    slow_ranks=(),
    checkpoints=(Checkpoint("step-00003600", 3600, 2**20, 3600.0, 0.5, ""),),
    explanation=None,
)


def with_steps(**values: Any) -> Facts:
    return replace(GOOD, steps=replace(STEPS, **values))


def on_gpus(facts: Facts, number: int = 8) -> Facts:
    return replace(facts, plan=replace(PLAN, device="cuda", procs_per_node=number))
