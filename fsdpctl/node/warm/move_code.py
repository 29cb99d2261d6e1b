"""Let a child import the rest from the copy of the code that belongs to its run: an earlier run of the same hold may
have started the fork server, from an equal copy."""

from __future__ import annotations

import sys
from pathlib import Path

_OWN = str(Path(__file__).parents[3])
"""The directory from which this process has imported this package."""


def import_from(code: str) -> None:
    """Replace the directory of this copy by `code`, for all that is imported from now on."""
    if code == _OWN:
        return
    sys.path[:] = [_moved(entry, code) for entry in sys.path]
    for module in list(sys.modules.values()):
        if isinstance(found := getattr(module, "__path__", None), list):
            found[:] = [_moved(entry, code) for entry in found]


def _moved(entry: str, code: str) -> str:
    inside = entry == _OWN or entry.startswith(f"{_OWN}/")
    return code + entry[len(_OWN) :] if inside else entry
