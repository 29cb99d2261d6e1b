"""Rules about precision, speed and settings of the trainer that are left over from a test."""

from __future__ import annotations

from collections.abc import Iterator

from fsdpctl.contract.trainer.trainer_config import BUILTIN, TrainerConfig
from fsdpctl.lint.batch import LONG_RUN
from fsdpctl.lint.rule import Found, rule
from fsdpctl.lint.subject import Subject
from fsdpctl.specs.lint import RuleId

MANY_RANKS = 64
MANY_SKIPPED = 100
MANY_TRACED = 20
SMALL_RATE = 1e-5
"""A learning rate that needs no warm-up."""
TRAINER = "docs/trainer.md"


@rule(
    RuleId.FP16,
    "warning",
    what="fp16 is asked for by name.",
    why="fp16 overflows above 65,504, so it needs a loss scale and skips steps; bf16 has the range of fp32, at nearly"
    " the same speed. GPUs since compute capability 8 (A100) have it.",
    change="`precision: auto` is bf16 where the GPU has it, and fp16 where it does not.",
    source=TRAINER,
)
def fp16(subject: Subject) -> Iterator[Found]:
    if subject.trainer is not None and subject.trainer.precision == "fp16" and subject.has_gpus:
        yield Found("trainer.precision", "fp16 needs a loss scale and skips steps that overflow; `auto` prefers bf16")


@rule(
    RuleId.FP32_ON_GPUS,
    "warning",
    what="GPUs compute in fp32.",
    why="Tensor cores do not work in fp32: an H100 has 67 TFLOP/s in fp32 and 989 in bf16, and activations need twice"
    " the memory. Weights and optimizer are fp32 at any `precision`.",
    change="Remove `precision`, or write `bf16`.",
    source=TRAINER,
)
def fp32_on_gpus(subject: Subject) -> Iterator[Found]:
    if subject.trainer is not None and subject.trainer.precision == "fp32" and subject.has_gpus:
        yield Found("trainer.precision", "in fp32 tensor cores are idle, and activations need twice the memory")


@rule(
    RuleId.BF16_REDUCTION,
    "advice",
    what="Gradients of many ranks are added up in bf16.",
    why="bf16 has 8 significant bits, and a reduction rounds at every rank: the more ranks, the more of a gradient is"
    " lost.",
    change="Remove `reduce_dtype`: fp32 costs twice the bytes of one collective, which the backward pass mostly hides.",
    source="https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html",
)
def bf16_reduction(subject: Subject) -> Iterator[Found]:
    if subject.trainer is not None and subject.trainer.reduce_dtype == "bf16" and subject.world >= MANY_RANKS:
        yield Found("trainer.reduce_dtype", f"gradients of {subject.world} ranks are rounded to 8 bits at every sum")


@rule(
    RuleId.COMPILE_OFF,
    "warning",
    what="torch.compile is switched off on GPUs.",
    why="Compiled blocks fuse norms, rotation and activation, so that the memory of the GPU is read less often: on an"
    " H200 a step of llm300m takes 249 ms, and 502 ms without the compiler. Only runs of a few steps end earlier"
    " without it.",
    change="Remove `compile`: it is used on GPUs.",
    source="docs/measured.md",
)
def compile_off(subject: Subject) -> Iterator[Found]:
    trainer = subject.trainer
    if trainer is not None and trainer.compile is False and subject.has_gpus and trainer.steps >= LONG_RUN:
        yield Found("trainer.compile", f"{trainer.steps:,} steps run without torch.compile")


@rule(
    RuleId.NO_WARMUP,
    "advice",
    what="Random weights start at the full learning rate.",
    why="AdamW divides by an estimate of the gradient's size. After one step the estimate is the gradient itself, so"
    " that every parameter moves by the whole learning rate, whatever its gradient: a transformer may diverge.",
    change="Set `optim.warmup_steps`: 1% of the steps, 100 at least.",
    source="https://arxiv.org/abs/1908.03265",
)
def no_warmup(subject: Subject) -> Iterator[Found]:
    trainer = subject.trainer
    if trainer is None or trainer.init_from is not None or trainer.steps < LONG_RUN:
        return
    if not trainer.optim.warmup_steps and trainer.optim.lr > SMALL_RATE:
        text = f"the first of {trainer.steps:,} steps has the full learning rate of {trainer.optim.lr:g}"
        yield Found("trainer.optim.warmup_steps", text)


@rule(
    RuleId.MANY_SKIPPED_STEPS,
    "warning",
    what="A run continues over hundreds of steps that are not finite.",
    why="A step whose loss or gradient is not finite changes nothing. After a few in a row the weights do not recover:"
    " the GPUs compute, and the model does not change.",
    change="Leave `max_skipped_steps` at 10, and look for the cause.",
    source=TRAINER,
)
def many_skipped_steps(subject: Subject) -> Iterator[Found]:
    if subject.trainer is not None and (limit := subject.trainer.max_skipped_steps) > MANY_SKIPPED:
        yield Found("trainer.max_skipped_steps", f"{limit:,} steps in a row may fail before the run ends")


@rule(
    RuleId.KEY_WITHOUT_EFFECT,
    "warning",
    what="A key is written that nothing reads in this job.",
    why="A value that has no effect is either left over, or expected to do something that does not happen.",
    change="Remove the key, or set what it depends on.",
    source="docs/jobs.md",
)
def key_without_effect(subject: Subject) -> Iterator[Found]:
    for key, text in unread_keys(subject):
        if key in subject.written:
            yield Found(key, text)


def unread_keys(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yield keys that have no effect here, written or not, and why."""
    if not subject.job.restarts:
        yield "restart_on", "with restarts: 0 the run never restarts after a failure"
    if subject.trainer is None:
        yield "hang.data", "it is for the bundled trainer: nothing is known of when your own script reads data"
    else:
        yield from unread_trainer_keys(subject.trainer)
        if not subject.has_gpus:
            yield "trainer.memory.cpu_offload", "without GPUs the parameters are in host memory anyway"
            yield "trainer.profile.memory", "without GPUs there is no GPU memory to record"
    if not subject.has_gpus:
        yield "network.ib_hcas", "without GPUs there is no NCCL, and gloo does not use InfiniBand"


def unread_trainer_keys(trainer: TrainerConfig) -> Iterator[tuple[str, str]]:
    """Yield keys of the trainer that its other keys make void, and why."""
    if (schedule := trainer.optim.schedule) != "wsd":
        yield "trainer.optim.decay_ratio", f"schedule {schedule} does not decay at the end as wsd does"
    if schedule == "constant":
        yield "trainer.optim.min_lr_ratio", "a constant schedule does not go down"
    if trainer.data.source != BUILTIN:
        yield "trainer.data.val_fraction", "prepared data has been split already, by `data prepare --val-fraction`"
    if trainer.profile.first_step is None:
        yield "trainer.profile.steps", "without first_step nothing is traced"


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
