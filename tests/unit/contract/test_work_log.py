"""The history of what rank 0 works at."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fsdpctl.contract.rank_progress import RankProgressWriter, Section
from fsdpctl.contract.work_log import Work, WorkLog, read_work


def test_each_change_is_a_line_and_steps_are_one(tmp_path: Path) -> None:
    path = tmp_path / "work.jsonl"
    writer = RankProgressWriter(tmp_path / "progress-0", work_log=path)
    writer.mark(Section.START, 0, "imports")
    writer.mark(Section.START, 0, "checkpoint", Work.RESTORE)
    for step in range(50):
        writer.mark(Section.DATA, step)
        writer.mark(Section.STEP, step)
    writer.work_log.begin_compiling()
    writer.work_log.end_compiling()
    writer.mark(Section.SAVE, 50)
    writer.mark(Section.END, 50)
    works = [Work.START, Work.RESTORE, Work.STEP, Work.COMPILE, Work.STEP, Work.SAVE, Work.END]
    found = read_work(path)
    assert [work for _, work in found] == works
    assert [time for time, _ in found] == sorted(time for time, _ in found)


def test_damaged_lines_are_left_out_and_a_missing_file_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "work.jsonl"
    assert read_work(path) == []
    path.write_bytes(b'{"time": 1.5, "work": "step"}\n\xff\n[]\n{"time": null, "work": "step"}\n{"time": 1}\n')
    with path.open("a") as file:
        file.write('{"time": 2, "work": "of a later version"}\n{"time": 1e999, "work": "step"}\n{"time": 3, "wo')
    assert read_work(path)[0] == (1.5, Work.STEP)
    assert {work for _, work in read_work(path)} == {Work.STEP}


def test_what_did_not_fit_is_written_with_the_next_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, write, room = tmp_path / "work.jsonl", os.write, [1000, 7, 0]

    def write_into(room_left: list[int]) -> Callable[[int, bytes], int]:
        def limited(descriptor: int, data: bytes) -> int:
            if not (size := room_left.pop(0) if room_left else len(data)):
                raise OSError(errno.ENOSPC, "no space left on device")
            return write(descriptor, data[:size])

        return limited

    monkeypatch.setattr(os, "write", write_into(room))
    log = WorkLog(path)
    for work in (Work.START, Work.STEP, Work.SAVE):
        log.begin(work)
    assert [work for _, work in read_work(path)] == [Work.START, Work.STEP, Work.SAVE]


def test_a_log_that_cannot_be_opened_stops_no_rank(tmp_path: Path) -> None:
    log = WorkLog(tmp_path / "missing" / "work.jsonl")
    log.begin(Work.STEP)
    log.end_compiling()
