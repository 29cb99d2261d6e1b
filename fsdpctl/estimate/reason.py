"""Why a way to train is recommended: the usual decision tree, with the numbers that decided."""

from __future__ import annotations

from collections.abc import Iterator

from fsdpctl.contract.cards import GIB
from fsdpctl.estimate.changes import Change
from fsdpctl.estimate.choices import OFFLOAD, Choice, Planner
from fsdpctl.estimate.result import Estimate, Fit, estimate
from fsdpctl.estimate.traffic import compute_bytes


def reasons(choice: Choice, planner: Planner) -> list[str]:
    """Return the reasons for a choice as sentences: its strategy, and what else it changes."""
    return [_of_strategy(choice.estimate, planner), *_of_others(choice, planner)]


def _of_strategy(best: Estimate, planner: Planner) -> str:
    strategy, world, units = best.config.mesh.strategy, best.world, best.sizes.units
    gathered = f"{compute_bytes(best.config) * best.sizes.parameters / GIB:.1f} GiB"
    if world.ranks == 1:
        return "One GPU: nothing is sharded."
    if strategy in ("DDP", "NO_SHARD"):
        return f"{strategy}: a GPU holds the whole model, its gradients and moments, so nothing has to be gathered."
    not_whole = _why_not_whole(best, planner)
    if not units.sizes:
        return f"{strategy}: {not_whole}; as one unit it is gathered once for forward and backward pass."
    if strategy in ("SHARD_GRAD_OP", "_HYBRID_SHARD_ZERO2"):
        kept = f"weights stay gathered from forward to backward pass ({gathered}), which saves half of the gathers"
        return f"{strategy}: {not_whole}; {kept}."
    freed = f"units are freed after each pass, instead of {gathered} that stay"
    if world.nodes > 1 and world.shards_within_node:
        links = f"gathers stay on a node's {best.card.link}, and only gradients cross the network"
        return f"{strategy}: a node's {world.procs_per_node} GPUs hold a copy, so {links}; {freed}."
    if world.nodes > 1:
        return f"{strategy}: over all {world.ranks} GPUs a rank holds the smallest part; {freed}."
    return f"{strategy}: {not_whole}; {freed}."


def _why_not_whole(best: Estimate, planner: Planner) -> str:
    """Return why not every GPU holds the whole model."""
    whole = _after(planner, best, Change(strategy="DDP", offload=False))
    if whole is None:
        return "a GPU holds only its part"
    size = f"{whole.memory.total / GIB:.1f} GiB"
    if whole.left_bytes < 0:
        return f"one GPU cannot hold all of it ({size})"
    return f"DDP would need {size} and be no faster by more than 3%"


def _of_others(choice: Choice, planner: Planner) -> Iterator[str]:
    best, config = choice.estimate, choice.estimate.config
    if OFFLOAD in choice.keys:
        yield "Offload: nothing else fits; steps wait for the host's memory, and are much slower."
    if (how := config.memory.recompute) != "none":
        without = _after(planner, best, Change(recompute="none"))
        needs = f": without it {without.memory.total / GIB:.1f} GiB would be needed" if without else ""
        yield f"Recomputing ({how}){needs}."
    if (size := config.batch.limit) != (before := planner.config.batch.limit):
        yield f"Micro-batch {size} instead of {before}; the global batch stays {config.batch.sequences} sequences."
    if best.batch.accumulation > 1 and best.world.shard > 1:
        whole = f"{best.sizes.trained * 4 / GIB:.1f} GiB"
        yield f"Accumulation: until the last micro-step, gradients are whole on each GPU ({whole})."
    if not choice.keys and best.fit is Fit.FITS:
        yield "No other strategy, micro-batch or recomputing is expected to be faster by more than 3%."


def _after(planner: Planner, best: Estimate, change: Change) -> Estimate | None:
    """Return the choice after another change; None where that is none, or not possible."""
    try:
        other = change.apply(best.config)
        return None if other == best.config else estimate(other, planner.cluster, planner.card)
    except ValueError:
        return None
