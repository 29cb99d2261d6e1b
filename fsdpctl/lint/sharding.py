"""Rules about the mesh, the units and the memory options of the bundled trainer."""

from __future__ import annotations

from collections.abc import Iterator

from fsdpctl.contract.trainer.trainer_config import Strategy
from fsdpctl.contract.trainer.units import resolve_units
from fsdpctl.estimate.changes import Change
from fsdpctl.lint.rule import Found, rule
from fsdpctl.lint.sizes import PEAK_SHARE, STATE_SHARE, activation_bytes, gib, memory_of_gpu, state_of_rank
from fsdpctl.lint.subject import Subject
from fsdpctl.specs.lint import RuleId

HYBRID = ("HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")
FULL = ("FULL_SHARD", "SHARD_GRAD_OP")
LARGE_UNIT = 2_000_000_000
FSDP = "https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html"


@rule(
    RuleId.HYBRID_ON_ONE_NODE,
    "advice",
    what="A hybrid strategy is written in the job, which runs on one node.",
    why="Hybrid strategies shard within a node and replicate across nodes. On one node there is nothing to replicate,"
    " so HYBRID_SHARD is FULL_SHARD; with `replicate` above 1 each GPU holds more than it must, and gradients are"
    " reduced twice.",
    change="Write FULL_SHARD if the job stays on one node; ignore this rule if it also runs on several.",
    source="docs/trainer.md",
)
def hybrid_on_one_node(subject: Subject) -> Iterator[Found]:
    mesh = subject.plan.mesh
    key = "trainer.mesh.strategy"
    if mesh is None or mesh.strategy not in HYBRID or subject.nodes > 1 or subject.world == 1:
        return
    if mesh.replicate > 1 and mesh.shard > 1:
        text = f"one node holds {mesh.replicate} replicas of {mesh.shard} ranks each"
        yield Found(key, f"{text}; FULL_SHARD needs less memory, and is as fast within a node")
    elif key in subject.written:
        alike = "FULL_SHARD" if mesh.strategy == "HYBRID_SHARD" else "SHARD_GRAD_OP"
        yield Found(key, f"{mesh.strategy} on one node is {alike}: nothing is replicated")


@rule(
    RuleId.HYBRID_SHARDS_NOTHING,
    "warning",
    what="A hybrid strategy has one rank in each shard group.",
    why="Hybrid strategies shard over the ranks of a node. With one rank per node each rank holds the whole model, its"
    " gradients and its optimizer, as with NO_SHARD.",
    change="FULL_SHARD shards over the nodes; `mesh.shard` sets the ranks of a group.",
    source="docs/trainer.md",
)
def hybrid_shards_nothing(subject: Subject) -> Iterator[Found]:
    mesh = subject.plan.mesh
    if mesh is not None and mesh.strategy in HYBRID and mesh.shard == 1 and subject.world > 1:
        yield Found("trainer.mesh.strategy", f"{mesh.strategy} shards nothing: each rank holds the whole model")


@rule(
    RuleId.FULL_SHARD_BETWEEN_NODES,
    "warning",
    what="A model that fits into one node is sharded over several.",
    why="FULL_SHARD gathers every unit over the network, before its compute can begin: 2M(N-1)/N bytes into each GPU"
    " and step, for M bytes of parameters on N nodes. HYBRID_SHARD gathers within the node and sends 2M/P bytes, for P"
    " GPUs a node, which the backward pass hides.",
    change="`mesh: {strategy: HYBRID_SHARD}`, or `_HYBRID_SHARD_ZERO2` for SHARD_GRAD_OP.",
    source="docs/trainer.md",
)
def full_shard_between_nodes(subject: Subject) -> Iterator[Found]:
    mesh, trainer = subject.plan.mesh, subject.trainer
    if mesh is None or trainer is None or mesh.strategy not in FULL or not subject.has_gpus or not subject.has_network:
        return
    hybrid: Strategy = "HYBRID_SHARD" if mesh.strategy == "FULL_SHARD" else "_HYBRID_SHARD_ZERO2"
    compared = subject.compare(Change(strategy=hybrid))
    if compared is not None and not compared.is_worth_it:
        return
    held = state_of_rank(trainer, subject.procs)
    if subject.procs > 1 and held <= STATE_SHARE * memory_of_gpu(subject):
        text = f"{mesh.strategy} gathers parameters between {subject.nodes} nodes; one node can hold them all"
        yield Found("trainer.mesh.strategy", f"{text}, in {gib(held)} of each GPU")


