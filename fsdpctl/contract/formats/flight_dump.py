"""The dumps of torch's flight recorder, read without running code.

A dump is a pickle, which can run any code, and any process of the run can write one. This reader allows no name at all:
a dump needs only dicts, lists, tuples, text and numbers.
"""

from __future__ import annotations

import io
import json
import pickle
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from fsdpctl.contract.flight_record import FlightEntry, FlightGroup, FlightRecord

KEPT_DONE = 100
"""Finished operations of each group that a record keeps. Those that are not finished are all kept."""
_MAX_FRAMES = 24
_MAX_TENSORS = 64
_MAX_TEXT = 300


class FlightDumpError(ValueError):
    """A dump is no dump, or it is cut off."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"a flight record names {module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("a flight record refers to another file")


def load_dump(data: bytes) -> Mapping[str, Any]:
    """Return a dump as plain values. Raise FlightDumpError."""
    try:
        dump = _PlainUnpickler(io.BytesIO(data)).load()
    except Exception as error:  # a forged pickle can raise anything
        raise FlightDumpError(f"no flight record: {error}") from None
    if not isinstance(dump, dict):
        raise FlightDumpError("no flight record: it holds no mapping")
    return dump


def build_record(dumps: Iterable[Mapping[str, Any]], members: Mapping[str, Sequence[int]]) -> FlightRecord:
    """Return the record of one rank from its dumps, one for each recorder. Raise FlightDumpError.

    `members` has the global ranks of groups by name: gloo's dumps do not have them.
    """
    build = _Builder(members)
    try:
        for dump in dumps:
            build.add(dump)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise FlightDumpError(f"a flight record is not as expected: {type(error).__name__}: {error}") from None
    return FlightRecord(tuple(build.groups), tuple(build.entries), tuple(build.stacks))


class _Builder:
    def __init__(self, members: Mapping[str, Sequence[int]]) -> None:
        self._members = members
        self.groups: dict[FlightGroup, int] = {}
        self.entries: list[FlightEntry] = []
        self.stacks: dict[str, int] = {}

    def add(self, dump: Mapping[str, Any]) -> None:
        members = {**_configured(dump.get("pg_config") or {}), **self._members}
        newer: Counter[str] = Counter()  # finished operations of each group seen so far
        kept = []
        for entry in reversed(dump.get("entries") or []):
            is_done = bool(entry["retired"]) or entry["state"] == "completed"
            name = _text(entry["process_group"][0])
            newer[name] += is_done
            if not is_done or newer[name] <= KEPT_DONE:
                kept.append(self._convert(entry, name, members.get(name, ()), is_done=is_done))
        self.entries += reversed(kept)

    def _convert(self, entry: Mapping[str, Any], name: str, ranks: Sequence[int], *, is_done: bool) -> FlightEntry:
        backend, _, op = _text(entry["profiling_name"]).partition(":")
        group = FlightGroup(backend, name, _text(entry["process_group"][1]), tuple(ranks))
        is_p2p = bool(entry["is_p2p"])
        stack = "\n".join(
            f"{_text(frame['filename'])}:{int(frame['line'])} {_text(frame['name'])}"
            for frame in (entry.get("frames") or [])[:_MAX_FRAMES]
        )
        return FlightEntry(
            self.groups.setdefault(group, len(self.groups)),
            op,
            int(entry["p2p_seq_id" if is_p2p else "collective_seq_id"]),
            is_p2p,
            is_done,
            _tensors(entry["input_sizes"], entry["input_dtypes"]),
            _tensors(entry["output_sizes"], entry["output_dtypes"]),
            self.stacks.setdefault(stack, len(self.stacks)),
        )


def _configured(groups: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    found = {}
    for name, group in groups.items():
        if ranks := json.loads(group["ranks"]):
            found[_text(name)] = tuple(int(rank) for rank in ranks)
    return found


def _tensors(sizes: Sequence[Sequence[int]], dtypes: Sequence[str]) -> tuple[str, ...]:
    """Return each tensor as `Float[4,3]`; torch records no type where all have the same."""
    pairs = zip_longest(sizes[:_MAX_TENSORS], dtypes[: len(sizes)][:_MAX_TENSORS], fillvalue="")
    return tuple(f"{_text(dtype)}[{','.join(str(int(size)) for size in shape)}]" for shape, dtype in pairs)


def _text(value: Any) -> str:
    return str(value)[:_MAX_TEXT] if isinstance(value, str | int) else ""
