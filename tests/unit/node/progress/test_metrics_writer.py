"""One source to metrics.jsonl, each step once."""

from __future__ import annotations

import json
from pathlib import Path

from fsdpctl.contract.metrics_lines import metrics_line
from fsdpctl.node.progress.metrics_writer import MetricsWriter
from fsdpctl.node.progress.step_report import Source, StepReport


def add(writer: MetricsWriter, source: Source, *steps: int) -> None:
    for step in steps:
        writer.add(source, StepReport(step, 1.0, {"source": float(source)}))


def lines(path: Path) -> list[tuple[int, int, float | None]]:
    found = map(json.loads, path.read_text().splitlines())
    return [(line["attempt"], line["step"], line.get("source")) for line in found]


def test_a_higher_source_replaces_a_lower_one_and_no_step_is_there_twice(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    writer = MetricsWriter(path, 1)
    add(writer, Source.LOG, 1, 2)
    add(writer, Source.TENSORBOARD, 3)
    add(writer, Source.TRAINER, 2, 5)
    add(writer, Source.LOG, 6)
    assert lines(path) == [(1, 1, 2.0), (1, 2, 2.0), (1, 5, 3.0)]
    assert writer.step == 5


def test_the_script_itself_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    writer = MetricsWriter(path, 1)
    add(writer, Source.TRAINER, 1)
    with path.open("ab") as file:
        file.write(metrics_line(2, 1.0, 1, {}))
    add(writer, Source.TRAINER, 3)
    assert writer.has_other_writer()
    assert lines(path) == [(1, 1, 3.0), (1, 2, None)]


def test_the_next_attempt_continues_without_the_steps_that_it_does_again(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    add(MetricsWriter(path, 1), Source.LOG, 1, 2, 3, 4)
    add(MetricsWriter(path, 2), Source.LOG, 3, 4, 5)
    assert [(attempt, step) for attempt, step, _ in lines(path)] == [(1, 1), (1, 2), (2, 3), (2, 4), (2, 5)]


def test_a_step_that_comes_after_a_later_one_is_refused(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path / "metrics.jsonl", 1)
    add(writer, Source.LOG, 99, 99)
    assert writer.refused_step is None
    add(writer, Source.LOG, 1)
    assert (writer.refused_step, writer.step) == (1, 99)


def test_what_a_disk_refuses_is_written_later(tmp_path: Path) -> None:
    path = tmp_path / "run" / "metrics.jsonl"
    writer = MetricsWriter(path, 1)
    add(writer, Source.LOG, 1)
    path.parent.mkdir()
    add(writer, Source.LOG, 2)
    assert [step for _, step, _ in lines(path)] == [1, 2]
