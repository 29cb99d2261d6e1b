"""The CNN of PyTorch's FSDP tutorial, on FSDP2: units by size, parameters in host memory, or DDP for comparison."""

from __future__ import annotations

import argparse
import os
import resource
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from data import Digits, load
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from fsdpctl.report import step as report_step


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, images: Tensor) -> Tensor:
        hidden = F.relu(self.conv2(F.relu(self.conv1(images))))
        hidden = self.dropout1(F.max_pool2d(hidden, 2)).flatten(1)
        return self.fc2(self.dropout2(F.relu(self.fc1(hidden))))


def main() -> None:
    arguments, device = parse(), init_distributed()
    rank, world = dist.get_rank(), dist.get_world_size()
    train, test = load(arguments.data)
    torch.manual_seed(arguments.seed)
    model = distribute(Net().to(device), arguments, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr)
    log(str(model))
    path = Path(os.environ.get("FSDPCTL_CHECKPOINT_DIR", "."), "mnist_cnn.pt")
    step, stop = (load_checkpoint(path, model, optimizer) if path.exists() else 0), False
    while step < arguments.steps and not stop:
        step += 1
        own = choose(train, arguments, step)[rank::world].to(device)
        torch.manual_seed(arguments.seed + step * world + rank)  # dropout, too, is a function of the step
        loss = F.cross_entropy(model(own.images), own.labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        totals = torch.tensor([loss.item() / world, is_asked_to_stop()], device=device)
        dist.all_reduce(totals)  # one rank that was asked to stop is enough
        stop = bool(totals[1])
        report_step(step, total=arguments.steps, loss=totals[0].item())
        log(f"step {step}/{arguments.steps}  loss {totals[0].item():.6f}")
        if stop or step % arguments.save_every == 0 or step == arguments.steps:
            save_checkpoint(path, step, model, optimizer)
    if not stop:
        log(f"accuracy {accuracy(model, test, device):.4f} of {len(test)} digits")
    log(f"peak memory {peak_memory(device) / 2**20:.0f} MiB of rank 0")
    dist.destroy_process_group()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="directory of MNIST's idx files; default: scikit-learn's digits")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=64, help="digits in one step of all ranks")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--save-every", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--min-params", type=int, default=20_000, help="parameters from which on a module is a unit")
    parser.add_argument("--cpu-offload", action="store_true", help="keep parameters and optimizer in host memory")
    parser.add_argument("--ddp", action="store_true", help="DistributedDataParallel instead of FSDP")
    return parser.parse_args()


def init_distributed() -> torch.device:
    if not torch.cuda.is_available():
        dist.init_process_group("gloo")
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl", device_id=device)  # gloo for what is in host memory
    return device


def distribute(model: Net, arguments: argparse.Namespace, device: torch.device) -> nn.Module:
    if arguments.ddp:
        return DistributedDataParallel(model)
    offload = CPUOffloadPolicy(pin_memory=device.type == "cuda") if arguments.cpu_offload else OffloadPolicy()
    options = {"mesh": init_device_mesh(device.type, (dist.get_world_size(),)), "offload_policy": offload}
    for module in units_by_size(model, arguments.min_params):
        fully_shard(module, **options)
    return fully_shard(model, **options)


def units_by_size(model: nn.Module, min_params: int) -> list[nn.Module]:
    """Return what FSDP1's `size_based_auto_wrap_policy` wraps below the root, each module before those around it.

    That is each one with this many parameters that are in no unit yet.
    """
    units: list[nn.Module] = []

    def count_rest(module: nn.Module) -> int:
        rest = sum(parameter.numel() for parameter in module.parameters(recurse=False))
        rest += sum(count_rest(child) for child in module.children())
        if rest < min_params or module is model or isinstance(module, nn.ModuleList | nn.ModuleDict):
            return rest
        units.append(module)
        return 0

    count_rest(model)
    return units


def choose(train: Digits, arguments: argparse.Namespace, step: int) -> Digits:
    """Return the batch of a step: a function of the step, so that a resumed run draws the same ones."""
    generator = torch.Generator().manual_seed(arguments.seed + step)
    return train[torch.randint(len(train), (arguments.batch,), generator=generator)]


def is_asked_to_stop() -> bool:
    stop_file = os.environ.get("FSDPCTL_STOP_FILE")
    return stop_file is not None and Path(stop_file).exists()


def save_checkpoint(path: Path, step: int, model: nn.Module, optimizer: Optimizer) -> None:
    """Gather everything on rank 0, which writes one file; it gets its name when it is complete."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    model_state, optimizer_state = get_state_dict(model, optimizer, options=options)
    if dist.get_rank() == 0:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"model": model_state, "optimizer": optimizer_state, "step": step}, path.with_suffix(".tmp"))
        path.with_suffix(".tmp").rename(path)
    dist.barrier()


def load_checkpoint(path: Path, model: nn.Module, optimizer: Optimizer) -> int:
    """Load it on any number of ranks, each of which keeps its part; return the step."""
    found = torch.load(path, weights_only=True, mmap=True)
    options = StateDictOptions(full_state_dict=True)
    model_state, optimizer_state = found["model"], found["optimizer"]
    set_state_dict(model, optimizer, model_state_dict=model_state, optim_state_dict=optimizer_state, options=options)
    return int(found["step"])


@torch.no_grad()
def accuracy(model: nn.Module, test: Digits, device: torch.device) -> float:
    model.eval()
    rank, world, right = dist.get_rank(), dist.get_world_size(), torch.zeros((), device=device)
    for begin in range(0, len(test), 1000):
        own = test[slice(begin + rank, min(begin + 1000, len(test)), world)].to(device)
        right += (model(own.images).argmax(dim=1) == own.labels).sum()
    dist.all_reduce(right)
    return right.item() / len(test)


def peak_memory(device: torch.device) -> int:
    """Return bytes: of the GPU, or of the process where there is none."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def log(text: str) -> None:
    if dist.get_rank() == 0:
        print(text, flush=True)


if __name__ == "__main__":
    main()
