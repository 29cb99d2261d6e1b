"""The files of one run."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract import BUNDLED_TRAINER
from fsdpctl.contract.paths.attempt import AttemptPaths

_NUMBERED = re.compile(r"(fork-server|notice|sent)-.+\.json|job-of-submission-\d+")
"""Files of which a run may have several."""


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

    def fork_server(self, node_rank: int) -> Path:
        """ForkServerRecord of a node, outside of attempts: the next one finds it there."""
        return self.root / f"fork-server-{node_rank}.json"

    @property
    def secrets(self) -> Path:
        """Values of `pass_env`, mode 0600; never printed."""
        return self.root / "secrets.json"

    @property
    def code(self) -> Path:
        """The code snapshot that ranks run, on their PYTHONPATH."""
        return self.root / "code"

    def packages(self) -> tuple[Path, Path]:
        """The packages in `code` that are replaced as a whole: fsdpctl's node side and the bundled trainer."""
        return self.code / "fsdpctl", self.code / BUNDLED_TRAINER

    @property
    def source(self) -> Path:
        """Snapshot of the user's project, for a user's entrypoint: the working directory of its ranks."""
        return self.code / "src"

    @property
    def copied(self) -> Path:
        """CopiedFiles: which files of `source` the copies of the project brought; all others are of ranks."""
        return self.root / "copied.json"

    @property
    def git(self) -> Path:
        """GitFacts: the commit of the project at the submit."""
        return self.root / "git.json"

    @property
    def git_diff(self) -> Path:
        """What was edited since that commit, as a patch."""
        return self.root / "git.diff"

    @property
    def supervisor(self) -> Path:
        """ProcessIdentity of the supervisor, for runs that have one."""
        return self.root / "supervisor.json"

    @property
    def supervisor_log(self) -> Path:
        return self.root / "supervisor.log"

    @property
    def slurm(self) -> Path:
        """SlurmRefs: the Slurm jobs of the run."""
        return self.root / "slurm.json"

    def job_claim(self, submission: int) -> Path:
        """Return the file with the id of the one Slurm job that may run a submission."""
        return self.root / f"job-of-submission-{submission}"

    @property
    def batch_log(self) -> Path:
        """Output of the batch script under Slurm: of all jobs of the run, one after the other."""
        return self.root / "batch.log"

    @property
    def supervisor_lock(self) -> Path:
        """Lock that the supervisor holds while it runs: a run has one supervisor, on whichever machine."""
        return self.root / "supervisor.lock"

    @property
    def dropped(self) -> Path:
        """tuple[DroppedHost, ...], the oldest first: hosts that the supervisor has replaced."""
        return self.root / "dropped.json"

    @property
    def suspects(self) -> Path:
        """tuple[Suspect, ...], the oldest first: nodes that other runs should get last."""
        return self.root / "suspects.json"

    @property
    def rewinds(self) -> Path:
        """tuple[Rewind, ...], the oldest first: to which steps a run without a shared disk went back."""
        return self.root / "rewinds.json"

    @property
    def waiting(self) -> Path:
        """What the supervisor waits for, as text; absent while it waits for nothing."""
        return self.root / "waiting"

    @property
    def pinned(self) -> Path:
        """While it exists, `gc` removes nothing of the run."""
        return self.root / "pinned"

    @property
    def notices(self) -> Path:
        """Event records of the processes that send notices, one per line."""
        return self.root / "notices.jsonl"

    def pending_notice(self, number: int) -> Path:
        """Return the file with a Notice that is being sent; its process holds a lock on it, and deletes it."""
        return self.root / f"notice-{number}.json"

    def pending_notices(self) -> list[Path]:
        return sorted(self.root.glob("notice-*.json"))

    @property
    def metrics(self) -> Path:
        return self.root / "metrics.jsonl"

    @property
    def evaluations(self) -> Path:
        """Results of evaluations of the bundled trainer, one per line."""
        return self.root / "evaluations.jsonl"

    def tracker_state(self, name: str) -> Path:
        """Return the file with Sent: what a tracker got of `metrics` and `evaluations`."""
        return self.root / f"sent-{name}.json"

    @property
    def wandb(self) -> Path:
        """What the tracker of W&B writes."""
        return self.root / "wandb"

    @property
    def compile_cache(self) -> Path:
        """What torch's compiler made for this run: a line with a digest, and an archive. Of the bundled trainer."""
        return self.root / "compile-cache"

    @property
    def profiles(self) -> Path:
        """Traces of chosen steps and snapshots of GPU memory, one file per rank."""
        return self.root / "profiles"

    @property
    def tensorboard(self) -> Path:
        return self.root / "tensorboard"

    @property
    def benchmark_files(self) -> Path:
        """Files that `bench io` writes and removes again."""
        return self.root / "benchmark-files"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    def set_aside(self, attempt: int) -> Path:
        """Return the directory of checkpoints that a rewind after `attempt` has discarded. Nothing reads them."""
        return self.checkpoints / f"set-aside-{attempt}"

    def all_set_aside(self) -> list[Path]:
        return sorted(self.checkpoints.glob("set-aside-*"))

    @property
    def attempts_root(self) -> Path:
        return self.root / "attempts"

    def attempt(self, number: int) -> AttemptPaths:
        return AttemptPaths(self.attempts_root / str(number))

    def attempts(self) -> list[AttemptPaths]:
        """Return all attempts so far, the oldest first."""
        root = self.attempts_root
        try:
            numbers = [int(name) for name in os.listdir(root) if name.isdecimal()]
        except FileNotFoundError:
            return []
        return [AttemptPaths(root / str(number)) for number in sorted(numbers)]

    def others(self) -> list[Path]:
        """Return what is in the run directory under none of these names and not hidden: a script or a user wrote it."""
        own = [getattr(self, name) for name, member in vars(RunPaths).items() if isinstance(member, property)]
        found = [path for path in self.root.iterdir() if path not in own and not path.name.startswith(".")]
        return [path for path in found if not _NUMBERED.fullmatch(path.name)]
