"""What a run's directory and this host's process table say of it: the facts, without a judgement."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

from fsdpctl.contract.codec import CodecError, find_json, read_json
from fsdpctl.contract.control_files import read_control_file
from fsdpctl.contract.files import describe_disk, open_file, read_bytes, read_tail
from fsdpctl.contract.formats.manifest import committed
from fsdpctl.contract.paths import AttemptPaths, NodePaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.contract.records import NodeEnd, Outcome, ProcessIdentity, RankEnd
from fsdpctl.node.os.processes import boot_id, is_alive
from fsdpctl.supervise.decide import AttemptEnd, Verdict

HEARTBEAT_STALE_S = 60.0
"""For agents of other hosts: with file-system caches and clock skew, a younger heartbeat counts as a sign of life."""

_TAIL_BYTES = 16_384


def living_agents(attempt: AttemptPaths) -> list[NodePaths]:
    """The nodes of an attempt whose agent is alive, as far as this host can tell; none once the attempt is judged."""
    if attempt.verdict.exists():
        return []
    return [node for node in attempt.nodes() if _agent_lives(node)]


def _agent_lives(node: NodePaths) -> bool:
    identity = find_json(ProcessIdentity, node.agent)
    if identity is None:
        return False
    if identity.boot_id == boot_id():
        return is_alive(identity)
    if node.end.exists():
        return False
    try:
        return time.time() - node.heartbeat.stat().st_mtime < HEARTBEAT_STALE_S
    except OSError:
        return False


def attempt_end(attempt: AttemptPaths, num_nodes: int) -> AttemptEnd:
    """Collect what an attempt left behind."""
    found = {rank: find_json(NodeEnd, attempt.node(rank).end) for rank in range(num_nodes)}
    return AttemptEnd(
        num_nodes=num_nodes,
        ends={rank: end for rank, end in found.items() if end is not None},
        outcome=find_json(Outcome, attempt.outcome),
        stop=read_control_file(attempt.stop),
        abort=read_control_file(attempt.abort),
        full_disk=describe_disk(attempt.run_dir),
        has_older=_has_checkpoint(RunPaths(attempt.run_dir)),
    )


def _has_checkpoint(run: RunPaths) -> bool | None:
    """Whether there is one to resume from; None for a user's own script, which alone knows."""
    return bool(committed(run.checkpoints)) if run.trainer_config.exists() else None


def ended_ranks(attempt: AttemptPaths) -> dict[int, float]:
    """When each rank left that has done so in good order: global rank -> seconds since the epoch."""
    ends: dict[int, float] = {}
    for path in (path for node in attempt.nodes() for path in node.rank_ends()):
        with suppress(OSError, CodecError):
            end = read_json(RankEnd, path)
            ends[end.rank] = end.time
    return ends


def read_verdict(attempt: AttemptPaths) -> Verdict | None:
    return find_json(Verdict, attempt.verdict)


def read_plan(run: RunPaths) -> LaunchPlan:
    return read_json(LaunchPlan, run.plan)


def total_steps(run: RunPaths) -> int | None:
    """The length of a run of the bundled trainer."""
    try:
        config = _parse(read_bytes(run.trainer_config))
    except OSError:
        return None
    steps = config.get("steps") if config is not None else None
    return steps if isinstance(steps, int) else None


def read_metrics(metrics: Path) -> Iterator[dict[str, Any]]:
    """All whole lines of metrics.jsonl, in order; none before the first."""
    try:
        with BufferedReader(open_file(metrics)) as file:
            for line in file:
                if line.endswith(b"\n") and (found := _parse_metrics(line)) is not None:
                    yield found
    except FileNotFoundError:
        return


def recent_metrics(metrics: Path) -> list[dict[str, Any]]:
    """The newest whole lines of metrics.jsonl, in order; the trainer may be writing the next one."""
    try:
        lines = read_tail(metrics, _TAIL_BYTES).split(b"\n")[:-1]
    except OSError:
        return []
    return [found for line in lines if (found := _parse_metrics(line)) is not None]


def _parse_metrics(line: bytes) -> dict[str, Any] | None:
    """A user's script may write what it likes; what it calls a step is one only if it is a whole number."""
    found = _parse(line)
    return found if found is not None and type(found.get("step", 0)) is int else None


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def newest_step(run: RunPaths) -> int:
    """The last step that any attempt has reached; 0 before the first."""
    lines = recent_metrics(run.metrics)
    return int(lines[-1].get("step", 0)) if lines else 0
