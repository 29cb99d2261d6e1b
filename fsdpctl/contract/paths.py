"""The run directory: who finds what where. Nobody else joins these names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

DIR_MODE = 0o700


@dataclass(frozen=True)
class NodePaths:
    """`attempts/<n>/node-<r>/`: written by that node only."""

    root: Path

    @property
    def node_rank(self) -> int:
        return int(self.root.name.removeprefix("node-"))

    @property
    def agent(self) -> Path:
        """ProcessIdentity of the agent, written once it stands."""
        return self.root / "agent.json"

    @property
    def ready(self) -> Path:
        """The node check passed; the head's names the endpoint: NodeReady."""
        return self.root / "ready.json"

    @property
    def heartbeat(self) -> Path:
        return self.root / "heartbeat"

    @property
    def end(self) -> Path:
        """How the node ended: NodeEnd, the agent's last word."""
        return self.root / "end.json"

    @property
    def reserve(self) -> Path:
        """Room for `end` on a disk that is full by then."""
        return self.root / ".reserve"

    @property
    def agent_log(self) -> Path:
        return self.root / "agent.log"

    @property
    def torchrun_log(self) -> Path:
        return self.root / "torchrun.log"

    @property
    def flight_records(self) -> Path:
        """The flight recorder's dumps: torch adds the rank to this name."""
        return self.root / "flight-rank-"

    @property
    def nccl_log(self) -> Path:
        """NCCL's own log of each rank: NCCL fills in host and pid."""
        return self.root / "nccl-%h-%p.log"

    @property
    def torchrun_dir(self) -> Path:
        """torchrun's own files, of no interest but to itself."""
        return self.root / "torchrun"

    def rank_log(self, rank: int) -> Path:
        """Both streams of one global rank, in the order they were written."""
        return self.root / f"rank-{rank}.log"

    def rank_error(self, rank: int) -> Path:
        """RankError: the exception that ended the rank."""
        return self.root / f"error-{rank}.json"

    def rank_end(self, rank: int) -> Path:
        """RankEnd: the rank has left its script in good order."""
        return self.root / f"ended-{rank}.json"

    def rank_stacks(self, rank: int) -> Path:
        """Stacks of all threads of one global rank, dumped when it made no progress."""
        return self.root / f"stacks-{rank}.txt"

    def rank_progress(self, rank: int) -> Path:
        """RankProgress of one global rank, for the watchdog of its node."""
        return self.root / f"progress-{rank}"

    def rank_progress_files(self) -> list[Path]:
        return list(self.root.glob("progress-*"))

    def rank_ends(self) -> list[Path]:
        """Of the ranks that have left, in no order."""
        return list(self.root.glob("ended-*.json"))

    def rank_logs(self) -> dict[int, Path]:
        """Global rank -> log, for the ranks that have written."""
        found = {path.stem.removeprefix("rank-"): path for path in self.root.glob("rank-*.log")}
        return {int(rank): path for rank, path in found.items() if rank.isdigit()}


@dataclass(frozen=True)
class AttemptPaths:
    """`attempts/<n>/`."""

    root: Path

    @property
    def number(self) -> int:
        return int(self.root.name)

    @property
    def run(self) -> RunPaths:
        return RunPaths(self.root.parent.parent)

    @property
    def stop(self) -> Path:
        """Anyone may create it to say "save and leave": a StopReason, then free text."""
        return self.root / "stop"

    @property
    def abort(self) -> Path:
        """Anyone may create it to say "end now": an AbortReason, then free text. Agents obey it, ranks never see it."""
        return self.root / "abort"

    @property
    def memory_snapshot_request(self) -> Path:
        """Anyone may touch it to have each rank write down what holds its GPU's memory."""
        return self.root / "memory"

    @property
    def allocation(self) -> Path:
        """Allocation, under Slurm: written before the agents start."""
        return self.root / "allocation.json"

    @property
    def outcome(self) -> Path:
        """Outcome, written by rank 0."""
        return self.root / "outcome.json"

    @property
    def verdict(self) -> Path:
        """Verdict: what the supervisor made of the attempt's end."""
        return self.root / "verdict.json"

    @property
    def events(self) -> Path:
        """What the supervisor did, one line each."""
        return self.root / "events.log"

    def node(self, node_rank: int) -> NodePaths:
        return NodePaths(self.root / f"node-{node_rank}")

    def nodes(self) -> list[NodePaths]:
        """The nodes that have left anything, by node rank."""
        found = [NodePaths(p) for p in self.root.glob("node-*") if p.name.removeprefix("node-").isdigit()]
        return sorted(found, key=lambda node: node.node_rank)


