"""Rules about keys that have no effect, or are left over from a test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fsdpctl.contract.trainer.trainer_config import BUILTIN, TrainerConfig
from fsdpctl.lint.batch import LONG_RUN
from fsdpctl.lint.rule import Found, rule
from fsdpctl.lint.subject import Subject
from fsdpctl.schema.spec import Spec
from fsdpctl.specs.lint import RuleId

MANY_TRACED = 20


@rule(
    RuleId.KEY_WITHOUT_EFFECT,
    "warning",
    what="A key is changed that nothing reads in this job.",
    why="A value that has no effect is either left over, or expected to do something that does not happen.",
    change="Remove the key, or set what it depends on.",
    source="docs/jobs.md",
)
def key_without_effect(subject: Subject) -> Iterator[Found]:
    for key, owner, text in unread_keys(subject):
        if is_changed(owner, key.rpartition(".")[2]):
            yield Found(key, text)


def is_changed(owner: Any, name: str) -> bool:
    """Return whether a key of a model or dataclass has another value than its default."""
    is_model = isinstance(owner, Spec)
    field = type(owner).model_fields[name] if is_model else type(owner).__dataclass_fields__[name]
    return bool(getattr(owner, name) != field.default)


def unread_keys(subject: Subject) -> Iterator[tuple[str, Any, str]]:
    """Yield keys that nothing reads here, with the object that has them, and why."""
    job, trainer = subject.job, subject.trainer
    if subject.profile.has_container:
        text = "in a container each start is cold: the process that had imported torch would end with the agent"
        if job.warm:
            yield "warm", job, text
        yield "warm_imports", job, text
    if not job.restarts:
        yield "restart_on", job, "with restarts: 0 the run never restarts after a failure"
    if trainer is None:
        text = "it is for the bundled trainer: nothing is known of when your own script reads data"
        yield "hang.data", job.hang, text
    else:
        yield from unread_trainer_keys(trainer)
    if not subject.has_gpus:
        text = "without GPUs there is no NCCL, and gloo does not use InfiniBand"
        yield "network.ib_hcas", subject.profile.network, text
    if not subject.has_gpus and trainer is not None:
        text = "without GPUs the parameters are in host memory anyway"
        yield "trainer.memory.cpu_offload", trainer.memory, text
        yield "trainer.profile.memory", trainer.profile, "without GPUs there is no GPU memory to record"


def unread_trainer_keys(trainer: TrainerConfig) -> Iterator[tuple[str, Any, str]]:
    """Yield keys of the trainer that its other keys make void, with the object that has them, and why."""
    schedule = trainer.optim.schedule
    if schedule != "wsd":
        yield "trainer.optim.decay_ratio", trainer.optim, f"schedule {schedule} does not decay at the end as wsd does"
    if schedule == "constant":
        yield "trainer.optim.min_lr_ratio", trainer.optim, "a constant schedule does not go down"
    if trainer.data.source != BUILTIN:
        text = "prepared data has been split already, by `data prepare --val-fraction`"
        yield "trainer.data.val_fraction", trainer.data, text
    if trainer.profile.first_step is None:
        yield "trainer.profile.steps", trainer.profile, "without first_step nothing is traced"


@rule(
    RuleId.LONG_TRACE,
    "warning",
    what="The profiler traces many steps.",
    why="A trace has every kernel and every call, on every rank: tens of megabytes a step, which are held in memory"
    " and then written, and which viewers do not open.",
    change="Trace 3 to 5 steps.",
    source="https://docs.pytorch.org/docs/stable/profiler.html",
)
def long_trace(subject: Subject) -> Iterator[Found]:
    trainer = subject.trainer
    if trainer is not None and trainer.profile.first_step is not None and trainer.profile.steps > MANY_TRACED:
        yield Found(
            "trainer.profile.steps", f"{trainer.profile.steps} steps are traced, on each of {subject.world} ranks"
        )


@rule(
    RuleId.MEMORY_HISTORY,
    "advice",
    what="A long run records the stack of every allocation.",
    why="The record is for one question, why a GPU is out of memory. It takes time in each allocation.",
    change="Remove `profile.memory`; `touch attempts/1/memory` requests a snapshot of a run without it.",
    source="docs/trainer.md",
)
def memory_history(subject: Subject) -> Iterator[Found]:
    trainer = subject.trainer
    if trainer is not None and trainer.profile.memory and trainer.steps >= LONG_RUN and subject.has_gpus:
        yield Found("trainer.profile.memory", f"the stacks of all allocations of {trainer.steps:,} steps are recorded")
