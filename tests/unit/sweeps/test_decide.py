"""Which runs start next, and which is the best."""

from __future__ import annotations

import pytest

from fsdpctl.contract import State
from fsdpctl.contract.records import Outcome
from fsdpctl.sweeps.decide import Todo, choose, todo
from fsdpctl.sweeps.record import SweptRun
from fsdpctl.sweeps.result import find_best, update
from fsdpctl.verbs.status import RunStatus

TODOS = {
    (None, False): Todo.SUBMIT,
    (State.PLANNED, False): Todo.RESUME,
    (State.QUEUED, False): Todo.WAIT,
    (State.RUNNING, True): Todo.WAIT,
    (State.RESTARTING, False): Todo.WAIT,
    (State.STOPPED, True): Todo.RESUME,
    (State.STOPPED, False): Todo.NOTHING,
    (State.SUCCEEDED, True): Todo.NOTHING,
    (State.FAILED, True): Todo.NOTHING,
    (State.CANCELLED, True): Todo.NOTHING,
    (State.LOST, True): Todo.NOTHING,
}


@pytest.mark.parametrize(("seen", "expected"), TODOS.items())
def test_what_is_to_be_done(seen: tuple[State | None, bool], expected: Todo) -> None:
    assert todo(seen[0], was_stopped=seen[1]) is expected


def test_no_more_than_allowed_are_alive() -> None:
    todos = [Todo.NOTHING, Todo.WAIT, Todo.SUBMIT, Todo.RESUME, Todo.WAIT, Todo.SUBMIT]
    assert choose(todos, None) == [2, 3, 5]
    assert [choose(todos, at_once) for at_once in (1, 2, 3, 4, 9)] == [[], [], [2], [2, 3], [2, 3, 5]]


def run(run_id: str, state: State | None, loss: float | None, held_out: float | None = None) -> SweptRun:
    return SweptRun(run_id, run_id, {}, state, loss=loss, held_out_loss=held_out)


def test_the_best_has_the_lowest_held_out_loss_of_those_that_succeeded() -> None:
    a, b = run("a", State.SUCCEEDED, 1.0, 3.0), run("b", State.SUCCEEDED, 2.0, 2.5)
    failed, script = run("f", State.FAILED, 0.1, 0.1), run("s", State.SUCCEEDED, 0.5)
    assert find_best([a, b, failed, script]) == "b"
    assert find_best([script, run("t", State.SUCCEEDED, 0.4), failed]) == "t"
    assert find_best([failed, run("n", None, None)]) is None


def test_a_loss_that_is_not_finite_is_never_the_best() -> None:
    nan, inf = float("nan"), float("inf")
    assert find_best([run("n", State.SUCCEEDED, 1.0, nan), run("b", State.SUCCEEDED, 2.0, 2.5)]) == "b"
    assert (
        find_best([run("n", State.SUCCEEDED, nan), run("i", State.SUCCEEDED, inf), run("b", State.SUCCEEDED, 9.0)])
        == "b"
    )
    assert find_best([run("n", State.SUCCEEDED, nan, nan)]) is None


def test_a_loss_that_is_not_finite_is_stored_as_none() -> None:
    nan = float("nan")
    outcome = Outcome("finished", 3, summary={"held_out_loss": nan})
    seen = RunStatus("a", "a", State.SUCCEEDED, "", 1, 3, 3, nan, None, outcome, 1, 0.0, "/runs/a")
    found = update(run("a", State.RUNNING, 1.0), seen)
    assert (found.state, found.loss, found.held_out_loss) == (State.SUCCEEDED, None, None)
