"""`fsdpctl report` of runs as they are on disk, and the short form of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.cli.report import report
from fsdpctl.contract import Cause, State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import UsageError
from fsdpctl.run_report.read import read_facts
from fsdpctl.run_report.steps import measure_save_stall
from fsdpctl.runs.record import Submission
from fsdpctl.runs.store import read_record
from fsdpctl.verbs.status import read_status
from tests.backends.harness import COMMAND, fsdpctl
from tests.processor_time import command_done_within
from tests.testbed.disks import Mount
from tests.unit.ended_runs import make_run, time_of


def call(*words: str, code: int = 0, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    done = fsdpctl(*words, cwd=cwd or Path.cwd(), expect=None)
    assert done.returncode == code, done
    return done


def test_facts_are_those_of_the_run_directory() -> None:
    run = make_run("mine-aaaa", steps=40, starts=(1, 21))
    facts = read_facts(run, read_status(run))
    assert [(one.number, one.first_step, one.last_step, one.seconds) for one in facts.attempts] == [
        (1, 1, 20, 30.0),
        (2, 21, 40, 30.0),
    ]
    assert facts.steps is not None
    assert (facts.steps.count, facts.steps.step_s, facts.steps.num_saves, facts.steps.save_stall_s) == (40, 1.0, 4, 0.0)
    assert facts.outcome == {"held_out_loss": 2.5}
    assert (facts.explanation, facts.repeated_steps) == (None, 0)
    brief = read_facts(run, read_status(run), is_brief=True)
    assert brief.steps is None and brief.used_s == facts.used_s == 60.0


def test_an_attempt_that_was_lost_before_a_resume_does_not_run() -> None:
    run = make_run("mine-aaaa", steps=40, starts=(1, 21))
    for number in (1, 2):
        run.attempt(number).verdict.unlink()
        run.attempt(number).node(0).end.unlink()
        heartbeat = run.attempt(number).node(0).heartbeat
        heartbeat.touch()
        os.utime(heartbeat, (time_of(20 * number, number),) * 2)
    run.attempt(2).outcome.unlink()
    record = read_record(run)
    submissions = (*record.submissions, Submission("resume", time_of(21, 2) - 10, 1, 2))
    write_json(run.record, replace(record, submissions=submissions))
    facts = read_facts(run, replace(read_status(run), state=State.RUNNING))
    lost, newest = facts.attempts
    assert (lost.state, lost.cause, lost.last_step, lost.seconds) == (State.LOST, Cause.LOST, None, 29.0)
    assert (newest.state, newest.last_step, facts.repeated_steps) == (None, 40, 0)
    for state in (State.LOST, State.QUEUED):  # queued: Slurm has requeued it
        newest = read_facts(run, replace(read_status(run), state=state)).attempts[1]
        assert (newest.state, newest.seconds) == (State.LOST, 29.0), "without a process it does not run either"


def test_a_stall_is_what_saves_add_to_their_steps() -> None:
    durations = dict.fromkeys(range(1, 40), 1.0) | {10: 3.0, 21: 2.0, 30: 2.5}
    assert measure_save_stall(durations, [10, 20, 30]) == 1.5
    assert measure_save_stall(durations, [10]) is None
    assert measure_save_stall({}, [10, 20]) is None


def test_a_failed_run_is_reported_in_each_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run("mine-aaaa", state=State.FAILED, text="rank 0: <script>")
    assert "FAILED: rank 0: <script>" in call("report").stdout
    for name, start in (("a.html", "<!DOCTYPE html>"), ("a.md", "# mine-aaaa"), ("a.txt", "mine-aaaa\n")):
        report(out=tmp_path / name)
        assert capsys.readouterr().err == f"written to {tmp_path / name}\n"
        text = (tmp_path / name).read_text()
        assert text.startswith(start) and ("<script>" in text) == (name == "a.txt")
    report(form="md")
    assert capsys.readouterr().out == (tmp_path / "a.md").read_text()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    make_run("mine-aaaa")
    with pytest.raises(UsageError, match="shows no format"):
        report(out=tmp_path / "a.doc")
    with pytest.raises(UsageError, match="cannot write"):
        report(out=tmp_path / "no" / "a.md")
    with pytest.raises(UsageError, match="without --format"):
        report(form="md", as_json=True)


def test_a_run_that_has_hardly_begun_or_is_damaged_has_a_report() -> None:
    run = make_run("mine-aaaa", steps=0)
    for path in (run.plan, run.metrics, run.job, run.profile):
        path.write_text("{")
    run.attempt(1).node(0).heartbeat.write_text("[")
    assert "SUCCEEDED" in call("report").stdout


def test_a_run_that_was_never_started_has_a_report() -> None:
    run = make_run("mine-aaaa", steps=3)
    shutil.rmtree(run.attempts_root)
    run.metrics.unlink()
    shown = call("report").stdout
    assert "PLANNED" in shown and "Curves" not in shown and "Attempts" not in shown
    assert "used" not in call("status").stdout


def test_status_of_an_ended_run_has_what_it_used_and_a_note() -> None:
    make_run("mine-aaaa", steps=40, starts=(1, 21))
    shown = call("status").stdout
    assert "used       0:01:00 on 1 node: 0.02 node hours, 0.03 rank hours\n" in shown
    assert "note       1 attempt failed (signal): " in shown
    facts = json.loads(call("report", "--json").stdout)
    assert [note["docs"] for note in facts["notes"]] == ["docs/restarts.md"]
    assert facts["attempts"][0]["cause"] == "signal"


@pytest.mark.slow
def test_a_report_of_a_hundred_thousand_steps_is_quick_and_small(tmp_path: Path) -> None:
    run: RunPaths = make_run("mine-aaaa", steps=1)
    line = run.metrics.read_text().partition('"loss": ')[2].partition(",")[2]
    lines = (f'{{"step": {step}, "loss": {step % 977}.5,{line}' for step in range(100_000))
    run.metrics.write_text("".join(lines))
    with open(run.attempt(1).node(0).events, "a", encoding="utf-8") as events:
        for step in range(0, 100_000, 100):
            values = {"kind": "saved", "time": 1.79e9 + step, "who": "rank", "text": "x", "step": step}
            events.write(json.dumps(values) + "\n")
    page = tmp_path / "a.html"
    command_done_within(3.0, [COMMAND, "report", "-o", page], os.environ)  # 1.4 s on an idle machine
    assert 10_000 < page.stat().st_size < 2 * 10**6


def test_an_older_report_stays_where_the_new_one_cannot_be_written(small_disk: Mount) -> None:
    make_run("mine-aaaa")
    out = small_disk.path / "run.html"
    out.write_text("older")
    small_disk.fill(leave=0)
    for words in (("report", "-o", str(out)), ("metrics", "-o", str(out.with_suffix(".svg")))):
        assert "cannot write" in call(*words, code=2).stderr
    assert out.read_text() == "older"
    assert sorted(path.name for path in small_disk.path.iterdir()) == ["ballast", "run.html"]
