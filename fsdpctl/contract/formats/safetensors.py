"""The header of a safetensors file, with the offsets of its tensors: eight bytes of length, and as much JSON.

https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_MAX_HEADER = 100_000_000  # the limit of the safetensors library


def read_header(path: Path) -> tuple[int, dict[str, Any]]:
    """Return where the data begins, and the entry of each tensor by its name.

    Raises OSError, and ValueError for a file that is no safetensors file, such as one that git-lfs has yet to fetch, or
    that is cut short.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(_MAX_HEADER, size):
            raise ValueError(f"{path.name} is no safetensors file")
        try:
            header = json.loads(file.read(length))
            entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
            end = max((int(entry["data_offsets"][1]) for entry in entries.values()), default=0)
        except (ValueError, RecursionError, AttributeError, KeyError, TypeError, IndexError):
            raise ValueError(f"{path.name} is no safetensors file") from None
    if 8 + length + end > size:
        raise ValueError(f"{path.name} is cut short: it has {size:,} of {8 + length + end:,} bytes")
    return 8 + length, entries
