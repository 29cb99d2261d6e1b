"""Rules about precision, compilation and the learning rate."""

from __future__ import annotations

from collections.abc import Iterator

from fsdpctl.lint.batch import LONG_RUN
from fsdpctl.lint.rule import Found, rule
from fsdpctl.lint.subject import Subject
from fsdpctl.specs.lint import RuleId

MANY_RANKS = 64
MANY_SKIPPED = 100
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
    has_bf16 = subject.card is None or subject.card.has_bf16
    if subject.trainer is not None and subject.trainer.precision == "fp16" and subject.has_gpus and has_bf16:
        yield Found("trainer.precision", "fp16 needs a loss scale and skips steps that overflow; `auto` prefers bf16")


@rule(
    RuleId.EMULATED_BF16,
    "warning",
    what="bf16 is asked for on GPUs that do not have it.",
    why="GPUs before compute capability 8 (V100, T4) emulate bf16, very slowly.",
    change="Remove `precision`: `auto` is fp16 with a loss scale there.",
    source=TRAINER,
)
def emulated_bf16(subject: Subject) -> Iterator[Found]:
    card = subject.card
    if subject.trainer is not None and subject.trainer.precision == "bf16" and card is not None and not card.has_bf16:
        yield Found("trainer.precision", f"a {card.name} emulates bf16, very slowly; `auto` is fp16 there")


@rule(
    RuleId.NO_FLOAT8,
    "warning",
    what="float8 is asked for on GPUs that do not have it.",
    why="Tensor cores multiply float8 since compute capability 8.9 (L4, L40S, RTX 4090, H100). `submit`"
    " refuses it on others where the profile names their kind, and ranks end at their start.",
    change="Write `bf16`, or remove `precision`.",
    source=TRAINER,
)
def no_float8(subject: Subject) -> Iterator[Found]:
    card, trainer = subject.card, subject.trainer
    if trainer is not None and trainer.precision == "float8" and card is not None and not card.has_float8:
        yield Found("trainer.precision", f"a {card.name} multiplies no float8: `submit` refuses it")


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
        yield Found("trainer.max_skipped_steps", f"{limit:,} steps in a row may fail before the attempt ends")
