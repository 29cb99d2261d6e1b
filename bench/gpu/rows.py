"""The rows of each call of `bench.gpu`, on H200s up to twelve minutes each, the most important rows first.

`seconds` is the expected duration of a row, with imports and compilation; one that no longer fits the budget is left
out. Rows with the same graphs find them in the compiler's cache: the first of them pays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from bench.gpu import agreement, checks, compilations, failures, kernel_time, resumed, roofline, stops, training
from bench.gpu import hangs as watched
from bench.gpu.result import Result
from bench.gpu.training import ALONE, SYNTHETIC, Changes, Mesh
from bench.gpu.workspace import Workspace

SPEED = "tokens_per_s_gpu"
SHORT = 18  # steps of a large model: the last two thirds of them take ten seconds


@dataclass(frozen=True)
class Row:
    name: str
    seconds: float
    measure: Callable[[Workspace], Result]
    against: tuple[str, ...] = ()  # rows before it to compare its number with
    compares: str = SPEED  # the number


HYBRID: Changes = {"mesh.strategy": "HYBRID_SHARD", "mesh.replicate": 2, "mesh.shard": 2}
FULL_SHARD: Changes = {"mesh.strategy": "FULL_SHARD"}
A_GRAPH_A_BLOCK: Changes = {"mesh.units": {"blocks": 1}}
UNTIED: Changes = {**SYNTHETIC, "model.tie_embeddings": False}
"""llm90m as torchtitan's llama3 can be: it has no tied embedding."""
ONE_BILLION: Changes = {
    **{"model.d_model": 2048, "model.layers": 16, "model.heads": 16, "model.kv_heads": 8, "model.head_dim": 128},
    **{"model.ffn": 5632, "model.tie_embeddings": False},
}
SIXTEEN_LAYERS: Changes = {**SYNTHETIC, "model.layers": 16}
"""Of llm7b: weights, gradients and moments of all 32 fit four cards, but take minutes to draw."""


def train(
    name: str,
    seconds: float,
    job: str,
    changed: Changes,
    *against: str,
    gpus: int = 1,
    steps: int = 60,
    by: str = SPEED,
) -> Row:
    measure = partial(training.steps, job=job, gpus=gpus, num_steps=steps, changed=changed)
    return Row(name, seconds, measure, against, by)


def titan(name: str, seconds: float, job: str, changed: Changes, mesh: Mesh = ALONE, steps: int = 60) -> Row:
    return Row(name, seconds, partial(training.peer, job=job, mesh=mesh, num_steps=steps, changed=changed))


def megatron(name: str, seconds: float, job: str, changed: Changes, gpus: int = 1, steps: int = 60) -> Row:
    return Row(name, seconds, partial(training.megatron, job=job, gpus=gpus, num_steps=steps, changed=changed))


def save(name: str, seconds: float, job: str, changed: Changes, against: str, *, steps: int, every: int) -> Row:
    measure = partial(training.saves, job=job, gpus=1, num_steps=steps, every=every, changed=changed)
    return Row(name, seconds, measure, (against,))


def one_gpu() -> list[Row]:
    """Return rows on the speed of one GPU beside torchtitan, on saves, and on a resume after a stop."""
    at_40 = {**SYNTHETIC, "batch.micro_batch": 40}
    peer_resumed = partial(training.peer_resumed, job="llm300m", changed=SYNTHETIC)
    by_torchrun = partial(training.saves_then_resumed, job="llm300m", gpus=1, num_steps=80, every=25, changed=SYNTHETIC)
    by_command = partial(resumed.resumed_by_command, job="llm300m", changed=SYNTHETIC)
    where = partial(kernel_time.time_per_kernel_group, job="llm300m", gpus=1, changed=SYNTHETIC)
    least = partial(roofline.hardware_limits, job="llm300m", changed=SYNTHETIC)
    return [
        titan("llm300m torchtitan", 45, "llm300m", SYNTHETIC),
        train("llm300m ours", 80, "llm300m", SYNTHETIC, "llm300m torchtitan"),
        Row("llm300m ours, where the time goes", 30, where),
        Row("llm300m, what the hardware allows", 10, least),
        titan("llm90m torchtitan", 30, "llm90m", UNTIED),
        train("llm90m ours", 50, "llm90m", UNTIED, "llm90m torchtitan"),
        Row("llm300m torchtitan, resumed", 55, peer_resumed),
        Row("llm300m ours, saves, then resumed", 90, by_torchrun, ("llm300m torchtitan, resumed",), "first_step_s"),
        Row("llm300m ours, resumed by fsdpctl", 60, by_command, ("llm300m torchtitan, resumed",), "first_step_s"),
        save("llm90m ours, 500 steps, saves", 75, "llm90m", UNTIED, "llm90m ours", steps=500, every=100),
        titan("llm300m torchtitan, 40 x 2048", 40, "llm300m", at_40, steps=40),
        train("llm300m ours, 40 x 2048", 75, "llm300m", at_40, "llm300m torchtitan", "llm300m torchtitan, 40 x 2048"),
        Row("llm300m ours, a start", 45, partial(training.start, job="llm300m", changed=SYNTHETIC)),
        train("llm300m ours, eager", 35, "llm300m", {**SYNTHETIC, "compile": False}, "llm300m ours", steps=40),
    ]


