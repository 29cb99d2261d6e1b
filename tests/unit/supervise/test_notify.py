"""Which notices a verdict calls for, and their process."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.contract import Cause, State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.events import EventKind
from fsdpctl.contract.notify import Notice, NotifyTarget
from fsdpctl.contract.paths import RunPaths
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.runs.events import notice_events
from fsdpctl.runs.verdict import Verdict
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.supervise.notify import RESEND_WITHIN_S, Notifier, occasions_of


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


def test_a_requeued_run_has_failed_where_its_attempt_has() -> None:
    verdict = Verdict(State.STOPPED, "x", restart=True, cause=Cause.LOST)
    assert (occasions_of(verdict), occasions_of(verdict, has_failed=True)) == ((), ("failure",))


def make_run(root: Path) -> tuple[RunPaths, Notifier]:
    target = NotifyTarget(("end",), 3600, command=("sh", "-c", "cat >> got.json"))
    host = SubmitHost("r", str(root), "/", sys.executable, (), (target,))
    plan = build_plan(load_profile("local"), load_job("llm-tiny"), host)
    run = RunPaths(root)
    run.attempt(1).root.mkdir(parents=True)
    write_json(run.plan, plan)
    return run, Notifier(run, plan)


def titles(run: RunPaths) -> list[str]:
    return [json.loads(line)["title"] for line in (run.root / "got.json").read_text().splitlines()]


def test_a_notice_is_sent_once_and_leaves_no_file(tmp_path: Path) -> None:
    run, notifier = make_run(tmp_path)
    notifier.verdict(run.attempt(1), Verdict(State.FAILED, "x" * 200_000, restart=True))
    assert not run.pending_notices(), "no target wants it"
    notifier.verdict(run.attempt(1), Verdict(State.SUCCEEDED, "x" * 200_000, cause=Cause.FINISHED))
    assert len(run.pending_notices()) == 1
    notifier.wait(60)
    assert titles(run) == ["fsdpctl: r SUCCEEDED"] and not run.pending_notices()
    notifier.resend()
    notifier.wait(60)
    assert len(titles(run)) == 1 and [event.kind for event in notice_events(run)] == [EventKind.NOTICE_SENT]


def test_what_a_killed_process_was_sending_is_sent_by_the_next_supervisor(tmp_path: Path) -> None:
    run, notifier = make_run(tmp_path)
    notice = Notice(("end",), "r", "mine", str(run.root), time.time(), 1, State.STOPPED)
    write_json(run.pending_notice(2), notice)
    write_json(run.pending_notice(1), replace(notice, run_id="old", time=notice.time - 2 * RESEND_WITHIN_S))
    run.pending_notice(3).write_text("{")
    notifier.resend()
    notifier.wait(60)
    assert titles(run) == ["fsdpctl: r STOPPED"] and not run.pending_notices()


def test_a_pending_notice_that_cannot_be_read_prevents_neither_others_nor_the_run(tmp_path: Path) -> None:
    run, notifier = make_run(tmp_path)
    run.pending_notice(1).mkdir()
    write_json(run.pending_notice(2), Notice(("end",), "r", "mine", str(run.root), time.time(), 1, State.STOPPED))
    notifier.resend()
    notifier.wait(60)
    assert titles(run) == ["fsdpctl: r STOPPED"] and run.pending_notices() == [run.pending_notice(1)]
