"""How much of a run's time made progress, and where each attempt begins in metrics.jsonl."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.contract import State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.records import ProcessIdentity
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.runs.metrics import Span, attempt_spans
from fsdpctl.runs.progress import measure_progress_share
from fsdpctl.runs.record import RunRecord, Submission
from fsdpctl.runs.verdict import Verdict
from tests.processor_time import done_within

BEGAN = 1_795_000_000.0


@pytest.mark.parametrize("seed", range(40))
def test_the_span_of_each_attempt_is_found_by_bisection(seed: int, tmp_path: Path) -> None:
    choose, metrics, now, lines, spans = random.Random(seed), tmp_path / "metrics.jsonl", 0.0, [], []
    for attempt in range(1, choose.randrange(2, 9)):
        steps = choose.choice([0, 1, 1, 2, 3, 60])
        for _ in range(steps):
            now += 1
            lines.append(json.dumps({"attempt": attempt, "time": now, "x": "y" * choose.randrange(300)}))
            lines += ["{broken"] if choose.random() < 0.05 else []
        spans += [Span(attempt, now - steps + 1, now)] if steps else []
    metrics.write_text("".join(f"{line}\n" for line in lines) + choose.choice(["", '{"attempt": 9, "ti']))
    assert attempt_spans(metrics) == spans


def test_a_million_lines_are_not_read(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    with metrics.open("w") as file:
        for attempt in (1, 2, 3):
            line = json.dumps({"attempt": attempt, "time": 1.0 * attempt, "x": "y" * 100})
            file.write(f"{line}\n" * 100_000)
    assert [span.attempt for span in done_within(0.1, lambda: attempt_spans(metrics))] == [1, 2, 3]


@pytest.mark.parametrize("lines", [[], [{"step": 1}], [{"step": 1, "time": "x", "attempt": 1}]])
def test_a_script_without_times_or_attempts_has_no_spans(lines: list[dict[str, object]], tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert attempt_spans(tmp_path / "metrics.jsonl") == []
    assert attempt_spans(tmp_path / "absent") == []


def make_run(root: Path, attempts: list[tuple[float, float, float, float | None]]) -> RunPaths:
    """Return a run whose attempts (start, first step, last step, end) are given in seconds."""
    run = RunPaths(root)
    with run.metrics.open("w") as file:
        for number, (start, first, last, end) in enumerate(attempts, 1):
            node = run.attempt(number).node(0)
            node.root.mkdir(parents=True)
            write_json(node.agent, ProcessIdentity("vm", 1, 1, "b", BEGAN + start))
            for at in (first, last):
                file.write(json.dumps({"attempt": number, "time": BEGAN + at}) + "\n")
            if end is not None:
                write_json(run.attempt(number).verdict, Verdict(State.FAILED, "x", restart=True))
                os.utime(run.attempt(number).verdict, (BEGAN + end, BEGAN + end))
    return run


def test_starts_and_restarts_are_no_progress_and_time_between_submissions_does_not_count(tmp_path: Path) -> None:
    run = make_run(tmp_path, [(0, 10, 40, 45), (50, 60, 90, 100), (5000, 5010, 5040, None)])
    record = RunRecord.new("r", "r", "local", "local", BEGAN, 1)
    facts = RunFacts(run, record)
    running = measure_progress_share(facts, BEGAN + 200)
    assert running is not None and (running.share, running.elapsed_s) == (90 / 200, 200)
    resumed = RunRecord(**{**vars(record), "submissions": (*record.submissions, Submission("resume", BEGAN, 1, 3))})
    found = measure_progress_share(RunFacts(run, resumed), BEGAN + 5050)
    assert found is not None and (found.share, found.elapsed_s) == (90 / 150, 150)


def test_an_ended_run_is_measured_up_to_its_last_verdict(tmp_path: Path) -> None:
    record = RunRecord.new("r", "r", "local", "local", BEGAN, 1)
    found = measure_progress_share(RunFacts(make_run(tmp_path, [(0, 10, 40, 50)]), record), None)
    assert found is not None and (found.share, found.elapsed_s) == (30 / 50, 50)


def test_a_lost_submission_is_measured_up_to_its_last_sign_of_life(tmp_path: Path) -> None:
    run = make_run(tmp_path, [(0, 10, 40, None), (5000, 5010, 5040, None)])
    heartbeat = run.attempt(1).node(0).heartbeat
    heartbeat.touch()
    os.utime(heartbeat, (BEGAN + 50, BEGAN + 50))
    record = RunRecord.new("r", "r", "local", "local", BEGAN, 1)
    submissions = (*record.submissions, Submission("resume", BEGAN, 1, 2))
    facts = RunFacts(run, replace(record, submissions=submissions))
    found = measure_progress_share(facts, BEGAN + 5050)
    assert found is not None and (found.share, found.elapsed_s) == (60 / 100, 100)
    write_json(run.attempt(1).verdict, Verdict(State.LOST, "x"))
    os.utime(run.attempt(1).verdict, (BEGAN + 5000, BEGAN + 5000))  # by the next job
    assert measure_progress_share(facts, BEGAN + 5050) == found


def test_before_the_second_step_nothing_is_known(tmp_path: Path) -> None:
    record = RunRecord.new("r", "r", "local", "local", BEGAN, 1)
    assert measure_progress_share(RunFacts(make_run(tmp_path, [(0, 10, 10, None)]), record), BEGAN + 20) is None
