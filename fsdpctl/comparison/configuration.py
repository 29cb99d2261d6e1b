"""The keys in which jobs and profiles of two runs differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fsdpctl.comparison.result import Difference
from fsdpctl.contract.codec import CodecError, read_json
from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.paths import RunPaths

NAME = "name"
"""Of the job: it distinguishes runs, and changes nothing."""


def compare_configuration(a: RunPaths, b: RunPaths) -> list[Difference]:
    """Return the keys that differ, in the order of the files."""
    return differences(read_configuration(a), read_configuration(b))


def read_configuration(run: RunPaths) -> dict[str, Any]:
    """Return all keys of job, trainer and profile of a run, with all defaults; none of a file that cannot be read."""
    job = {key: value for key, value in _read_yaml(run.job).items() if key not in (NAME, "trainer")}
    found = dict(_flatten("", job)) | dict(_flatten("trainer.", _read_trainer(run)))
    return found | dict(_flatten("profile.", _read_yaml(run.profile)))


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Difference]:
    """Return the keys with other values."""
    return [Difference(key, a.get(key), b.get(key)) for key in {**a, **b} if a.get(key) != b.get(key)]


def _flatten(prefix: str, value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from _flatten(f"{prefix}{key}.", inner)
        else:
            yield f"{prefix}{key}", inner


def _read_trainer(run: RunPaths) -> dict[str, Any]:
    with suppress(OSError, CodecError):
        return read_json(dict[str, Any], run.trainer_config)
    return {}


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml

    try:
        found = yaml.safe_load(read_bytes(path))
    except (OSError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}
