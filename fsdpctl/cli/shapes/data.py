"""Prepared data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ListedData:
    """One prepared directory."""

    path: str
    index: Mapping[str, Any] | None  # as in index.json
    broken: str | None  # why it cannot be used
