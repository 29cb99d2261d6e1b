"""The keys of a trainer's configuration that may change at a resume. Checked by the launcher, and by the trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# These decide the shapes, or which samples the steps so far have seen.
FIXED = ("model", "batch.sequences", "seed", "optim.frozen")
FREE = ("model.dropout",)


def compare(saved: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Compare two encoded configurations; return what changed, and what of it would make another run, as text."""
    old, new = _flatten(saved), _flatten(now)
    changed = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    lines = {key: f"{key}: {old.get(key)!r} -> {new.get(key)!r}" for key in changed}
    return list(lines.values()), [lines[key] for key in changed if is_fixed(key)]


def is_fixed(key: str) -> bool:
    """Return whether a change of this key would make another run."""
    return key not in FREE and any(key == fixed or key.startswith(f"{fixed}.") for fixed in FIXED)


def _flatten(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {path: value}
    parts = (_flatten(item, f"{path}.{key}" if path else key) for key, item in value.items())
    return {key: item for part in parts for key, item in part.items()}
