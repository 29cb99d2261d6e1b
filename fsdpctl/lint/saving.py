"""Rules about checkpoints, and the disks and the memory that they need."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fsdpctl.contract.formats.manifest import save_fits
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.lint.batch import LONG_RUN
from fsdpctl.lint.rule import Found, rule
from fsdpctl.lint.sizes import WRITE_RATE, gib, saved_bytes, shortest_step_s
from fsdpctl.lint.subject import Subject
from fsdpctl.schema.types import format_duration
from fsdpctl.specs.lint import RuleId

RARE_S = 3600
"""Work on the fastest GPUs that one failure may repeat; two or three times that on others."""
FAST_DISK = 5
"""By how much a fast disk exceeds `WRITE_RATE`."""
SHORT_RUN = 20
"""Steps of a run that is repeated sooner than saved."""
LARGE = 100e9
"""Bytes that a home directory often has no room for."""
VOLATILE = ("/tmp", "/var/tmp", "/dev/shm", "/run")
OF_ONE_NODE = (*VOLATILE, "/local", "/localscratch", "/mnt/local", "/raid")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
PAGE = "docs/checkpoints.md"


def saving_trainer(subject: Subject) -> TrainerConfig | None:
    """Return the configuration of a bundled trainer that writes checkpoints."""
    trainer = subject.trainer
    return trainer if trainer is not None and trainer.checkpoint.mode != "none" else None


@rule(
    RuleId.NO_CHECKPOINTS,
    "warning",
    what="A long run writes no checkpoints.",
    why="`checkpoint.mode: none` is for measurements: a failure, a stop or a time limit loses all steps, and the"
    " trained model is not kept either.",
    change="Remove `checkpoint.mode`.",
    source=PAGE,
)
def no_checkpoints(subject: Subject) -> Iterator[Found]:
    trainer = subject.trainer
    if trainer is not None and trainer.checkpoint.mode == "none" and trainer.steps >= LONG_RUN:
        yield Found("trainer.checkpoint.mode", f"nothing of {trainer.steps:,} steps is kept")


@rule(
    RuleId.SHORT_GRACE,
    "warning",
    what="The grace is shorter than a save.",
    why="At a stop, a time limit or a preemption the ranks save within `grace`. A save that does not fit is not"
    " started: the run continues from its last checkpoint and repeats the steps since.",
    change="Raise `grace`; every save records how long it took (`save_s` in its manifest).",
    source=PAGE,
)
def short_grace(subject: Subject) -> Iterator[Found]:
    trainer = saving_trainer(subject)
    if trainer is None or not subject.has_gpus:
        return
    save_s = saved_bytes(trainer) / (WRITE_RATE * subject.nodes)
    if not save_fits(save_s, subject.job.grace):
        size, grace = gib(saved_bytes(trainer)), format_duration(subject.job.grace)
        yield Found("grace", f"{size} take {save_s:.0f} s to save at 1 GB/s a node; grace is {grace}")


@rule(
    RuleId.RARE_SAVES,
    "warning",
    what="More than an hour of work is between two checkpoints, even on the fastest GPUs.",
    why="A failure repeats the steps since the last checkpoint, on all GPUs. An asynchronous save stops training for"
    " less than a second, so a shorter interval costs almost nothing.",
    change="Lower `checkpoint.every_steps`, to half an hour or less.",
    source=PAGE,
)
def rare_saves(subject: Subject) -> Iterator[Found]:
    trainer = saving_trainer(subject)
    if trainer is None or not subject.has_gpus:
        return
    interval_s = min(trainer.checkpoint.every_steps, trainer.steps) * shortest_step_s(subject, trainer)
    if interval_s > RARE_S:
        every = trainer.checkpoint.every_steps
        text = f"{every} steps take {interval_s / 3600:.1f} hours at least: a failure repeats them"
        yield Found("trainer.checkpoint.every_steps", text)


@rule(
    RuleId.FREQUENT_SAVES,
    "warning",
    what="Checkpoints are due faster than a disk can take them.",
    why="There is one save at a time: training waits at the next one until the disk has the last one.",
    change="Raise `checkpoint.every_steps`.",
    source=PAGE,
)
def frequent_saves(subject: Subject) -> Iterator[Found]:
    trainer = saving_trainer(subject)
    if trainer is None or not subject.has_gpus or trainer.checkpoint.every_steps >= trainer.steps:
        return
    every = trainer.checkpoint.every_steps
    rate = saved_bytes(trainer) / (every * shortest_step_s(subject, trainer))
    if rate > FAST_DISK * WRITE_RATE * subject.nodes:
        size = gib(saved_bytes(trainer))
        plural = "step" if every == 1 else f"{every} steps"
        yield Found(
            "trainer.checkpoint.every_steps", f"{size} every {plural} are {rate / 1e9:.0f} GB/s: training waits"
        )


@rule(
    RuleId.NO_SAVE_BEFORE_END,
    "warning",
    what="The first checkpoint is the last one.",
    why="Until the end there is nothing to continue from: a failure in the last step repeats the whole run.",
    change="Lower `checkpoint.every_steps`.",
    source=PAGE,
)
def no_save_before_end(subject: Subject) -> Iterator[Found]:
    trainer = saving_trainer(subject)
    if trainer is not None and trainer.checkpoint.every_steps >= trainer.steps > SHORT_RUN:
        text = f"none of the {trainer.steps:,} steps before the last one is saved"
        yield Found("trainer.checkpoint.every_steps", text)


@rule(
    RuleId.KEEP_ONE,
    "warning",
    what="One checkpoint is kept.",
    why="Checkpoints are verified when they are read: if the only one is damaged by then, there is nothing to continue"
    " from. `resume --step` cannot go back behind a spike of the loss either.",
    change="`checkpoint: {keep: 2}`, or more.",
    source=PAGE,
)
def keep_one(subject: Subject) -> Iterator[Found]:
    trainer = saving_trainer(subject)
    if trainer is not None and trainer.checkpoint.keep == 1:
        yield Found("trainer.checkpoint.keep", "a damaged checkpoint leaves none to continue from")


@rule(
    RuleId.LOCAL_RUN_ROOT,
    "warning",
    what="The runs of a cluster are in a directory that each node has for itself.",
    why="Run directories must be on a disk that all nodes and this machine share. Under /tmp each node finds another"
    " directory, and a reboot or a cleaning job removes it with its checkpoints.",
    change="Set `runs_root` to a shared file system; for SSH hosts without one, `backend.shared_filesystem: false`.",
    source="docs/profiles.md",
)
def local_run_root(subject: Subject) -> Iterator[Found]:
    root = subject.profile.runs_root
    folders = OF_ONE_NODE if subject.plan.shared_disk else VOLATILE
    if root is not None and subject.is_remote and f"{root}/".startswith(tuple(f"{folder}/" for folder in folders)):
        kind = "shared by all nodes" if subject.plan.shared_disk else "kept over a reboot"
        yield Found("runs_root", f"{root} is usually not {kind}")


@rule(
    RuleId.HOME_RUN_ROOT,
    "advice",
    what="Large checkpoints go into the home directory.",
    why="Without `runs_root` runs are stored below the home directory, which on most clusters has a small quota and is"
    " not made for files of many nodes. On hosts that are reached over SSH it is often not shared at all.",
    change="Set `runs_root` in the profile to a file system for large files.",
    source="docs/profiles.md",
)
def home_run_root(subject: Subject) -> Iterator[Found]:
    trainer = saving_trainer(subject)
    if subject.profile.runs_root is not None or trainer is None or not subject.is_remote:
        return
    stored = (trainer.checkpoint.keep + 1) * saved_bytes(trainer)
    if stored > LARGE:
        text = f"{trainer.checkpoint.keep + 1} checkpoints of {gib(saved_bytes(trainer))} below the home directory"
        yield Found("runs_root", text)


@rule(
    RuleId.SMALL_HOST_MEMORY,
    "warning",
    what="The memory that Slurm gives to a node cannot hold its part of a checkpoint.",
    why="An asynchronous save copies what a node writes into host memory, for as long as the run lasts. Slurm kills a"
    " job that needs more than `mem`.",
    change='Raise `backend.mem` (`"0"` is all memory of a node), or set `checkpoint.mode: sync`.',
    source=PAGE,
)
def small_host_memory(subject: Subject) -> Iterator[Found]:
    trainer, slurm = saving_trainer(subject), subject.slurm
    if trainer is None or slurm is None or trainer.checkpoint.mode == "sync" or not subject.has_gpus:
        return
    given, needed = memory_bytes(slurm.mem or "0"), saved_bytes(trainer) / subject.nodes
    if given and given < needed:
        yield Found("backend.mem", f"{slurm.mem} for a copy of {gib(needed)} on each node")


def memory_bytes(text: str) -> int:
    """Return the bytes of a value of `--mem`, in megabytes without a unit; 0 for all memory, or what is unknown."""
    found = re.fullmatch(r"(\d+)([KMGT])?B?", text.upper())
    return int(found[1]) * _UNITS[found[2] or "M"] if found else 0
