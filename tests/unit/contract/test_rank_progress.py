from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.contract.rank_progress import RankProgress, RankProgressWriter, Section, read_rank_progress


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "progress-0"


def read(path: Path) -> RankProgress:
    found = read_rank_progress(path)
    assert found is not None
    return found


def test_a_record_of_fixed_size_holds_section_position_signs_and_phase(path: Path, clock: Clock) -> None:
    assert read_rank_progress(path) is None
    writer = RankProgressWriter(path, clock)
    assert read_rank_progress(path) is None
    writer.mark(Section.START, 0, "process groups")
    assert read(path) == RankProgress(Section.START, 0, 1, phase="process groups")
    writer.mark(Section.SAVE, 123456)
    writer.sign()
    writer.add_saved(2**40)
    writer.add_saved(1)
    assert read(path) == RankProgress(Section.SAVE, 123456, 2, 1, 2**40 + 1, 0.0)
    assert len(path.read_bytes()) == 120


def test_without_a_file_nothing_is_written(tmp_path: Path) -> None:
    writer = RankProgressWriter(None)
    writer.mark(Section.STEP, 1)
    writer.sign()
    writer.add_saved(5)
    assert not list(tmp_path.iterdir())


def test_slow_steps_are_measured_without_saves(path: Path, clock: Clock) -> None:
    writer = RankProgressWriter(path, clock)
    for step in range(100):
        if step == 50:
            writer.mark(Section.SAVE, step)
            clock.now += 600
        writer.step_begins()
        writer.mark(Section.STEP, step)
        clock.now += 2.0 if step == 10 else 0.1
    assert 0.09 < read(path).usual_s < 2.1


def test_what_a_section_usually_takes_is_between_its_signs_and_a_first_compilation_does_not_count(
    path: Path, clock: Clock
) -> None:
    writer = RankProgressWriter(path, clock)
    writer.mark(Section.EVALUATE, 5)
    for seconds in (300.0, *(2.0 for _ in range(20))):
        clock.now += seconds
        writer.sign()
    assert read(path).usual_s == 2.0
    writer.mark(Section.STEP, 5)
    assert read(path).usual_s == 0.0  # another section
    writer.mark(Section.EVALUATE, 10)
    assert read(path).usual_s == 2.0


def test_phases_of_a_start_say_nothing_about_the_next_one(path: Path, clock: Clock) -> None:
    writer = RankProgressWriter(path, clock)
    for phase in ("imports", "process groups", "model"):
        writer.mark(Section.START, 0, phase)
        clock.now += 0.1
    assert read(path).usual_s == 0.0
