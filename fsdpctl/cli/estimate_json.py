"""The estimate of a job as the value that `--json` prints."""

from __future__ import annotations

from fsdpctl.cli.shapes.estimate import EstimatedChoice, EstimatedJob, EstimatedMemory, EstimatedTraffic
from fsdpctl.estimate.choices import Choice
from fsdpctl.estimate.reason import reasons
from fsdpctl.estimate.simple import simple_view
from fsdpctl.verbs.estimate import Estimated


def as_shape(found: Estimated) -> EstimatedJob:
    """Return the whole estimate; sizes in bytes, times in seconds."""
    result, planner, price = found.estimate, found.planner, found.profile.price_per_gpu_hour
    world, batch, memory, traffic = result.world, result.batch, result.memory, result.traffic
    best, small = planner.recommend(), planner.smallest_change()
    return EstimatedJob(
        job=found.job.name,
        profile=found.profile.name,
        gpu=result.card.name,
        gpu_source=found.card_source,
        gpu_memory=result.card.memory_bytes,
        nodes=world.nodes,
        procs_per_node=world.procs_per_node,
        mesh=(world.replicate, world.shard),
        parameters=result.sizes.parameters,
        micro_batch=batch.micro_batch,
        accumulation=batch.accumulation,
        sequences=batch.sequences,
        tokens_per_step=batch.tokens,
        fit=result.fit.name.lower(),
        left=round(result.left_bytes),
        memory=EstimatedMemory(
            moment=memory.moment.name.lower(),
            items={item.name.lower(): round(size) for item, size in memory.items.items()},
            allocated=round(memory.allocated),
            total=round(memory.total),
        ),
        textbook={stage: round(size) for stage, size in simple_view(result.sizes.parameters, world.ranks).items()},
        recommended=_choice(best) if best else None,
        reasons=tuple(reasons(best, planner)) if best else (),
        smallest_change=_choice(small) if small else None,
        strategies=tuple(map(_choice, planner.strategies())),
        batches=tuple(map(_choice, planner.batches())),
        traffic=EstimatedTraffic(
            link_bytes=round(traffic.link_bytes),
            link_s=traffic.link_s,
            network_bytes=round(traffic.network_bytes),
            network_s=traffic.network_s,
            network_is_assumed=result.rates.network_is_assumed,
        ),
        step_s=result.time.total,
        compute_s=result.time.compute,
        exposed_s=result.time.exposed,
        optimizer_s=result.time.optimizer,
        tokens_per_s=result.tokens_per_s,
        mfu=result.mfu,
        tokens=result.tokens,
        days=result.seconds / 86400,
        gpu_hours=result.gpu_hours,
        cost=result.gpu_hours * price if price is not None else None,
        checkpoint_bytes=result.checkpoint_bytes,
        checkpoint_s=result.checkpoint_s,
        notes=found.notes,
    )


def _choice(choice: Choice) -> EstimatedChoice:
    result = choice.estimate
    return EstimatedChoice(
        keys=choice.keys,
        strategy=result.config.mesh.strategy,
        micro_batch=result.batch.micro_batch,
        recompute=result.config.memory.recompute,
        memory=round(result.memory.total),
        fit=result.fit.name.lower(),
        step_s=result.time.total,
        tokens_per_s=result.tokens_per_s,
        mfu=result.mfu,
    )
