"""A tour of FSDP2: parameters sharded one by one, frozen beside trained ones, state dicts without communication."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from state_dicts import show_state_dicts
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from fsdpctl.report import step as report_step

STEPS, SAVE_EVERY = int(os.environ.get("STEPS", "200")), 50
WIDTH, RANK, LAYERS, BATCH = 64, 4, 3, 256


class Layer(nn.Module):
    """A frozen matrix with a trained update of low rank beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.down, self.up = nn.Linear(WIDTH, RANK, bias=False), nn.Linear(RANK, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tanh(self.base(x) + self.up(self.down(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x))


def main() -> None:
    device = init_distributed()
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh(device.type, (world,), mesh_dim_names=("shard",))
    model = build(mesh)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2)  # no state for what is frozen
    show_shards(model)
    checkpoints = Path(os.environ.get("FSDPCTL_CHECKPOINT_DIR", "checkpoints"))
    step, stop = load_newest(checkpoints, model, optimizer), False
    while step < STEPS and not stop:
        step += 1
        generator = torch.Generator().manual_seed(step)  # the data is a function of the step
        x = torch.randn(BATCH, WIDTH, generator=generator)[rank::world].to(device)
        loss = (model(x).float() - x.roll(1, dims=1)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        after_step(model)
        totals = torch.tensor([loss.item() / world, is_asked_to_stop()], device=device)
        dist.all_reduce(totals)  # one rank that was asked to stop is enough
        stop = bool(totals[1])
        report_step(step, total=STEPS, loss=totals[0].item())
        if stop or step % SAVE_EVERY == 0 or step == STEPS:
            dcp.save(state_of(model, optimizer), checkpoint_id=checkpoints / f"{step:08d}")
    if not stop:
        show_state_dicts(model, checkpoints.parent / "state_dicts", device)
    dist.destroy_process_group()


def init_distributed() -> torch.device:
    if not torch.cuda.is_available():
        dist.init_process_group("gloo")
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    return device


def build(mesh: DeviceMesh) -> nn.Module:
    """Build without memory, shard, and only then allocate: no rank ever holds more than its part.

    A unit is gathered as one. In it each parameter is a tensor of its own with its own dtype and `requires_grad`: FSDP1
    made one flat parameter of all, in which frozen and trained ones could not be mixed.
    """
    with torch.device("meta"):
        model: nn.Module = Net()
    if has_float8(mesh.device_type):
        use_float8(model)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=replace(policy, output_dtype=torch.float32))
    model.to_empty(device=mesh.device_type)
    draw(model)
    return model


@torch.no_grad()
def draw(model: nn.Module) -> None:
    """Draw each parameter whole, one at a time, and keep this rank's part: the same model at every number of ranks."""
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        whole = torch.randn(parameter.shape, generator=generator) / WIDTH**0.5
        mesh, placements = parameter.device_mesh, parameter.placements
        parameter.copy_(distribute_tensor(whole.to(parameter.device), mesh, placements, src_data_rank=None))


def has_float8(device_type: str) -> bool:
    """Return whether the GPU multiplies in float8 and torchao is installed."""
    if device_type != "cuda" or torch.cuda.get_device_capability() < (8, 9):
        log("float8 all-gather: left out, for it needs a GPU of compute capability 8.9 (Ada, Hopper) or newer")
        return False
    try:
        import torchao  # noqa: F401
    except ImportError:
        log("float8 all-gather: left out, for it needs torchao (pip install torchao)")
        return False
    return True


def use_float8(model: nn.Module) -> None:
    """Gather the weights of frozen matrices, and multiply with them, in float8: half of bf16's traffic."""
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    convert_to_float8_training(
        model,
        config=Float8LinearConfig(enable_fsdp_float8_all_gather=True),
        module_filter_fn=lambda module, name: name.endswith(".base"),
    )
    log("float8 all-gather: on, for the base matrix of each layer")


def after_step(model: nn.Module) -> None:
    """Compute the float8 scales of all weights with one all-reduce, instead of one for each weight."""
    if any(type(module).__name__ == "Float8Linear" for module in model.modules()):
        from torchao.float8 import precompute_float8_dynamic_scale_for_fsdp

        precompute_float8_dynamic_scale_for_fsdp(model)


def show_shards(model: nn.Module) -> None:
    log(str(model))
    for name, parameter in model.named_parameters():
        assert isinstance(parameter, DTensor)
        kind = "trained" if parameter.requires_grad else "frozen"
        whole, part = list(parameter.shape), list(parameter.to_local().shape)
        log(f"  {name:24} {kind:8} whole {whole!s:10} here {part!s:10} {parameter.placements[0]}")


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, object]:
    model_state, optimizer_state = get_state_dict(model, optimizer)
    return {"model": model_state, "optimizer": optimizer_state}


def load_newest(checkpoints: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Load the newest complete checkpoint into model and optimizer, and return its step; without one return 0."""
    newest = max(checkpoints.glob("*/.metadata"), default=None)  # written last: the checkpoint is complete
    if newest is None:
        return 0
    state = state_of(model, optimizer)
    dcp.load(state, checkpoint_id=newest.parent)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return int(newest.parent.name)


def is_asked_to_stop() -> bool:
    stop_file = os.environ.get("FSDPCTL_STOP_FILE")
    return stop_file is not None and Path(stop_file).exists()


def log(text: str) -> None:
    if dist.get_rank() == 0:
        print(text, flush=True)


if __name__ == "__main__":
    main()
