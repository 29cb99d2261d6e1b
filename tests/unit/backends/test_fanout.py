"""The limit of hosts at a time, the retry, and one result per host."""

from __future__ import annotations

import threading

import pytest

from fsdpctl.backends.fanout import TRIES, HostError, fan_out, retry


def test_the_window_is_full_but_never_wider() -> None:
    lock, full = threading.Lock(), threading.Event()
    active = peak = 0

    def act(item: int) -> int:
        nonlocal active, peak
        with lock:
            active += 1
            peak = max(peak, active)
            if active == 4:
                full.set()
        assert full.wait(10), "the window was never full"
        with lock:
            active -= 1
        return item * 10

    results = fan_out(range(12), act, window=4)
    assert [result.value for result in results] == [n * 10 for n in range(12)]
    assert peak == 4


def test_one_bad_host_is_one_result() -> None:
    def act(item: int) -> int:
        if item == 1:
            raise HostError("host 1 is down")
        return item

    results = fan_out([0, 1, 2], act)
    assert [result.value for result in results] == [0, None, 2]
    assert [str(result.error) if result.error else None for result in results] == [None, "host 1 is down", None]


def test_a_bug_is_no_host_error() -> None:
    with pytest.raises(ZeroDivisionError):
        fan_out([0, 1], lambda item: 1 // item)


def test_only_dropped_connections_are_tried_again_with_growing_pauses() -> None:
    pauses: list[float] = []
    calls: list[HostError] = []

    def act(error: HostError) -> None:
        calls.append(error)
        raise error

    with pytest.raises(HostError):
        retry(lambda: act(HostError("busy", dropped=True)), sleep=pauses.append)
    assert len(calls) == TRIES and len(pauses) == TRIES - 1
    assert all(0.5 * 0.3 * 2**n <= pause <= 1.5 * 0.3 * 2**n for n, pause in enumerate(pauses))
    calls.clear()
    with pytest.raises(HostError):
        retry(lambda: act(HostError("wrong key")), sleep=pauses.append)
    assert len(calls) == 1
