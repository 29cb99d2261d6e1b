"""Read the flight records that the ranks of an attempt have left, on all nodes."""

from __future__ import annotations

from pathlib import Path

from fsdpctl.contract.codec import find_json
from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.flight_record import FlightRecord
from fsdpctl.contract.formats.flight_dump import FlightDumpError, build_record, load_dump
from fsdpctl.contract.paths import AttemptPaths, NodePaths
from fsdpctl.contract.stack_dump import find_active, parse_stacks
from fsdpctl.explain.flight.finding import FlightFinding
from fsdpctl.explain.flight.merge import merge

MAX_BYTES = 64 * 2**20
"""A larger file is not read: a record has some hundred KB, a dump of torch some MB."""


def find_mismatch(attempt: AttemptPaths) -> FlightFinding | None:
    """Return the operation in which the ranks of an attempt waited when their flight records were written; None if
    there are no records, or no rank waited."""
    ranks = {rank: node for node in attempt.nodes() for rank in node.rank_logs()}
    records = {rank: record for rank, node in ranks.items() if (record := _read_record(node, rank)) is not None}
    if not records:
        return None
    stacks = {rank: _read_stack(node, rank) for rank, node in ranks.items()}
    return merge(records, max(ranks) + 1, stacks)


def _read_record(node: NodePaths, rank: int) -> FlightRecord | None:
    """Return a rank's own record, else the dump that torch wrote at a time-out of NCCL."""
    own = node.rank_flight(rank)
    if _is_small(own) and (record := find_json(FlightRecord, own)) is not None and not record.problem:
        return record if _is_consistent(record) else None
    dump = node.torch_flight_dump(rank)
    if not _is_small(dump):
        return None
    try:
        return build_record([load_dump(read_bytes(dump))], {})
    except (OSError, FlightDumpError):
        return None


def _is_small(path: Path) -> bool:
    try:
        return 0 < path.stat().st_size <= MAX_BYTES
    except OSError:
        return False


def _is_consistent(record: FlightRecord) -> bool:
    groups, stacks = len(record.groups), len(record.stacks)
    return all(0 <= entry.group < groups and 0 <= entry.stack < stacks for entry in record.entries)


def _read_stack(node: NodePaths, rank: int) -> tuple[str, ...]:
    try:
        text = read_bytes(node.rank_stacks(rank)).decode(errors="replace")
    except OSError:
        return ()
    thread = find_active(parse_stacks(text))
    return () if thread is None else tuple(str(frame) for frame in thread.frames)
