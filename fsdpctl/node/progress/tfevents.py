"""Read scalars from a TensorBoard event file: TFRecords, each an `Event` of protobuf, of which four fields are needed.

A record is a length (8 bytes), its checksum (4), the data and its checksum (4). The fields are those of tensorboard's
event.proto and summary.proto: Event.wall_time 1, step 2, summary 5; Summary.value 1; Value.tag 1, simple_value 2.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract.files import open_file

MAX_READ = 2**20
"""Bytes of one look."""
MAX_RECORD = 2**16
"""A longer record is a picture or a graph, and is skipped."""
MAX_MESSAGE = 2**31
"""Protobuf has no longer ones: such a length is damaged."""
_HEADER, _CHECKSUM = struct.Struct("<QI"), 4


@dataclass(frozen=True)
class Scalars:
    """The scalars of one event."""

    time: float  # seconds since the epoch
    step: int
    values: dict[str, float]


class EventFile:
    """One growing event file. `read` raises ValueError for anything that is none."""

    def __init__(self, path: Path) -> None:
        self._path, self._position = path, 0

    def read(self) -> list[Scalars]:
        """Return the events with scalars since the last call.

        Raise OSError, and ValueError at a damaged record, once all before it were returned: where the next one begins
        is not known, and tensorboard's writer adds none after an error.
        """
        with open_file(self._path) as file:
            available = file.seek(0, 2) - self._position
            file.seek(self._position)
            data = file.read(MAX_READ)
        found: list[Scalars] = []
        try:
            for event, size in _events(data, available):
                self._position += size
                if event is not None:
                    found.append(event)
        except ValueError:
            if not found:
                raise
        return found


def _events(data: bytes, available: int) -> Iterator[tuple[Scalars | None, int]]:
    """Yield what each whole record has, and its size. Raise ValueError at a damaged one.

    `available`: bytes of the file from the first of `data` on.
    """
    begin = 0
    while begin + _HEADER.size <= len(data):
        length, _ = _HEADER.unpack_from(data, begin)
        if length > MAX_MESSAGE:
            raise ValueError(f"a record of {length} bytes")
        size = _HEADER.size + length + _CHECKSUM
        if begin + size > (available if length > MAX_RECORD else len(data)):
            return  # it is still being written, or for the next look
        event = parse_event(data[begin + _HEADER.size : begin + size - _CHECKSUM]) if length <= MAX_RECORD else None
        yield event, size
        begin += size


def parse_event(data: bytes) -> Scalars | None:
    """Return the scalars of an event; None without any. Raise ValueError for damaged data."""
    time, step = 0.0, 0
    values: dict[str, float] = {}
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes) and len(value) == 8:
            (time,) = struct.unpack("<d", value)
        elif number == 2 and isinstance(value, int):
            step = value
        elif number == 5 and isinstance(value, bytes):
            values |= dict(_scalars(value))
    return Scalars(time, step, values) if values else None


def _scalars(summary: bytes) -> Iterator[tuple[str, float]]:
    for number, value in _fields(summary):
        if number == 1 and isinstance(value, bytes):
            fields = dict(_fields(value))
            tag, scalar = fields.get(1), fields.get(2)
            if isinstance(tag, bytes) and isinstance(scalar, bytes) and len(scalar) == 4:
                yield tag.decode(errors="replace"), struct.unpack("<f", scalar)[0]


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field: of a varint the number, of all others the bytes."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        kind = key & 7
        if kind == 0:
            number, position = _varint(data, position)
            yield key >> 3, number
            continue
        if kind == 2:
            length, position = _varint(data, position)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"no field of an event has the wire type {kind}")
        if position + length > len(data):
            raise ValueError("a field is longer than its message")
        yield key >> 3, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a number of variable length and the position after it. Raise ValueError."""
    number = 0
    for index in range(10):
        if position + index >= len(data):
            break
        byte = data[position + index]
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return number, position + index + 1
    raise ValueError("a number does not end")