def proofs() -> list[Row]:
    """Return rows on what one GPU can prove beside speed.

    The compiled losses are the eager ones; an exact resume; a stop; recomputing, fp16 and offload.
    """
    bf16, large = "llm90m bf16, 4 x 2048", "llm7b/4"
    four_layers, small = {"model.layers": 4, "batch.micro_batch": 4}, {"batch.micro_batch": agreement.SEQUENCES}

    def memory(recompute: str, *against: str) -> Row:
        changed = {**four_layers, "memory.recompute": recompute}
        return train(f"{large} recompute {recompute}", 40, "llm7b", changed, *against, steps=8, by="peak_gib")

    return [
        Row("doctor", 15, checks.doctor),
        Row("tests that need a GPU", 25, partial(checks.on_gpu, test="tests/train/test_async_gpu.py")),
        Row("a kernel's choice, kept", 60, partial(checks.on_gpu, test="tests/train/test_tuned_kernels_gpu.py")),
        Row("llm90m, 200 steps compiled against eager", 60, partial(agreement.agreement, job="llm90m", changed={})),
        Row("llm90m compilations", 90, partial(compilations.compilations, job="llm90m", gpus=1, changed=SYNTHETIC)),
        train(bf16, 25, "llm90m", small, steps=agreement.STEPS),
        train("llm90m fp16", 40, "llm90m", {**small, "precision": "fp16"}, bf16, steps=agreement.STEPS),
        train("llm90m offload", 35, "llm90m", {**small, "memory.cpu_offload": True}, bf16, steps=20),
        Row("memory snapshots", 55, checks.memory),
        Row("llm90m stopped and resumed, exact", 75, partial(stops.exact_resume, job="llm90m", gpus=1, changed={})),
        memory("none"),
        memory("selective", f"{large} recompute none"),
        memory("full", f"{large} recompute none"),
        Row("llm300m TERM to durable", 30, partial(stops.time_to_stop, job="llm300m", gpus=1, changed={})),
    ]


def two_gpus() -> list[Row]:
    """Return rows on two GPUs: speed beside torchtitan, and the strategies on blocks of the 7B-class model."""
    peer, alone, full = "llm300m torchtitan x2", "llm300m ours x1", "llm7b/4 FULL_SHARD"
    sharded = {**SYNTHETIC, **FULL_SHARD}

    def speed(name: str, seconds: float, changed: Changes) -> Row:
        return train(f"llm300m ours x2, {name}", seconds, "llm300m", changed, peer, alone, gpus=2)

    def strategy(name: str, *against: str) -> Row:
        changed = {"model.layers": 4, "mesh.strategy": name}
        return train(f"llm7b/4 {name}", 30, "llm7b", changed, *against, gpus=2, steps=20, by="peak_gib")

    exact = partial(stops.exact_resume, job="llm90m", gpus=2, changed=FULL_SHARD)
    return [
        titan(peer, 45, "llm300m", SYNTHETIC, (1, 2)),
        train(alone, 80, "llm300m", SYNTHETIC),
        speed("one graph", 60, sharded),
        speed("a graph a block", 40, {**sharded, **A_GRAPH_A_BLOCK}),
        Row("llm90m FULL_SHARD stopped and resumed, exact", 60, exact),
        strategy("NO_SHARD"),
        strategy("FULL_SHARD", "llm7b/4 NO_SHARD"),
        strategy("SHARD_GRAD_OP", "llm7b/4 NO_SHARD", full),
        strategy("HYBRID_SHARD", "llm7b/4 NO_SHARD", full),  # of one node: FULL_SHARD by another name
    ]


