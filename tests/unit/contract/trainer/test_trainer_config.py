from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from fsdpctl.contract.trainer.llama.config import LlamaConfig
from fsdpctl.contract.trainer.mesh import resolve_mesh, split_batch
from fsdpctl.contract.trainer.trainer_config import BatchConfig, MeshConfig, OptimConfig, Strategy
from fsdpctl.contract.trainer.units import UnitsConfig
from fsdpctl.specs.load import load_job


def model(**changes: object) -> LlamaConfig:
    sizes: dict[str, object] = {
        "vocab_size": 512,
        "d_model": 64,
        "layers": 2,
        "heads": 2,
        "kv_heads": 1,
        "head_dim": 32,
        "ffn": 176,
        "seq_len": 128,
        "tie_embeddings": True,
    }
    return LlamaConfig(**{**sizes, **changes})  # type: ignore[arg-type]


def test_a_batch_as_older_configurations_have_it() -> None:
    config = load_job("llm-tiny").trainer
    assert config is not None
    nothing = cast(BatchConfig, None)
    older = replace(config, batch=nothing, train_batch=24)
    assert (older.batch, older.train_batch) == (BatchConfig(sequences=24, micro_batch=24), None)
    assert split_batch(older.batch, 4) == (6, 1)
    assert replace(older, steps=50).batch == older.batch
    with pytest.raises(ValueError, match=r"^train_batch and batch both give the global batch: keep batch$"):
        replace(config, train_batch=24)
    with pytest.raises(ValueError, match=r"^batch is missing: it gives the global batch"):
        replace(config, batch=nothing)
    with pytest.raises(ValueError, match=r"^train_batch must be at least 1, got 0$"):
        replace(config, batch=nothing, train_batch=0)


def test_parameters_are_counted_by_the_formula() -> None:
    assert model().num_parameters == 125_248
    assert model(tie_embeddings=False).num_parameters == 125_248 + 512 * 64


@pytest.mark.parametrize(
    "change", [{"layers": 0}, {"heads": 3, "kv_heads": 2}, {"head_dim": 31}, {"dropout": 1.0}, {"vocab_size": -1}]
)
def test_impossible_models_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        model(**change)


@pytest.mark.parametrize("name", ["layers", "seq_len", "rope_theta", "norm_eps", "init_std"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_size_that_no_model_has_is_named(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be .*, got {value}$"):
        model(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("lr", 0.0), ("eps", 0.0), ("clip_norm", -1.0), ("beta1", 1.0), ("beta2", -0.1), ("weight_decay", -0.1)),
        *(("warmup_steps", -1), ("decay_ratio", 0.0), ("min_lr_ratio", 1.5)),
    ],
)
def test_an_optimizer_that_torch_would_refuse_is_refused_at_submit(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name} must .*, got {value}$"):
        OptimConfig(**{"lr": 1e-3, name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("strategy", "nodes", "procs", "mesh"),
    [
        ("HYBRID_SHARD", 2, 8, (2, 8)),  # shard within a node, replicate across: PyTorch's meaning
        ("HYBRID_SHARD", 1, 4, (1, 4)),
        ("HYBRID_SHARD", 4, 1, (4, 1)),
        ("FULL_SHARD", 2, 8, (1, 16)),
        ("NO_SHARD", 2, 8, (16, 1)),
        ("SHARD_GRAD_OP", 2, 8, (1, 16)),
        ("_HYBRID_SHARD_ZERO2", 2, 8, (2, 8)),
        ("DDP", 2, 8, (16, 1)),
    ],
)
def test_the_mesh_follows_the_strategy(strategy: Strategy, nodes: int, procs: int, mesh: tuple[int, int]) -> None:
    assert resolve_mesh(MeshConfig(strategy=strategy), nodes, procs) == mesh


def test_a_given_mesh_must_fill_the_world() -> None:
    assert resolve_mesh(MeshConfig(replicate=4), 2, 8) == (4, 4)
    assert resolve_mesh(MeshConfig(shard=2), 2, 8) == (8, 2)
    with pytest.raises(ValueError, match=r"^replicate 3 does not divide the 16 ranks \(2 nodes x 8\)$"):
        resolve_mesh(MeshConfig(replicate=3), 2, 8)
    with pytest.raises(ValueError, match=r"^shard 3 does not divide the 2 ranks \(1 node x 2\)$"):
        resolve_mesh(MeshConfig(shard=3), 1, 2)
    with pytest.raises(ValueError, match=r"^replicate 2 x shard 4 = 8, but there are 16 ranks \(2 nodes x 8\)$"):
        resolve_mesh(MeshConfig(replicate=2, shard=4), 2, 8)
    with pytest.raises(ValueError, match="use HYBRID_SHARD"):
        resolve_mesh(MeshConfig(strategy="FULL_SHARD", replicate=2, shard=8), 2, 8)


@pytest.mark.parametrize(
    ("mesh", "reason"),
    [
        ({"strategy": "DDP", "units": UnitsConfig(blocks=2)}, "DDP has no units"),
        ({"strategy": "DDP", "prefetch": 1}, "gathers nothing"),
        ({"strategy": "NO_SHARD", "prefetch": 1}, "gathers nothing"),
        ({"prefetch": 0}, "at least 1"),
    ],
)
def test_meshes_that_torch_cannot_do_are_refused(mesh: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        MeshConfig(**mesh)


@pytest.mark.parametrize("world", [1, 2, 4, 8, 16, 32])
def test_the_global_batch_is_the_same_at_every_world(world: int) -> None:
    micro, accumulation = split_batch(BatchConfig(sequences=96, micro_batch=5), world)
    assert micro <= 5
    assert micro * accumulation * world == 96


def test_a_batch_that_does_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="96 sequences does not divide over 5 ranks"):
        split_batch(BatchConfig(sequences=96, micro_batch=5), 5)
