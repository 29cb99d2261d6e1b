"""What is sent, and when: a run that is resumed, a service that fails for a while, files that are replaced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fsdpctl.trackers.feed import Feed, Sent
from fsdpctl.trackers.send import EVERY_S, RETRY_S, Sender
from fsdpctl.trackers.tracker import EndState, Row
from tests.unit.trackers.run_dir import append


class Service:
    """Keeps rows as a service does, and fails while `is_down`."""

    def __init__(self, *, can_be_asked: bool = True) -> None:
        self.rows: list[Row] = []
        self.can_be_asked = can_be_asked
        self.is_down = False
        self.end: EndState | None = None

    def last_step(self) -> int | None:
        return max((row.step for row in self.rows), default=-1) if self.can_be_asked else None

    def send(self, rows: Sequence[Row]) -> None:
        self.rows += rows[:1] if self.is_down else rows
        if self.is_down:
            raise ConnectionError("down")

    def close(self, end: EndState) -> None:
        self.end = end

    @property
    def sent(self) -> list[tuple[int, dict[str, float]]]:
        return [(row.step, dict(row.values)) for row in self.rows]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    return tmp_path / "metrics.jsonl", tmp_path / "evaluations.jsonl", tmp_path / "sent"


def follow(
    files: tuple[Path, Path, Path], service: Service, attempt: int, script: Iterator[EndState | None]
) -> list[float]:
    """Run a sender; what happens between its looks is in `script`. Return the times that it would have waited."""
    waits: list[float] = []

    def wait(seconds: float) -> EndState | None:
        waits.append(seconds)
        return next(script)

    Sender(lambda: service, Feed(*files[:2], attempt), files[2]).run(wait)
    return waits


def test_rows_are_numbers_and_an_evaluation_belongs_to_its_step(files: tuple[Path, Path, Path]) -> None:
    metrics, evaluations, _ = files
    service = Service()

    def script() -> Iterator[EndState | None]:
        yield None  # there are no files yet
        append(metrics, 1, range(1, 3))
        append(evaluations, 1, range(3, 4), "held_out_loss")  # seen before its step
        yield None
        append(metrics, 1, range(3, 5))
        yield "finished"

    assert follow(files, service, 1, script()) == [EVERY_S] * 3
    assert service.sent == [
        (1, {"attempt": 1, "loss": 101}),
        (2, {"attempt": 1, "loss": 102}),
        (3, {"attempt": 1, "loss": 103, "held_out_loss": 103}),
        (4, {"attempt": 1, "loss": 104}),
    ]
    assert service.end == "finished"


def test_what_a_service_missed_is_sent_when_it_is_back(
    files: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    service = Service()

    def script() -> Iterator[EndState | None]:
        append(files[0], 1, range(1, 3))
        yield None
        service.is_down = True
        append(files[0], 1, range(3, 5))
        yield None
        yield None
        service.is_down = False
        yield "stopped"

    assert follow(files, service, 1, script()) == [EVERY_S, EVERY_S, RETRY_S, RETRY_S]
    assert [step for step, _ in service.sent] == [1, 2, 3, 4]
    assert capsys.readouterr().out == "not sent yet: ConnectionError: down\n"


@pytest.mark.parametrize("can_be_asked", [True, False])
def test_a_resume_sends_nothing_twice_and_what_was_missing(files: tuple[Path, Path, Path], can_be_asked: bool) -> None:
    """The trainer cuts its file at the checkpoint; until then, it has steps that may not count."""
    metrics, service = files[0], Service(can_be_asked=can_be_asked)
    append(metrics, 1, range(1, 4))
    follow(files, service, 1, iter(["failed"]))
    append(metrics, 1, range(4, 7))

    def script() -> Iterator[EndState | None]:
        yield None
        assert len(service.rows) == 3, "nothing before the first step of this attempt"
        metrics.rename(metrics.with_name("old"))
        append(metrics, 1, range(1, 3))
        append(metrics, 2, range(3, 6))
        yield "finished"

    follow(files, service, 2, script())
    assert [(step, values["loss"]) for step, values in service.sent] == [
        (1, 101), (2, 102), (3, 103), (4, 204), (5, 205)
    ]  # fmt: skip


def test_a_line_that_is_half_written_waits(files: tuple[Path, Path, Path]) -> None:
    metrics = files[0]
    append(metrics, 1, range(0, 2))
    whole = metrics.read_text()
    metrics.write_text(whole + '{"step": 2, "lo')
    feed = Feed(*files[:2], 1)
    rows, sent = feed.read(Sent()) or ([], Sent())
    assert [row.step for row in rows] == [0, 1]
    with metrics.open("a") as file:
        file.write('ss": 0.5}\nnot json\n[1]\n{"step": "x"}\n{"step": 3, "loss": null}\n')
    rows, sent = feed.read(sent) or ([], Sent())
    assert [(row.step, dict(row.values)) for row in rows] == [(2, {"loss": 0.5}), (3, {})]
    assert sent == Sent(3, -1) and feed.read(sent) is None


def test_a_line_of_a_script_that_no_service_takes_stops_nothing(
    files: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fsdpctl.trackers.feed._MAX_BYTES", 1000)
    strange = ["null", '"12:00"', "NaN", "1e300", "-1", "9" * 400, "[1]", "5"]
    lines = [f'{{"step": {step}, "time": {time}, "loss": 1}}' for step, time in enumerate(strange)]
    files[0].write_text(
        "\n".join(
            [
                *lines,
                f'{{"step": 8, "count": {"9" * 400}}}',
                f'{{"step": {2**63}}}',
                '{"step": true}',
                f'{{"step": 9, "text": "{"x" * 5000}"}}',
                '{"step": 10, "time": 6.5}\n',
            ]
        )
    )
    service = Service()
    follow(files, service, 1, iter(["finished"]))
    assert [(row.step, row.time) for row in service.rows] == [
        *((step, 0.0) for step in range(7)), (7, 5.0), (8, 0.0), (10, 6.5)
    ]  # fmt: skip
    assert service.rows[8].values == {}


def test_a_deeply_nested_line_stops_nothing(files: tuple[Path, Path, Path]) -> None:
    files[0].write_text("[" * 200_000 + '\n{"step": 1}\n')
    service = Service()
    follow(files, service, 1, iter(["finished"]))
    assert [row.step for row in service.rows] == [1]


def test_a_resume_of_a_long_run_sends_its_rows_in_its_only_try(
    files: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of the file is read, also the parts without any row that is missing at the service."""
    monkeypatch.setattr("fsdpctl.trackers.feed._MAX_BYTES", 200)
    metrics, service = files[0], Service()
    append(metrics, 1, range(1, 41))
    follow(files, service, 1, iter(["failed"]))
    append(metrics, 2, range(41, 44))
    follow(files, service, 2, iter(["finished"]))
    assert [step for step, _ in service.sent] == [*range(1, 44)]
