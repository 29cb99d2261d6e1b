"""A job that nothing makes fit: whether whole gradients of accumulation are the reason, and which batch avoids them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from fsdpctl.contract.cards import GIB
from fsdpctl.contract.trainer.trainer_config import BatchConfig
from fsdpctl.estimate.changes import Change, keys_between, set_options
from fsdpctl.estimate.choices import RECOMPUTES, Choice, Planner
from fsdpctl.estimate.result import estimate
from fsdpctl.estimate.sizes import ModelSizes


def explain_misfit(planner: Planner) -> str:
    """Return why no strategy, micro-batch or recomputing makes the job fit, and what to change instead."""
    nothing = "no strategy, micro-batch or recomputing makes it fit"
    if (choice := largest_batch_at_once(planner)) is None:
        return f"{nothing}: it needs more GPUs, or larger ones"
    whole = f"{ModelSizes(planner.config).trained * 4 / GIB:.1f} GiB"
    reason = (
        f"until the last micro-step of accumulation, gradients are whole on each GPU ({whole}, on any number of nodes)"
    )
    largest = f"the largest global batch without accumulation is {choice.estimate.batch.sequences} sequences"
    return f"{nothing}: {reason}; {largest}: {set_options(choice.keys)}"


def largest_batch_at_once(planner: Planner) -> Choice | None:
    """Return the largest global batch that fits as one micro-batch of each rank, smaller than the job's."""
    ranks = planner.cluster.nodes * planner.cluster.procs_per_node
    each = (planner.config.batch.sequences - 1) // ranks
    for micro_batch in (2**power for power in range(each.bit_length() - 1, -1, -1)):
        fitting = [one for one in _at_once(planner, micro_batch, ranks) if one.estimate.left_bytes >= 0]
        if fitting:
            return min(fitting, key=lambda one: (one.cost, one.seconds))
    return None


def _at_once(planner: Planner, micro_batch: int, ranks: int) -> Iterator[Choice]:
    """Yield the ways to train with one micro-batch of each rank."""
    sequences = micro_batch * ranks
    for strategy, recompute in product(planner.names(), RECOMPUTES):
        try:
            changed = Change(strategy, micro_batch=micro_batch, recompute=recompute).apply(planner.config)
            changed = replace(changed, batch=BatchConfig(sequences=sequences, micro_batch=micro_batch))
            others = keys_between(replace(planner.config, batch=changed.batch), changed)
            # as a whole, for a job that gives its batch as tokens
            keys = (f"trainer.batch={{sequences: {sequences}, micro_batch: {micro_batch}}}", *others)
            yield Choice(keys, estimate(changed, planner.cluster, planner.card))
        except ValueError:
            continue
