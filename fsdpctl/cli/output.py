"""The output edge: data to stdout, talk to stderr, and nothing foreign reaches a terminal unescaped."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import Any

# C0 and C1 controls, DEL, and the bidirectional controls that can reorder what a person reads.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def safe(text: str) -> str:
    """Return `text` with control characters written as escapes; tab and newline stay."""
    return _UNSAFE.sub(lambda found: ascii(found[0])[1:-1], text)


def say(text: str) -> None:
    """Talk to the person: stderr."""
    print(safe(text), file=sys.stderr, flush=True)


def emit(text: str) -> None:
    """Give data: stdout."""
    print(safe(text), flush=True)


def emit_json(value: Any) -> None:
    """Give data as JSON: stdout."""
    print(json.dumps(value, indent=2), flush=True)


def emit_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Give rows as aligned columns: stdout. Only the last column may be long."""
    cells = [[safe(cell).replace("\n", " ") for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), flush=True)
