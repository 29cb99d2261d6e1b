"""Rules about micro-batches and evaluation."""

from __future__ import annotations

from collections.abc import Iterator

from fsdpctl.lint.rule import Found, rule
from fsdpctl.lint.subject import Subject
from fsdpctl.specs.lint import RuleId

TOKENS_WITHIN_NODE, TOKENS_BETWEEN_NODES = 2048, 8192
"""Tokens of a micro-batch below which gathering a unit takes longer than computing with it.

Of each parameter 2 bytes are gathered, and 2 floating-point operations are done per token: on an H100 (400 TFLOP/s)
with NVLink (300 GB/s) they take the same time at 1,300 tokens, with a network of 400 Gbit/s per GPU at 8,000.
"""
LONG_RUN = 1000
"""Steps of a run that is more than a test."""
COSTLY = 0.1
HALF = 0.5


@rule(
    RuleId.MICRO_BATCH_SHRUNK,
    "warning",
    what="The micro-batch in use is at most half of the one that is allowed.",
    why="`batch.micro_batch` is an upper limit: the largest divisor of a rank's share of the global batch is taken."
    " With a share that has no large divisor, such as a prime number, many small forward passes replace a few large"
    " ones.",
    change="Choose a global batch whose share per rank is a multiple of `micro_batch`.",
    source="docs/jobs.md",
)
def micro_batch_shrunk(subject: Subject) -> Iterator[Found]:
    if subject.trainer is None:
        return
    batch = subject.trainer.batch
    micro, repeats = subject.micro_batch
    share = micro * repeats
    allowed = min(batch.limit, share)
    if 2 * micro <= allowed:
        text = f"{share} sequences of each rank divide into micro-batches of {micro}, though {allowed} are allowed"
        yield Found("trainer.batch.micro_batch", text)


@rule(
    RuleId.SMALL_MICRO_BATCH,
    "advice",
    what="Parameters are gathered for few tokens, several times a step.",
    why="With a sharded model each micro-batch gathers all parameters again. Below about 2,000 tokens within a node,"
    " and 8,000 over a network of 400 Gbit/s per GPU, the gather takes longer than the compute that could hide it, and"
    " accumulation repeats that.",
    change="Raise `batch.micro_batch`: the global batch stays the same; `memory.recompute` makes room.",
    source="docs/trainer.md",
)
def small_micro_batch(subject: Subject) -> Iterator[Found]:
    mesh, trainer = subject.plan.mesh, subject.trainer
    if mesh is None or trainer is None or mesh.shard == 1 or not subject.has_gpus:
        return
    micro, repeats = subject.micro_batch
    tokens, is_within = micro * trainer.model.seq_len, mesh.shard <= subject.procs
    if repeats > 1 and tokens < (TOKENS_WITHIN_NODE if is_within else TOKENS_BETWEEN_NODES):
        where = "within the node" if is_within else "between nodes"
        text = f"{tokens:,} tokens a micro-batch, {repeats} times a step: each gathers all parameters {where}"
        yield Found("trainer.batch.micro_batch", text)


@rule(
    RuleId.EVALUATION_PADDING,
    "advice",
    what="Half or more of each evaluation is padding.",
    why="All ranks must make the same number of forward passes, so the sequences of an evaluation are filled up to a"
    " multiple of ranks x micro-batch. The padding costs as much as real sequences.",
    change="Make `eval.sequences` a multiple of ranks x micro-batch.",
    source="docs/trainer.md",
)
def evaluation_padding(subject: Subject) -> Iterator[Found]:
    trainer = subject.trainer
    if trainer is None or trainer.eval.every_steps is None:
        return
    wanted, block = trainer.eval.sequences, subject.world * subject.micro_batch[0]
    computed = wanted + -wanted % block
    if wanted <= HALF * computed:
        text = f"{wanted} sequences take as long as {computed}: {subject.world} ranks x {subject.micro_batch[0]}"
        yield Found("trainer.eval.sequences", text)


@rule(
    RuleId.EVALUATION_COST,
    "warning",
    what="Evaluation takes more than a tenth of the time.",
    why="A sequence of an evaluation is a forward pass, a third of the work of one in training.",
    change="Evaluate less often (`eval.every_steps`), or on fewer sequences.",
    source="docs/trainer.md",
)
def evaluation_cost(subject: Subject) -> Iterator[Found]:
    trainer = subject.trainer
    if trainer is None or trainer.eval.every_steps is None:
        return
    trained = 3 * min(trainer.eval.every_steps, trainer.steps) * trainer.batch.sequences
    share = trainer.eval.sequences / (trainer.eval.sequences + trained)
    if share > COSTLY:
        text = f"{trainer.eval.sequences} sequences every {trainer.eval.every_steps} steps take {share:.0%} of the time"
        yield Found("trainer.eval.every_steps", text)


@rule(
    RuleId.NO_EVALUATION,
    "advice",
    what="A long run is evaluated only at its end.",
    why="The training loss does not show overfitting, nor a mistake in the data of one split.",
    change="Set `eval.every_steps`; 1% of the time is enough.",
    source="docs/trainer.md",
)
def no_evaluation(subject: Subject) -> Iterator[Found]:
    trainer = subject.trainer
    if trainer is None or trainer.steps < LONG_RUN:
        return
    every = trainer.eval.every_steps
    if every is None or every >= trainer.steps:
        before = " before the last one" if trainer.eval.sequences else ""
        yield Found("trainer.eval.every_steps", f"{trainer.steps:,} steps without an evaluation{before}")
