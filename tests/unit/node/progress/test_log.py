"""New lines of a log, and the steps that a pattern finds in them: with bounded work."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fsdpctl.contract.progress_regex import compile_progress_regex
from fsdpctl.node.progress.log_matcher import LogMatcher, SlowPatternError
from fsdpctl.node.progress.log_tail import MAX_LINE, MAX_READ, LogLine, LogTail
from fsdpctl.node.progress.step_report import StepReport
from tests.processor_time import done_within


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rank-0.log"


@pytest.fixture(autouse=True)
def keep_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGVTALRM)
    yield
    signal.signal(signal.SIGVTALRM, before)


def append(log: Path, text: str) -> None:
    with log.open("a", newline="") as file:
        file.write(text)


def texts(tail: LogTail) -> list[str]:
    return [line.text for line in tail.read(1.0)]


def test_lines_are_read_once_and_only_when_complete(log: Path) -> None:
    tail = LogTail(log, 0.0)
    assert texts(tail) == []
    append(log, "one\ntw")
    assert texts(tail) == ["one"]
    append(log, "o\r\nbar 1\rbar 2\r")
    assert texts(tail) == ["two", "bar 1", "bar 2"]
    assert texts(tail) == []


def test_lines_between_two_looks_are_spread_over_the_time_between_them(log: Path) -> None:
    tail = LogTail(log, 10.0)
    append(log, "a\nb\n")
    assert [line.time for line in tail.read(12.0)] == [11.0, 12.0]
    append(log, "c\n")
    assert [line.time for line in tail.read(13.0)] == [13.0]


def test_of_a_log_that_grows_too_fast_the_newest_lines_are_read(log: Path) -> None:
    tail = LogTail(log, 0.0)
    append(log, "first\n" + "x\n" * MAX_READ + "last\n")
    found = texts(tail)
    assert found[-1] == "last" and "first" not in found


def test_a_long_line_is_read_up_to_its_limit(log: Path) -> None:
    tail = LogTail(log, 0.0)
    for _ in range(5):
        append(log, "x" * MAX_LINE)
        assert texts(tail) == []
    append(log, "\nnext\n")
    assert [len(text) for text in texts(tail)] == [MAX_LINE, 4]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("step 1,200/5000 loss 2.5 lr 1e-4", StepReport(1200, 7.0, {"loss": 2.5, "lr": 1e-4}, 5000)),
        ("step 12 loss 2.5", StepReport(12, 7.0, {"loss": 2.5})),
        ("step 12 loss -", StepReport(12, 7.0)),
        ("step x loss 2.5", None),
        ("epoch 3", None),
    ],
)
def test_groups_are_the_step_the_total_and_values(text: str, found: StepReport | None) -> None:
    pattern = r"step (?P<step>[\w,]+)(/(?P<total>\d+))? loss (?P<loss>\S+)( lr (?P<lr>\S+))?"
    assert LogMatcher(compile_progress_regex(pattern)).find(LogLine(text, 7.0)) == found


def test_a_pattern_that_takes_longer_than_training_is_given_up() -> None:
    matcher = LogMatcher(compile_progress_regex(r"(?P<step>\d)(a+)+$"))

    def give_up() -> None:
        with pytest.raises(SlowPatternError):
            matcher.find(LogLine("1" + "a" * 40 + "b", 1.0))

    done_within(2, give_up)
    assert matcher.find(LogLine("1aa", 1.0)) == StepReport(1, 1.0)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(", "not a regular expression of Python: missing )"),
        (r"loss (?P<loss>\d+)", "it needs a group named step"),
        (r"(?P<step>\d+) (?P<time>\d+)", "the group time is a key that each line of metrics.jsonl has already"),
        ("x" * 1001, "a pattern has at most 1000 characters"),
        (r"(?P<step>\d{99999999999})", "not a regular expression of Python: the repetition number is too large"),
    ],
)
def test_a_pattern_that_cannot_work_is_refused(pattern: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem.replace(")", r"\)")):
        compile_progress_regex(pattern)


def test_the_patterns_of_the_docs_find_their_examples() -> None:
    page = Path(__file__).parents[4] / "docs" / "own-scripts.md"
    examples = re.findall(r"^progress_regex: '(.+)' +# (.+)$", page.read_text(), re.MULTILINE)
    found = [LogMatcher(compile_progress_regex(pattern)).find(LogLine(text, 1.0)) for pattern, text in examples]
    assert [one and (one.step, one.total, one.values) for one in found] == [
        (120, 2000, {"loss": 2.31}),
        (120, None, {"loss": 2.31}),
        (120, 2000, {}),
    ]
