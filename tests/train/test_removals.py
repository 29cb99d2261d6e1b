"""Removing beside training: in order, counted until done, and never the end of anything."""

from __future__ import annotations

import threading
import time

import pytest

from train.checkpoint.removals import Removals


def test_requests_are_done_in_order_beside_the_caller() -> None:
    removals, gate, done = Removals(), threading.Event(), list[int]()
    removals.request(lambda: gate.wait(30))
    for number in range(3):
        removals.request(lambda number=number: done.append(number))  # type: ignore[misc]
    began = time.monotonic()
    removals.wait(0.1)
    assert removals.outstanding == 4 and time.monotonic() - began >= 0.1
    removals.wait(0, at_most=4)
    gate.set()
    removals.wait(30)
    assert (removals.outstanding, done) == (0, [0, 1, 2])


def test_one_that_fails_is_logged_and_the_next_one_is_tried(caplog: pytest.LogCaptureFixture) -> None:
    removals, done = Removals(), threading.Event()

    def fail() -> None:
        raise PermissionError(1, "Operation not permitted", "/runs/step-00000004")

    for request in (fail, done.set):
        removals.request(request)
        removals.wait(30)  # so that the second one needs another thread
    assert done.is_set()
    assert caplog.messages == ["not removed: [Errno 1] Operation not permitted: '/runs/step-00000004'"]