@rule(
    RuleId.SHARD_STRADDLES_NODES,
    "warning",
    what="Some shard groups are within a node, others are spread over two.",
    why="A step is as fast as its slowest group: those that gather over the network hold the others back, so the fast"
    " links within the other nodes gain nothing.",
    change="Make `mesh.shard` a divisor or a multiple of the ranks of a node.",
    source="docs/trainer.md",
)
def shard_straddles_nodes(subject: Subject) -> Iterator[Found]:
    mesh, procs = subject.plan.mesh, subject.procs
    if mesh is not None and subject.nodes > 1 and procs % mesh.shard and mesh.shard % procs:
        text = f"groups of {mesh.shard} ranks do not fit nodes of {procs}: some are spread over two nodes"
        yield Found("trainer.mesh.shard", text)


@rule(
    RuleId.ONE_LARGE_UNIT,
    "warning",
    what="A large sharded model is one unit.",
    why="FSDP gathers a unit as a whole. One unit means that each GPU holds all parameters in the compute precision,"
    " and their gradients, in every step, and that nothing overlaps with the gather.",
    change="Remove `mesh.units` (a unit for each block), or set `mesh.units: {blocks: N}`.",
    source=FSDP,
)
def one_large_unit(subject: Subject) -> Iterator[Found]:
    mesh, trainer = subject.plan.mesh, subject.trainer
    if mesh is None or trainer is None or mesh.shard == 1 or trainer.model.num_parameters < LARGE_UNIT:
        return
    units = resolve_units(trainer.mesh.units, trainer.model)
    if len(units) <= 1:
        held = gib(6 * trainer.model.num_parameters)
        text = f"the whole model is one unit: {held} of gathered weights and gradients on each GPU"
        yield Found("trainer.mesh.units", text)


@rule(
    RuleId.OFFLOAD_NOT_NEEDED,
    "warning",
    what="A state that fits into GPU memory is kept in host memory.",
    why="With `cpu_offload` weights and gradients cross PCIe in every step and the optimizer runs on the CPU: the"
    " slowest of all options that save memory. A step of a small model took 203 ms instead of 21.",
    change="Remove `memory.cpu_offload`; a smaller micro-batch or `recompute` is cheaper.",
    source="docs/measured.md",
)
def offload_not_needed(subject: Subject) -> Iterator[Found]:
    mesh, trainer = subject.plan.mesh, subject.trainer
    if mesh is None or trainer is None or not trainer.memory.cpu_offload or not subject.has_gpus:
        return
    held = state_of_rank(trainer, mesh.shard)
    if held <= STATE_SHARE * memory_of_gpu(subject):
        text = f"weights, gradients and optimizer are {gib(held)} for each GPU: they fit without cpu_offload"
        yield Found("trainer.memory.cpu_offload", text)


@rule(
    RuleId.RECOMPUTE_NOT_NEEDED,
    "warning",
    what="Activations are recomputed, although they fit.",
    why="Recomputing whole blocks repeats most of the forward pass: a step took 208 ms instead of 169. Where all"
    " activations fit into the memory it gains nothing.",
    change="Remove `memory.recompute`, or raise `batch.micro_batch` until it is needed.",
    source="docs/measured.md",
)
def recompute_not_needed(subject: Subject) -> Iterator[Found]:
    mesh, trainer = subject.plan.mesh, subject.trainer
    if mesh is None or trainer is None or trainer.memory.recompute == "none" or not subject.has_gpus:
        return
    if (compared := subject.compare(Change(recompute="none"))) is not None:
        if compared.is_worth_it:
            needs = f"{gib(compared.changed.memory.total)} of {gib(compared.changed.card.memory_bytes)}"
            speed = compared.changed.tokens_per_s / compared.now.tokens_per_s
            yield Found(
                "trainer.memory.recompute", f"without recomputing, a GPU needs {needs}; {speed:.2f} of the speed"
            )
        return
    gathered = 6 * trainer.model.num_parameters if mesh.shard > 1 else 0  # of all units, though most hold one block
    held = state_of_rank(trainer, mesh.shard) + gathered + activation_bytes(trainer, subject.micro_batch[0])
    if held <= PEAK_SHARE * memory_of_gpu(subject):
        text = f"without recomputing, a GPU needs less than {gib(held)} for state and activations"
        yield Found("trainer.memory.recompute", text)