@dataclass(frozen=True)
class RunPaths:
    """`runs/<run_id>/`."""

    root: Path

    @classmethod
    def of(cls, root: str | Path) -> RunPaths:
        return cls(Path(root))

    @property
    def record(self) -> Path:
        """RunRecord: written only by the submitting side, under `lock`."""
        return self.root / "run.json"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def plan(self) -> Path:
        """LaunchPlan of the newest submission."""
        return self.root / "plan.json"

    @property
    def job(self) -> Path:
        return self.root / "job.yaml"

    @property
    def profile(self) -> Path:
        return self.root / "profile.yaml"

    @property
    def trainer_config(self) -> Path:
        return self.root / "trainer.json"

    @property
    def secrets(self) -> Path:
        """Values of `pass_env`, mode 0600; never printed."""
        return self.root / "secrets.json"

    @property
    def code(self) -> Path:
        """The snapshot that ranks run: PYTHONPATH."""
        return self.root / "code"

    @property
    def source(self) -> Path:
        """Snapshot of the user's own project, for own entrypoints: where ranks start."""
        return self.code / "src"

    @property
    def supervisor(self) -> Path:
        """ProcessIdentity of the supervisor, for runs that have one."""
        return self.root / "supervisor.json"

    @property
    def supervisor_log(self) -> Path:
        return self.root / "supervisor.log"

    @property
    def slurm(self) -> Path:
        """SlurmRefs: the run's jobs, for runs under Slurm."""
        return self.root / "slurm.json"

    def job_claim(self, submission: int) -> Path:
        """Note of the one Slurm job that may run a submission: its id."""
        return self.root / f"job-of-submission-{submission}"

    @property
    def batch_log(self) -> Path:
        """Output of the batch script, for runs under Slurm: all jobs of the run, one after the other."""
        return self.root / "batch.log"

    @property
    def supervisor_lock(self) -> Path:
        """Held by the supervisor as long as it lives: a run has one, wherever it was started."""
        return self.root / "supervisor.lock"

    @property
    def dropped(self) -> Path:
        """tuple[DroppedHost, ...], the oldest first: hosts that the supervisor has replaced."""
        return self.root / "dropped.json"

    @property
    def rewinds(self) -> Path:
        """tuple[Rewind, ...], the oldest first: to which steps a run without a shared disk went back."""
        return self.root / "rewinds.json"

    @property
    def waiting(self) -> Path:
        """What the supervisor waits for, in words; absent while it waits for nothing."""
        return self.root / "waiting"

    @property
    def metrics(self) -> Path:
        return self.root / "metrics.jsonl"

    @property
    def profiles(self) -> Path:
        """Traces of chosen steps and snapshots of GPU memory, a file a rank."""
        return self.root / "profiles"

    @property
    def tensorboard(self) -> Path:
        return self.root / "tensorboard"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    def set_aside(self, attempt: int) -> Path:
        """Checkpoints that the run has gone back behind after `attempt`. Nothing reads them any more."""
        return self.checkpoints / f"set-aside-{attempt}"

    def all_set_aside(self) -> list[Path]:
        return sorted(self.checkpoints.glob("set-aside-*"))

    @property
    def attempts_root(self) -> Path:
        return self.root / "attempts"

    def attempt(self, number: int) -> AttemptPaths:
        return AttemptPaths(self.attempts_root / str(number))

    def attempts(self) -> list[AttemptPaths]:
        """All attempts so far, the oldest first."""
        root = self.attempts_root
        try:
            numbers = [int(name) for name in os.listdir(root) if name.isdigit()]
        except FileNotFoundError:
            return []
        return [AttemptPaths(root / str(number)) for number in sorted(numbers)]


CHECKPOINT_PREFIX = "step-"
CHECKPOINT_MANIFEST = "manifest.json"


def checkpoint_name(step: int) -> str:
    """Directory name of the checkpoint taken after `step` optimizer steps."""
    return f"{CHECKPOINT_PREFIX}{step:08d}"


def step_of(name: str) -> int:
    """The step in the name of a checkpoint's directory."""
    return int(name.removeprefix(CHECKPOINT_PREFIX))
