"""Division of the work over a world of ranks: the mesh of parameters, and each rank's part of the batch."""

from __future__ import annotations

from fsdpctl.contract.trainer.trainer_config import BatchConfig, MeshConfig


def resolve_mesh(mesh: MeshConfig, nodes: int, procs_per_node: int) -> tuple[int, int]:
    """Return (replicate, shard) for a world of nodes x procs_per_node ranks.

    HYBRID_SHARD has PyTorch's meaning: shard within a node, over the fast links, and replicate across nodes.
    Raises ValueError when the sizes do not multiply to the world size.
    """
    world = nodes * procs_per_node
    default = {
        "HYBRID_SHARD": (nodes, procs_per_node),
        "_HYBRID_SHARD_ZERO2": (nodes, procs_per_node),
        "FULL_SHARD": (1, world),
        "SHARD_GRAD_OP": (1, world),
        "NO_SHARD": (world, 1),
        "DDP": (world, 1),
    }[mesh.strategy]
    if mesh.replicate is None and mesh.shard is None:
        return default
    ranks = f"{world} ranks ({nodes} {'node' if nodes == 1 else 'nodes'} x {procs_per_node})"
    given = {key: size for key in ("replicate", "shard") if (size := getattr(mesh, key)) is not None}
    for key, size in given.items():
        if world % size:
            raise ValueError(f"{key} {size} does not divide the {ranks}")
    replicate = given["replicate"] if "replicate" in given else world // given["shard"]
    shard = given["shard"] if "shard" in given else world // replicate
    if replicate * shard != world:
        raise ValueError(f"replicate {replicate} x shard {shard} = {replicate * shard}, but there are {ranks}")
    if replicate != 1 and mesh.strategy in ("FULL_SHARD", "SHARD_GRAD_OP"):
        hybrid = "HYBRID_SHARD" if mesh.strategy == "FULL_SHARD" else "_HYBRID_SHARD_ZERO2"
        raise ValueError(f"{mesh.strategy} replicates nothing, but replicate is {replicate}; use {hybrid}")
    if mesh.strategy in ("NO_SHARD", "DDP") and shard != 1:
        raise ValueError(f"{mesh.strategy} shards nothing, but shard is {shard}; use HYBRID_SHARD")
    return replicate, shard


def split_batch(batch: BatchConfig, world: int) -> tuple[int, int]:
    """Return (micro_batch, accumulation steps): sequences = world * micro_batch * accumulation.

    The micro-batch is the largest divisor of a rank's share that does not exceed `batch.limit`.
    Raises ValueError when the global batch does not divide over the world.
    """
    if batch.sequences % world:
        raise ValueError(f"a global batch of {batch.sequences} sequences does not divide over {world} ranks")
    share = batch.sequences // world
    micro = next(m for m in range(min(batch.limit, share), 0, -1) if share % m == 0)
    return micro, share // micro
