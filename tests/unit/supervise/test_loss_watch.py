"""The supervisor's look at the loss of an attempt: each finding once, and those of older attempts never."""

from __future__ import annotations

import json
from pathlib import Path

from fsdpctl.contract.events import EventKind
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.events import add_event
from fsdpctl.supervise.loss_watch import LOOK_EVERY_S, MOST_BYTES, QUIET_S, LossFinding, LossWatch


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Watched:
    """A run whose attempt is watched."""

    def __init__(self, root: Path, attempt: int = 2, first_attempt: int = 1) -> None:
        self.run, self.clock, self.number = RunPaths(root), Clock(), attempt
        self.attempt = self.run.attempt(attempt)
        self.attempt.root.mkdir(parents=True, exist_ok=True)
        self.watch = LossWatch(self.attempt, first_attempt, self.clock)

    def log(self, first_step: int, *losses: float | None, attempt: int | None = None) -> None:
        with self.run.metrics.open("a") as file:
            for step, loss in enumerate(losses, first_step):
                file.write(json.dumps({"step": step, "attempt": attempt or self.number, "loss": loss}) + "\n")

    def look(self, after_s: float = LOOK_EVERY_S) -> list[LossFinding]:
        self.clock.now += after_s
        return self.watch.look()


def test_a_loss_that_is_not_finite_is_found_once_for_its_attempt(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    assert watched.look() == [], "there is no file yet"
    watched.log(4, None, attempt=1)
    watched.log(5, 1.0)
    with watched.run.metrics.open("a") as file:
        file.write('{"step": 6, "attempt": 2}\n')
    assert watched.look() == []
    with watched.run.metrics.open("a") as file:
        file.write('{"step": 7, "attempt": 2, "loss": NaN}\n{"step": 8, "att')
    assert watched.look(after_s=0) == [], "it looks now and then"
    (found,) = watched.look()
    assert (found.kind, found.step) == (EventKind.NON_FINITE_LOSS, 7)
    assert found.occasions == ("non_finite_loss", "spike") and found.text == "the loss of step 7 is not finite"
    with watched.run.metrics.open("a") as file:
        file.write('empt": 2, "loss": null}\n')
    assert watched.look() == []
    add_event(watched.attempt, found.text, found.kind, step=found.step)
    assert Watched(tmp_path).look() == [], "a supervisor that was started again"


def test_the_last_look_finds_what_was_logged_just_before_the_end(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.log(1, 2.0)
    assert watched.look() == []
    watched.log(2, None)
    assert watched.look(after_s=0) == []
    assert [found.step for found in watched.watch.look(is_last=True)] == [2]


def test_a_spike_is_found_once_and_not_again_where_a_restart_repeats_it(tmp_path: Path) -> None:
    watched = Watched(tmp_path, attempt=1)
    watched.log(1, *[2.0] * 100)
    assert watched.look() == []
    watched.log(101, 2.0, 5.0, 6.0, 7.0, 7.0)
    (found,) = watched.look()
    assert (found.kind, found.occasions, found.step) == (EventKind.LOSS_SPIKE, ("spike",), 102)
    assert found.text == "the loss of step 102 is 5, and was about 2 before"
    add_event(watched.attempt, found.text, found.kind, step=found.step)
    assert Watched(tmp_path, attempt=1).look() == [], "a supervisor that was started again"

    second = Watched(tmp_path)
    second.log(90, *[2.0] * 12, 5.0, 6.0, 7.0)
    assert second.look() == []
    resumed = Watched(tmp_path, attempt=3, first_attempt=3)
    resumed.log(90, *[2.0] * 12, 5.0, 6.0, 7.0)
    assert [found.step for found in resumed.look()] == [102], "of another submission"


def test_spikes_are_not_reported_in_quick_succession(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.log(1, *[2.0] * 100, 9.0, 9.0, 9.0)
    assert len(watched.look()) == 1
    watched.log(104, *[2.0] * 30, 9.0, 9.0, 9.0)
    assert watched.look() == []
    watched.log(140, *[2.0] * 30, 9.0, 9.0, 9.0)
    assert len(watched.look(after_s=QUIET_S)) == 1


def test_any_file_is_read_and_of_a_long_one_the_end(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.run.metrics.mkdir()
    assert watched.look() == []
    watched.run.metrics.rmdir()
    watched.run.metrics.write_bytes(b"\xff\n[1]\n{}\n" + b"x" * MOST_BYTES + b"\n")
    assert watched.look() == []
    for first in range(0, 2000, 100):
        watched.log(first, *[2.0] * 100)
    watched.log(2000, 9.0, 9.0, 9.0)
    assert [found.step for found in watched.look()] == [2000]
    watched.run.metrics.write_text("")
    assert watched.look() == []
    with watched.run.metrics.open("a") as file:
        file.write('{"step": 1, "loss": null}\n')
    assert [found.kind for found in watched.look()] == [EventKind.NON_FINITE_LOSS], "without an attempt"
