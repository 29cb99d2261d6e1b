"""TensorBoard's files as tensorboard itself writes them."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

import pytest

from fsdpctl.node.progress.event_files import EventFiles, find_event_files, with_loss
from fsdpctl.node.progress.step_report import StepReport
from fsdpctl.node.progress.tfevents import MAX_RECORD, EventFile, parse_event

pytest.importorskip("tensorboard")
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter


def event(step: int, tag: str, value: float) -> Event:
    return Event(wall_time=step * 2.0, step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)]))


def picture(step: int) -> Event:
    image = Summary.Image(encoded_image_string=b"x" * (MAX_RECORD + 1))
    return Event(wall_time=1.0, step=step, summary=Summary(value=[Summary.Value(tag="picture", image=image)]))


def is_me(pid: int) -> bool:
    return pid == os.getpid()


def test_steps_have_all_scalars_of_their_tags(tmp_path: Path) -> None:
    writer = EventFileWriter(str(tmp_path / "runs" / "a.b"), filename_suffix=".mine")
    files = EventFiles([tmp_path], is_me)
    for added in (event(1, "Loss/train", 4.0), event(1, "lr", 0.5), picture(1), event(2, "Loss/train", 2.0)):
        writer.add_event(added)
    writer.flush()
    first = StepReport(1, 2.0, {"Loss/train": 4.0, "lr": 0.5, "loss": 4.0})
    assert files.read(1.0) == [first]
    writer.add_event(event(2, "lr", 0.25))
    writer.flush()
    assert files.read(2.0) == []  # more of the step may come
    second = StepReport(2, 4.0, {"Loss/train": 2.0, "lr": 0.25, "loss": 2.0})
    assert files.read(3.0) == [second]
    writer.add_event(event(3, "lr", 0.125))
    writer.close()
    assert files.read(4.0, is_end=True) == [StepReport(3, 6.0, {"lr": 0.125})]


def test_a_record_that_is_being_written_is_read_later(tmp_path: Path) -> None:
    writer = EventFileWriter(str(tmp_path))
    writer.add_event(event(7, "loss", 1.0))
    writer.close()
    (whole,) = tmp_path.iterdir()
    data, growing = whole.read_bytes(), tmp_path / "growing"
    file, found = EventFile(growing), []
    for size in range(len(data) + 1):
        growing.write_bytes(data[:size])
        found += [(size, one.step) for one in file.read()]
    assert found == [(len(data), 7)]


def test_only_files_of_the_process_on_this_host_count(tmp_path: Path) -> None:
    host = socket.gethostname()
    names = [f"1.{host}.{os.getpid()}.0", f"1.{host}.{os.getppid()}.0", f"1.other.{os.getpid()}.0", "x", f"1.{host}"]
    (tmp_path / ".hidden").mkdir()
    for directory in (tmp_path, tmp_path / ".hidden"):
        for name in names:
            (directory / f"events.out.tfevents.{name}").touch()
    assert list(find_event_files([tmp_path, tmp_path / "missing"], is_me)) == [
        tmp_path / f"events.out.tfevents.{names[0]}"
    ]


def test_a_search_is_bounded_and_looks_near_to_the_root_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fsdpctl.node.progress.event_files.MAX_ENTRIES", 20)
    for number in range(5):
        (tmp_path / f"data-{number}").mkdir()
        for entry in range(10):
            (tmp_path / f"data-{number}" / str(entry)).touch()
    name = f"events.out.tfevents.1.{socket.gethostname()}.{os.getpid()}.0"
    (tmp_path / name).touch()
    assert list(find_event_files([tmp_path], is_me)) == [tmp_path / name]


def test_the_likeliest_tag_is_the_loss() -> None:
    assert with_loss({"val_loss": 1.0, "Train/Loss": 2.0}) == {"val_loss": 1.0, "Train/Loss": 2.0, "loss": 2.0}
    assert with_loss({"loss": 1.0, "train_loss": 2.0})["loss"] == 1.0
    assert "loss" not in with_loss({"accuracy": 1.0})


@pytest.mark.parametrize("data", [b"\x08", b"\x2a\xff\x01", b"\x0b", b"\x80" * 20])
def test_damaged_data_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        parse_event(data)


def test_steps_before_a_damaged_record_are_read_and_the_file_is_named_once(tmp_path: Path) -> None:
    """A writer that finds the disk full leaves a part of a record."""
    writer = EventFileWriter(str(tmp_path))
    files = EventFiles([tmp_path], is_me)
    for step in (1, 2):
        writer.add_event(event(step, "loss", float(step)))
    writer.close()
    [path] = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole + whole[-20:])  # no header of a record
    assert [report.step for report in files.read(1.0)] == [1]
    assert [report.step for report in files.read(2.0)] == [2]
    [damaged] = files.take_damaged()
    assert damaged.startswith(f"{path}: ")
    with open(path, "ab") as file:
        file.write(whole)
    assert files.read(3.0) == [] and files.take_damaged() == []


def test_a_damaged_record_ends_what_is_read_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "events"
    good = event(1, "loss", 1.0).SerializeToString()
    for data in (b"\x08", b"\x0b" * len(good)):
        records = b"".join(struct.pack("<QI", len(one), 0) + one + bytes(4) for one in (good, data, good))
        path.write_bytes(records)
        file = EventFile(path)
        assert [found.step for found in file.read()] == [1]
        with pytest.raises(ValueError):
            file.read()