def four_gpus() -> list[Row]:
    """Return rows on four GPUs: speed beside torchtitan, an exact resume, a stop, and the strategies."""
    peer, alone, hybrid = "llm300m torchtitan 2 x 2", "llm300m ours x1", "llm300m ours HYBRID_SHARD 2 x 2"
    large, full = "llm7b/16", "llm7b/8 FULL_SHARD"

    def speed(name: str, seconds: float, changed: Changes, *against: str) -> Row:
        return train(name, seconds, "llm300m", {**SYNTHETIC, **changed}, peer, alone, *against, gpus=4)

    def strategy(name: str, changed: Changes, *against: str) -> Row:
        changed = {"model.layers": 8, **changed}
        return train(f"llm7b/8 {name}", 35, "llm7b", changed, *against, gpus=4, steps=20, by="peak_gib")

    return [
        titan(peer, 45, "llm300m", SYNTHETIC, (2, 2)),
        train(alone, 65, "llm300m", SYNTHETIC),
        speed(hybrid, 70, HYBRID),
        speed("llm300m ours FULL_SHARD", 40, FULL_SHARD),
        speed("llm300m ours NO_SHARD", 55, {"mesh.strategy": "NO_SHARD"}),
        titan(f"{large} torchtitan", 30, "llm7b", SIXTEEN_LAYERS, (1, 4), steps=20),
        train(f"{large} ours", 65, "llm7b", {**SIXTEEN_LAYERS, **FULL_SHARD}, f"{large} torchtitan", gpus=4, steps=20),
        Row("llm90m stopped and resumed, exact", 90, partial(stops.exact_resume, job="llm90m", gpus=4, changed=HYBRID)),
        Row("llm300m TERM to durable", 30, partial(stops.time_to_stop, job="llm300m", gpus=4, changed=HYBRID)),
        speed(f"{hybrid}, a graph a block", 40, {**HYBRID, **A_GRAPH_A_BLOCK}, hybrid),
        strategy("FULL_SHARD", FULL_SHARD),
        strategy("SHARD_GRAD_OP", {"mesh.strategy": "SHARD_GRAD_OP"}, full),
        strategy("NO_SHARD", {"mesh.strategy": "NO_SHARD"}, full),
        strategy("HYBRID_SHARD 2 x 2", HYBRID, full),
    ]


def seven_billion() -> list[Row]:
    """Return rows on llm7b, in bf16 and float8, beside torchtitan: as many of its layers as the GPUs there can hold."""
    gpus = next((number for number in (4, 2) if torch.cuda.device_count() >= number), 1)
    layers = {1: 8, 2: 16, 4: 32}[gpus]
    name = f"llm7b/{layers} x{gpus}"

    def changed(micro_batch: int, **more: Any) -> Changes:
        return {**SYNTHETIC, **FULL_SHARD, "model.layers": layers, "batch.micro_batch": micro_batch, **more}

    def theirs(micro_batch: int, precision: str = "bf16", **more: Any) -> Row:
        shape = changed(micro_batch, precision=precision, **more)
        return titan(f"{name} torchtitan {precision}, {micro_batch}", 35, "llm7b", shape, (1, gpus), steps=SHORT)

    def ours(micro_batch: int, precision: str = "bf16", what: str = "", *others: str, **more: Any) -> Row:
        shape, peer = changed(micro_batch, precision=precision, **more), f"{name} torchtitan {precision}, {micro_batch}"
        row = f"{name} ours {precision}{what}, {micro_batch}"
        return train(row, 45, "llm7b", shape, peer, *others, gpus=gpus, steps=SHORT)

    megatron_fsdp = f"{name} Megatron-FSDP bf16, 4"
    return [
        theirs(4),
        megatron(megatron_fsdp, 40, "llm7b", changed(4), gpus, SHORT),
        ours(4, "bf16", "", megatron_fsdp),
        theirs(4, "float8"),
        ours(4, "float8"),
        ours(4, "float8", ", rowwise", float8={"recipe": "rowwise"}),
        ours(4, "float8", ", gathered in bf16", float8={"gather": False}),
        theirs(2),
        ours(2),
        theirs(8),
        ours(8),
        theirs(8, "float8"),
        ours(8, "float8"),
        ours(4, "bf16", ", two blocks a unit", **{"mesh.units": {"blocks": 2}}),
        ours(4, "bf16", ", two ahead", **{"mesh.prefetch": 2}),
        ours(4, "bf16", ", reduced in bf16", reduce_dtype="bf16"),
    ]


