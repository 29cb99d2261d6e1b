"""The files of one node of one attempt."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


def times_of(log: Path) -> Path:
    """Return the index of a log of a node: when it grew, and how far."""
    return log.with_suffix(".times")


@dataclass(frozen=True)
class NodePaths:
    """`attempts/<n>/node-<r>/`, written by that node only."""

    root: Path

    @property
    def node_rank(self) -> int:
        return int(self.root.name.removeprefix("node-"))

    def is_readable(self) -> bool:
        """Return whether this user may read the directory: another user's container may have made it."""
        return os.access(self.root, os.R_OK | os.X_OK, effective_ids=True)

    @property
    def agent(self) -> Path:
        """ProcessIdentity of the agent, written when it has started."""
        return self.root / "agent.json"

    @property
    def ready(self) -> Path:
        """NodeReady, written when the node check has passed; the head's holds the endpoint."""
        return self.root / "ready.json"

    @property
    def heartbeat(self) -> Path:
        """NodeReport, written once a second: the time shows that the agent is alive."""
        return self.root / "heartbeat"

    @property
    def end(self) -> Path:
        """NodeEnd, the exit record: the last thing that the agent writes."""
        return self.root / "end.json"

    @property
    def reserve(self) -> Path:
        """Disk space kept for `end` in case the disk is full by then."""
        return self.root / ".reserve"

    @property
    def agent_log(self) -> Path:
        return self.root / "agent.log"

    def tracker_log(self, name: str) -> Path:
        """Return the log of the process that sends metrics to a tracker: the run's address there, and errors."""
        return self.root / f"report-to-{name}.log"

    @property
    def warm_log(self) -> Path:
        """Output of the process from which ranks are forked: empty, unless its imports fail."""
        return self.root / "warm.log"

    @property
    def torchrun_log(self) -> Path:
        return self.root / "torchrun.log"

    @property
    def events(self) -> Path:
        """Event records of this node's ranks, one per line."""
        return self.root / "events.jsonl"

    @property
    def gpu_history(self) -> Path:
        """GpuMoment records, one per line: what the GPUs of this node did."""
        return self.root / "gpus.jsonl"

    @property
    def work_log(self) -> Path:
        """What rank 0 worked at, and since when, one change per line."""
        return self.root / "work.jsonl"

    @property
    def flight_records(self) -> Path:
        """Prefix of the dumps that torch itself writes at a time-out of NCCL: it adds the rank."""
        return self.root / "flight-rank-"

    def torch_flight_dump(self, rank: int) -> Path:
        """Return the dump that torch itself wrote on one global rank, a pickle."""
        return self.root / f"{self.flight_records.name}{rank}"

    def rank_flight(self, rank: int) -> Path:
        """Return the file with FlightRecord of one global rank, written before an attempt that hangs is ended."""
        return self.root / f"flight-{rank}.json"

    @property
    def nccl_log(self) -> Path:
        """The NCCL debug log of each rank: NCCL fills in host and pid."""
        return self.root / "nccl-%h-%p.log"

    @property
    def torchrun_dir(self) -> Path:
        """Files that only torchrun itself needs."""
        return self.root / "torchrun"

    def rank_log(self, rank: int) -> Path:
        """Return the log with both streams of one global rank, in the order they were written."""
        return self.root / f"rank-{rank}.log"

    def rank_error(self, rank: int) -> Path:
        """Return the file with RankError: the exception that ended the rank."""
        return self.root / f"error-{rank}.json"

    def rank_end(self, rank: int) -> Path:
        """Return the file with RankEnd: the rank has finished its script without an error."""
        return self.root / f"ended-{rank}.json"

    def rank_stacks(self, rank: int) -> Path:
        """Return the file with the stacks of all threads of one global rank: when it was late, or on request."""
        return self.root / f"stacks-{rank}.txt"

    @property
    def trainer_token(self) -> Path:
        """The secret with which a Trainer reports to this node, while its ranks run. Never copied to other machines."""
        return self.root / ".trainer-token"

    @property
    def benchmark(self) -> Path:
        """NetworkReport or DiskReport of a benchmark, written by rank 0."""
        return self.root / "benchmark.json"

    @property
    def stacks_answer(self) -> Path:
        """StacksAnswer to the newest request for the stacks of all ranks."""
        return self.root / "stacks.json"

    def rank_progress(self, rank: int) -> Path:
        """Return the file with RankProgress of one global rank, for the agent of its node."""
        return self.root / f"progress-{rank}"

    def rank_progress_files(self) -> list[Path]:
        return list(self.root.glob("progress-*"))

    def rank_ends(self) -> list[Path]:
        """Return the RankEnd files of the ranks that have finished, in no order."""
        return list(self.root.glob("ended-*.json"))

    def rank_logs(self) -> dict[int, Path]:
        """Return global rank -> log, for the ranks that have one."""
        found = {path.stem.removeprefix("rank-"): path for path in self.root.glob("rank-*.log")}
        return {int(rank): path for rank, path in found.items() if rank.isdecimal()}
