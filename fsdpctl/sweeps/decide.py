"""Which runs of a sweep to start now. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from fsdpctl.contract import State


class Todo(StrEnum):
    """What is to be done for a run."""

    SUBMIT = "submit"
    RESUME = "resume"
    WAIT = "wait"  # it is alive
    NOTHING = "nothing"  # it has a result


def todo(state: State | None, *, was_stopped: bool) -> Todo:
    """Return what is to be done for a run in this state; None: it does not exist.

    `was_stopped`: before this command, which continues the sweep. What another command stops later stays stopped.
    """
    if state is None:
        return Todo.SUBMIT
    if state.is_alive:
        return Todo.WAIT
    if state is State.PLANNED or (state is State.STOPPED and was_stopped):
        return Todo.RESUME
    return Todo.NOTHING


def choose(todos: Sequence[Todo], at_once: int | None) -> list[int]:
    """Return which runs to start now, in their order: no more than `at_once` may be alive."""
    waiting = [number for number, what in enumerate(todos) if what in (Todo.SUBMIT, Todo.RESUME)]
    free = len(waiting) if at_once is None else max(0, at_once - todos.count(Todo.WAIT))
    return waiting[:free]
