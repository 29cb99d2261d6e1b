"""Which notices a verdict calls for; and a loss that is not finite."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsdpctl.contract import Cause, State
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.verdict import Verdict
from fsdpctl.supervise.loss_watch import LOOK_EVERY_S, LossWatch
from fsdpctl.supervise.notify import occasions_of


@pytest.mark.parametrize(
    ("verdict", "occasions"),
    [
        (Verdict(State.SUCCEEDED, "x", cause=Cause.FINISHED), ("end",)),
        (Verdict(State.CANCELLED, "x", cause=Cause.CANCEL), ("end",)),
        (Verdict(State.STOPPED, "x", cause=Cause.STOP), ("end",)),
        (Verdict(State.STOPPED, "x", restart=True, cause=Cause.TIME_LIMIT), ()),
        (Verdict(State.STOPPED, "x", restart=True, cause=Cause.PREEMPTION), ("preemption",)),
        (Verdict(State.FAILED, "x", restart=True, cause=Cause.EXCEPTION), ("failure",)),
        (Verdict(State.FAILED, "x", cause=Cause.EXCEPTION), ("end", "failure")),
        (Verdict(State.LOST, "x", restart=True, cause=Cause.LOST), ("failure",)),
        (Verdict(State.FAILED, "x", cause=Cause.HANG), ("end", "failure", "hang")),
    ],
)
def test_occasions(verdict: Verdict, occasions: tuple[str, ...]) -> None:
    assert occasions_of(verdict) == occasions


def test_a_loss_that_is_not_finite_is_found_once_for_its_attempt(tmp_path: Path) -> None:
    run, now = RunPaths(tmp_path), 0.0
    watch = LossWatch(run.attempt(2), lambda: now)
    assert watch.look() is None, "there is no file yet"
    lines = [
        {"step": 4, "attempt": 1, "loss": None},
        {"step": 5, "attempt": 2, "loss": 1.0},
        {"step": 6, "attempt": 2},
    ]
    run.metrics.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    now += LOOK_EVERY_S
    assert watch.look() is None
    with run.metrics.open("a") as file:
        file.write('{"step": 7, "attempt": 2, "loss": null}\n{"step": 8, "att')
    assert watch.look() is None, "it looks now and then"
    now += LOOK_EVERY_S
    assert watch.look() == (7,)
    now += LOOK_EVERY_S
    assert watch.look() is None
