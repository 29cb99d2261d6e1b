"""A host is lost that gives no answer while another one does and the run makes no progress."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from fsdpctl.backends.ssh.liveness import (
    DOUBT_S,
    LOOK_EVERY_S,
    RECENT,
    STALL_FACTOR,
    LastSeen,
    StallTimer,
    describe_unanswered,
    find_lost,
    stall_limit_s,
)
from fsdpctl.contract.paths import RunPaths

LONG = STALL_FACTOR * 5 + 0.1


def look(
    unanswered_s: Mapping[int, float],
    stalled_s: float = LONG,
    longest_s: float | None = None,
    ended: Collection[int] = (),
) -> int | None:
    return find_lost(unanswered_s, stalled_s, longest_s, 5.0, lambda rank: rank in ended)


@pytest.mark.parametrize(
    ("unanswered_s", "stalled_s", "lost"),
    [
        ({0: 0.0, 1: 1.0}, LONG, None),
        ({0: 0.0, 1: 5.1}, LONG, 1),
        ({0: 9.0, 1: 0.0}, LONG, 0),
        ({0: 0.0, 1: 99.0}, 1.0, None),  # only ssh is broken: the run makes progress
        ({0: 99.0, 1: 99.0}, 99.0, None),  # this machine is cut off
        ({0: 99.0}, 99.0, None),  # one host: it or this machine is cut off
    ],
)
def test_find_lost(unanswered_s: dict[int, float], stalled_s: float, lost: int | None) -> None:
    assert look(unanswered_s, stalled_s) == lost


@pytest.mark.parametrize(
    ("unanswered_s", "ended", "lost"),
    [
        ({0: 9.0, 1: 0.0}, {0}, None),
        ({0: 9.0, 1: 0.0, 2: 9.0}, {0}, 2),  # another host that was switched off hides nothing
        ({0: 0.0, 1: 9.0}, {0}, 1),  # its answer counts
    ],
)
def test_a_node_that_has_ended_is_not_lost(unanswered_s: dict[int, float], ended: set[int], lost: int | None) -> None:
    assert look(unanswered_s, ended=ended) == lost


@pytest.mark.parametrize(
    ("unanswered_s", "reported"),
    [
        ({0: 0.0, 1: DOUBT_S}, None),
        ({0: 0.0, 1: DOUBT_S + 0.1}, "no answer from b"),
        ({0: 0.0, 1: 9.0, 2: 9.0}, "no answer from b, c"),
        ({0: 9.0, 1: 9.0}, "no host answers"),
        ({0: 9.0}, "no answer from a"),
    ],
)
def test_hosts_without_an_answer_are_reported(unanswered_s: dict[int, float], reported: str | None) -> None:
    assert describe_unanswered(unanswered_s, {0: "a", 1: "b", 2: "c"}) == reported


def test_the_time_for_a_first_answer_does_not_count() -> None:
    now = [0.0]
    last_seen = LastSeen((0, 1), 5.0, late_s=3.0, clock=lambda: now[0])
    now[0] = 3.0
    assert last_seen.seconds() == {0: 0.0, 1: 0.0}
    now[0] = 9.0
    last_seen.mark_alive(0)
    last_seen.expect(1)  # a spare
    now[0] = 12.0
    assert last_seen.seconds() == {0: 0.0, 1: 0.0}
    now[0] = 14.0
    assert last_seen.seconds() == {0: 2.0, 1: 2.0}


def test_the_first_host_to_answer_after_a_cut_does_not_make_the_others_look_lost() -> None:
    now = [0.0]
    last_seen = LastSeen((0, 1), 5.0, late_s=3.0, clock=lambda: now[0])
    now[0] = 25.0
    assert look(last_seen.seconds()) is None, "this machine is cut off"
    last_seen.mark_alive(0)
    assert look(last_seen.seconds()) is None, "the other one may be the next to answer"
    for unanswered_s in (0.0, 1.0, 3.0, 5.0):
        now[0] += 2.0
        last_seen.mark_alive(0)
        assert last_seen.seconds() == {0: 0.0, 1: unanswered_s}
        assert look(last_seen.seconds()) is None
    now[0] += 2.0
    last_seen.mark_alive(0)
    assert look(last_seen.seconds()) == 1


@pytest.mark.parametrize(
    ("longest_s", "limit_s"),
    [
        (None, 20.0),  # it may still compile
        (0.3, 10.0),  # after an outage of 5 s, connections are used again within 10 s
        (7.0, 14.0),  # saves take so long
        (60.0, 20.0),
    ],
)
def test_a_run_with_short_pauses_is_stalled_sooner(longest_s: float | None, limit_s: float) -> None:
    assert stall_limit_s(longest_s, 5.0) == limit_s
    unanswered_s = {0: 0.0, 1: 99.0}
    assert look(unanswered_s, limit_s, longest_s) is None
    assert look(unanswered_s, limit_s + 0.1, longest_s) == 1


def test_the_longest_recent_pause_is_known_after_some_writes(tmp_path: Path) -> None:
    run, now = RunPaths(tmp_path), [0.0]
    stall = StallTimer(run, run.attempt(1), clock=lambda: now[0])
    for stamp, pause in enumerate([30.0, *[1.0] * (RECENT - 2), 4.0], start=1):
        assert stall.longest_s is None
        now[0] += pause
        run.metrics.touch()
        os.utime(run.metrics, ns=(stamp, stamp))
        stall.seconds()
    assert stall.longest_s == 30.0, "the start counts while it is recent"
    now[0] += 1.0
    os.utime(run.metrics, ns=(999, 999))
    stall.seconds()
    assert stall.longest_s == 4.0


def test_a_stall_is_the_time_since_anything_was_written(tmp_path: Path) -> None:
    run, now = RunPaths(tmp_path), [0.0]
    attempt = run.attempt(1)
    attempt.node(1).root.mkdir(parents=True)
    stall = StallTimer(run, attempt, clock=lambda: now[0])
    for stamp, path in enumerate([run.metrics, attempt.node(1).rank_log(3), attempt.node(1).rank_progress(3)], start=1):
        now[0] += 7
        assert stall.seconds() == 7
        path.touch()
        os.utime(path, ns=(stamp, stamp))
        now[0] += LOOK_EVERY_S - 0.1
        assert stall.seconds() > 7, "asked often, it looks once a second"
        now[0] += 0.1
        assert stall.seconds() == 0
