"""A line of metrics.jsonl that is just being written: a reader may see its two parts one after the other."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from bench.campaign import observer
from fsdpctl.runs import metrics

PARTS = (
    b'{"attempt": 1, "step": 1}\n{"attempt": 1, "step": 2, "time":',
    b"",
    b' 17.5}\n{"attempt": 1, "step": 3}\n',
    b"",
)
"""What read(2) returns: a write(2) that crosses a page appears page by page."""


class Growing(io.RawIOBase):
    def __init__(self) -> None:
        self._parts = list(PARTS)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return 0

    def readinto(self, buffer: Any) -> int:
        part = self._parts.pop(0)
        buffer[: len(part)] = part
        return len(part)


def test_a_line_that_is_not_complete_ends_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "open_file", lambda path: Growing())
    assert [line["step"] for line in metrics.read_metrics(Path("metrics.jsonl"))] == [1]
    first_end = PARTS[0].index(b"\n") + 1
    assert observer._read(io.BufferedReader(Growing()), 0) == [((1, 1), first_end)]
