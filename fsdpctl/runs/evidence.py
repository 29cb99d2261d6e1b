"""Read facts about a run from its directory and this host's process table, without judging them.

`RunFacts` and `AttemptFacts` read each file once, when it is first needed: make one for each command and pass it on.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from errno import EACCES
from functools import cached_property

from fsdpctl.contract import State
from fsdpctl.contract.codec import CodecError, find_json, read_json
from fsdpctl.contract.control_files import ControlFile, read_control_file
from fsdpctl.contract.files import describe_disk, read_bytes
from fsdpctl.contract.formats.manifest import committed
from fsdpctl.contract.paths import AttemptPaths, NodePaths, RunPaths
from fsdpctl.contract.plan import Allocation, LaunchPlan
from fsdpctl.contract.records import NodeEnd, Outcome, ProcessIdentity, RankEnd
from fsdpctl.node.os.processes import boot_id, is_alive
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.store import read_record
from fsdpctl.runs.verdict import AttemptEnd, Verdict

HEARTBEAT_STALE_S = 60.0
"""For agents of other hosts: a younger heartbeat counts as alive, despite file-system caches and clock skew."""


class AttemptFacts:
    """One attempt; each of its files is read once."""

    def __init__(self, paths: AttemptPaths) -> None:
        self.paths = paths

    @property
    def number(self) -> int:
        return self.paths.number

    @cached_property
    def verdict(self) -> Verdict | None:
        return read_verdict(self.paths)

    @cached_property
    def stop(self) -> ControlFile | None:
        return read_control_file(self.paths.stop)

    @cached_property
    def abort(self) -> ControlFile | None:
        return read_control_file(self.paths.abort)

    @property
    def is_cancelled(self) -> bool:
        return self.abort is not None and self.abort.is_cancel

    @property
    def is_wanted(self) -> bool:
        """Whether no user has requested the end of the run."""
        return (self.stop is None or not self.stop.is_users_stop) and not self.is_cancelled

    @property
    def is_last(self) -> bool:
        """Whether the attempt has a verdict, and none will follow by itself."""
        return self.verdict is not None and not self.verdict.restart

    @cached_property
    def nodes(self) -> list[NodePaths]:
        """The nodes that have a directory, by node rank."""
        return self.paths.nodes()

    @cached_property
    def readable(self) -> list[NodePaths]:
        """Those of its nodes whose directory this user may read."""
        return [node for node in self.nodes if node.is_readable()]

    @cached_property
    def unreadable(self) -> tuple[int, ...]:
        """The other ones: node ranks."""
        return tuple(node.node_rank for node in self.nodes if not node.is_readable())

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of the nodes, by node rank: as the scheduler names them, else as they name themselves.

        "" for one that has not named itself, before others that have.
        """
        if self.verdict is not None and self.verdict.hosts:  # `ls` reads one file of an ended run, not one per node
            return self.verdict.hosts
        if (allocation := find_json(Allocation, self.paths.allocation)) is not None:
            return tuple(node.name for node in allocation.nodes)
        agents = {node.node_rank: find_json(ProcessIdentity, node.agent) for node in self.readable}
        known = {rank: agent.host for rank, agent in agents.items() if agent is not None}
        return tuple(known.get(rank, "") for rank in range(max(known, default=-1) + 1))

    def host(self, node_rank: int) -> str | None:
        """Return the host of a node; None if it is not known."""
        return self.hosts[node_rank] or None if node_rank < len(self.hosts) else None

    @property
    def never_started(self) -> bool:
        """Whether it was cancelled before any agent was up: none will start any more."""
        return self.is_cancelled and not any(node.agent.exists() for node in self.nodes)

    @cached_property
    def ends(self) -> dict[int, NodeEnd]:
        """The exit records of nodes, by node rank."""
        found = {node.node_rank: find_json(NodeEnd, node.end) for node in self.readable}
        return {rank: end for rank, end in found.items() if end is not None}

    @cached_property
    def outcome(self) -> Outcome | None:
        return find_json(Outcome, self.paths.outcome)

    @cached_property
    def living_agents(self) -> list[NodePaths]:
        """The nodes whose agent is alive, as far as this host can see; none once the attempt has a verdict."""
        return [] if self.verdict is not None else [node for node in self.nodes if _agent_lives(node)]

    @cached_property
    def rank_ends(self) -> dict[int, float]:
        """Ranks that have ended without an error: global rank -> seconds since the epoch."""
        ends: dict[int, float] = {}
        for path in (path for node in self.nodes for path in node.rank_ends()):
            with suppress(OSError, CodecError):
                end = read_json(RankEnd, path)
                ends[end.rank] = end.time
        return ends

    @property
    def full_disk(self) -> str:
        """The text that a reason adds if the run's disk is full."""
        return describe_disk(self.paths.run_dir)

    def end(self, num_nodes: int) -> AttemptEnd:
        """Collect all facts about the end of an attempt with so many nodes. Raise OSError if one cannot be read: a
        verdict counts a node without an exit record as lost."""
        if self.unreadable:
            raise PermissionError(EACCES, os.strerror(EACCES), str(self.paths.node(self.unreadable[0]).root))
        run = RunPaths(self.paths.run_dir)
        return AttemptEnd(
            num_nodes=num_nodes,
            ends={rank: end for rank, end in self.ends.items() if rank < num_nodes},
            outcome=self.outcome,
            stop=self.stop,
            abort=self.abort,
            full_disk=self.full_disk,
            has_older=bool(committed(run.checkpoints)) if run.trainer_config.exists() else None,
        )