def one_billion() -> list[Row]:
    """Return rows on a billion parameters on one GPU: float8 beside bf16, in 500 steps of text, and speed."""
    text: Changes = {**ONE_BILLION, "batch.micro_batch": 4}
    large: Changes = {**ONE_BILLION, **SYNTHETIC, "batch.micro_batch": 16}

    def curve(name: str, *against: str, **changed: Any) -> Row:
        return train(f"1B {name}, 500 steps of text", 110, "llm300m", {**text, **changed}, *against, steps=500)

    peer, other, straight = "1B torchtitan", "1B Megatron-FSDP", "1B bf16, 500 steps of text"
    return [
        curve("bf16"),
        curve("float8", straight, precision="float8"),
        curve("bf16, another seed", straight, seed=4321),
        titan(peer, 45, "llm300m", large, steps=SHORT),
        megatron(other, 50, "llm300m", large, steps=SHORT),
        train("1B ours float8", 90, "llm300m", {**large, "precision": "float8"}, peer, steps=SHORT),
        train("1B ours", 80, "llm300m", large, peer, other, steps=SHORT),
    ]


def documents() -> list[Row]:
    """Return rows on attention within documents on one GPU: is it right, is it compiled once, its speed and memory."""
    within: Changes = {"data.attention": "document"}
    long: Changes = {**SYNTHETIC, "model.seq_len": 8192, "batch.micro_batch": 4}
    recomputed: Changes = {**SYNTHETIC, "memory.recompute": "selective"}
    compiled_once = partial(compilations.compilations, job="llm90m", gpus=1, changed={**SYNTHETIC, **within})
    agrees = partial(agreement.agreement, job="llm90m", changed=within)

    def pair(name: str, changed: Changes) -> list[Row]:
        whole = f"{name}, sequences"
        return [
            train(whole, 80, "llm300m", changed, steps=30),
            train(f"{name}, documents", 90, "llm300m", {**changed, **within}, whole, steps=30),
        ]

    return [
        Row("flex attention on a GPU", 60, partial(checks.on_gpu, test="tests/train/test_documents_gpu.py")),
        *pair("llm300m", SYNTHETIC),
        Row("llm90m documents, compilations", 110, compiled_once),
        *pair("llm300m 4 x 8192", long),
        *pair("llm300m recompute selective", recomputed),
        Row("llm90m documents, 200 steps compiled against eager", 70, agrees),
    ]


def rest() -> list[Row]:
    """Return the rows on everything else that needs GPUs."""
    return [
        Row("doctor", 15, checks.doctor),
        Row("debug info", 30, partial(checks.debug, level="info")),
        Row("debug trace", 30, partial(checks.debug, level="trace")),
        Row("examples/minimal", 45, checks.minimal),
        Row("memory snapshots", 55, checks.memory),
        Row("tests that need a GPU", 25, partial(checks.on_gpu, test="tests/train/test_async_gpu.py")),
        Row("a kernel's choice, kept", 60, partial(checks.on_gpu, test="tests/train/test_tuned_kernels_gpu.py")),
    ]


def hangs() -> list[Row]:
    """Return the rows on ranks that stop, and on what is slow but no hang. One GPU, or two."""
    return [
        Row("hangs, 1 rank", 150, partial(watched.everywhere, nodes=1, procs_per_node=1, mode="sync")),
        Row("llm300m, a cold compile", 120, partial(watched.cold_compile, job="llm300m", gpus=1)),
        Row("hangs, 1 node x 2 ranks", 200, partial(watched.everywhere, nodes=1, procs_per_node=2, mode="sync")),
        Row("hangs, 2 nodes x 1 rank", 200, partial(watched.everywhere, nodes=2, procs_per_node=1, mode="async")),
    ]


def failing() -> list[Row]:
    kinds = {"skip": 75, "shape": 75, "stop": 45, "oom": 45, "assert": 45}
    return [Row(f"a rank fails: {kind}", s, partial(failures.failure, kind=kind)) for kind, s in kinds.items()]


CALLS: dict[str, Callable[[], list[Row]]] = {
    "one-gpu": one_gpu,
    "proofs": proofs,
    "two-gpus": two_gpus,
    "four-gpus": four_gpus,
    "rest": rest,
    "one-billion": one_billion,
    "seven-billion": seven_billion,
    "documents": documents,
    "failures": failing,
    "hangs": hangs,
}
