"""Weights, gradients and moments that are sharded: kernels get the parts, checkpoints the tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor._op_schema import OpSchema
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.testing._internal.distributed.fake_pg import FakeStore

from fsdpctl.contract.trainer.trainer_config import OptimConfig
from tests.train.test_model import small_model
from train.model.llama.decoder import Llama
from train.model.values import init_weights
from train.optim import build_optimizer, clip_gradients, take_step
from train.shards import local_part, sharded_as


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    """The mesh of the first of four ranks, whose collectives do nothing."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    yield init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    dist.destroy_process_group()


def shard(tensor: Tensor, mesh: DeviceMesh) -> DTensor:
    return distribute_tensor(tensor, mesh, [Replicate(), Shard(0)], src_data_rank=None)


def with_parameters(change: Callable[[Tensor], Tensor]) -> Llama:
    """Return a model whose parameters, and gradients of the same values, are changed."""
    model = small_model()
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            changed = nn.Parameter(change(parameter.detach()))
            changed.grad = change(parameter.detach())
            setattr(module, name, changed)
    return model


def take_one_step(model: Llama) -> torch.optim.Optimizer:
    optimizer = build_optimizer(model, OptimConfig(lr=0.1))
    clip_gradients(model, 1.0, torch.tensor(1.0))
    take_step(optimizer, 0.1, torch.zeros(()))
    return optimizer


@pytest.mark.slow
def test_a_step_updates_the_parts_and_no_placement_is_derived(
    mesh: DeviceMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deriving placements took 1.5 of the 2.8 s of a short run's rank, under a profiler, with 14 parameters."""
    derived: list[object] = []
    derive = ShardingPropagator.propagate_op_sharding_non_cached

    def record(self: ShardingPropagator, schema: OpSchema) -> object:
        derived.append(schema)
        return derive(self, schema)

    model = with_parameters(lambda tensor: shard(tensor, mesh))
    parts = with_parameters(lambda tensor: local_part(shard(tensor, mesh)).clone())
    monkeypatch.setattr(ShardingPropagator, "propagate_op_sharding_non_cached", record)
    init_weights(model, seed=1)
    moments = take_one_step(model).state
    assert derived == []

    moments_of_parts = take_one_step(parts).state
    for (name, tensor), part in zip(model.named_parameters(), parts.parameters(), strict=True):
        assert torch.equal(local_part(tensor), part), name
        moment = moments[tensor]["exp_avg"]
        assert isinstance(moment, DTensor) and moment.placements == tensor.placements, "as a checkpoint needs it"
        assert torch.equal(local_part(moment), moments_of_parts[part]["exp_avg"]), name


def test_a_tensor_that_is_sharded_as_another_has_its_shape(mesh: DeviceMesh) -> None:
    uneven = shard(torch.arange(15.0).view(5, 3), mesh)
    assert local_part(uneven).shape == (3, 3)
    alike = sharded_as(uneven, torch.zeros(3, 3))
    assert isinstance(alike, DTensor)
    assert (alike.shape, alike.placements, alike.stride()) == (uneven.shape, uneven.placements, uneven.stride())
    plain = torch.ones(2)
    assert local_part(plain) is plain and sharded_as(torch.zeros(2), plain) is plain