class RunFacts:
    """One run; each of its files is read once."""

    def __init__(self, paths: RunPaths, record: RunRecord | None = None) -> None:
        self.paths = paths
        if record is not None:
            self.record = record  # instead of the cached property

    @property
    def run_id(self) -> str:
        return self.paths.root.name

    @cached_property
    def record(self) -> RunRecord:
        """`run.json`. Raise CodecError and OSError."""
        return read_record(self.paths)

    @cached_property
    def newest(self) -> AttemptFacts | None:
        """The newest attempt."""
        attempts = self.paths.attempts()
        return AttemptFacts(attempts[-1]) if attempts else None

    @property
    def newest_of_submission(self) -> AttemptFacts | None:
        """The newest attempt of the newest submission; None before its first. Raise CodecError and OSError."""
        newest = self.newest
        return newest if newest is not None and newest.number >= self.record.submissions[-1].first_attempt else None

    @property
    def final_state(self) -> State | None:
        """The state in which the newest submission has ended, by its verdict; None while there is none.

        Raise CodecError and OSError.
        """
        newest = self.newest_of_submission
        if newest is None or not newest.is_last:
            return None
        return newest.verdict.state if newest.verdict is not None else None

    @cached_property
    def supervisor(self) -> ProcessIdentity | None:
        """The last supervisor of the run, alive or not, on any host."""
        return find_json(ProcessIdentity, self.paths.supervisor)

    @cached_property
    def has_living_supervisor(self) -> bool:
        return self.supervisor is not None and is_alive(self.supervisor)

    @property
    def has_ended(self) -> bool:
        """Whether the newest attempt, of whichever submission, was the last one."""
        return self.newest is not None and self.newest.is_last

    @cached_property
    def is_running(self) -> bool:
        """Whether the newest attempt runs, or another one will follow it. A supervisor may outlive both for a while."""
        if self.newest is None or self.newest.is_last:
            return False
        return self.has_living_supervisor or bool(self.newest.living_agents)

    @cached_property
    def waiting(self) -> str:
        """What the supervisor waits for; empty if it waits for nothing."""
        try:
            text = read_bytes(self.paths.waiting).decode(errors="replace").strip()
        except FileNotFoundError:
            return ""
        return text if self.has_living_supervisor else ""


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


def read_verdict(attempt: AttemptPaths) -> Verdict | None:
    """Return the verdict on an attempt; None if there is none yet, or it cannot be read."""
    return find_json(Verdict, attempt.verdict)


def read_plan(run: RunPaths) -> LaunchPlan:
    """Return the plan of the newest submission. Raise FileNotFoundError and CodecError."""
    return read_json(LaunchPlan, run.plan)
