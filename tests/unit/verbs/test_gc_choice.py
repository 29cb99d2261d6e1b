"""Which runs are old: by age, number and size, and what is done to them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsdpctl.verbs.gc_choice import HAS_OTHER_FILES, Action, Limits, OldRun, choose

DAY = 86_400.0
NOW = 100 * DAY


def run(name: str, age_days: float, *, size: int = 10, prunable: int = 0, has: bool = False, why: str = "") -> OldRun:
    return OldRun(name, name.partition("-")[0], NOW - age_days * DAY, size, prunable, has, why)


RUNS = [
    run("a-1", 50),
    run("a-2", 40, has=True, prunable=6),
    run("a-3", 5),
    run("b-1", 60, why="it is pinned"),
    run("b-2", 45, has=True),
    run("b-3", 1),
]


@pytest.mark.parametrize(
    ("limits", "removed", "pruned"),
    [
        (Limits(older_than_s=30 * DAY), ["a-1"], ["a-2"]),
        (Limits(older_than_s=45.5 * DAY), ["a-1"], []),
        (Limits(), ["a-1", "a-3", "b-3"], ["a-2"]),
        (Limits(keep=1), ["a-1"], ["a-2"]),
        (Limits(keep=2), ["a-1"], []),
        (Limits(keep=3), [], []),
        (Limits(older_than_s=2 * DAY, keep=0), ["a-1", "a-3"], ["a-2"]),
        (Limits(max_bytes=60), [], []),
        (Limits(max_bytes=59), ["a-1"], []),
        (Limits(max_bytes=49), ["a-1"], ["a-2"]),
        (Limits(max_bytes=43), ["a-1", "a-3"], ["a-2"]),
        (Limits(max_bytes=0), ["a-1", "a-3", "b-3"], ["a-2"]),
        (Limits(older_than_s=30 * DAY, max_bytes=0), ["a-1"], ["a-2"]),
    ],
)
def test_limits(limits: Limits, removed: list[str], pruned: list[str]) -> None:
    choices = choose(RUNS, limits, NOW)
    assert [choice.run.run_id for choice in choices] == ["b-1", "a-1", "b-2", "a-2", "a-3", "b-3"]
    assert [choice.run.run_id for choice in choices if choice.action is Action.REMOVE] == removed
    assert [choice.run.run_id for choice in choices if choice.action is Action.PRUNE] == pruned
    assert all(choice.freed == 0 for choice in choices if choice.action is Action.KEEP)


def test_reasons() -> None:
    reasons = {choice.run.run_id: choice.reason for choice in choose(RUNS, Limits(older_than_s=30 * DAY), NOW)}
    assert reasons["b-1"] == "it is pinned" and reasons["b-2"] == "its only complete checkpoint is in it"
    assert reasons["a-3"] == "it ended later than --older-than"


@pytest.mark.parametrize(("has_checkpoint", "action"), [(False, Action.KEEP), (True, Action.PRUNE)])
def test_a_run_without_checkpoints_stays_with_files_of_its_script(has_checkpoint: bool, action: Action) -> None:
    one = replace(run("a-1", 50, has=has_checkpoint, prunable=6), has_other_files=True)
    [choice] = choose([one], Limits(), NOW)
    assert choice.action is action and (choice.reason == HAS_OTHER_FILES) is not has_checkpoint
