"""Runs the trainer as real processes, one per rank, without paying for torch's import each time.

A fork server imports torch once; every rank is a fork of it, with an environment of its own, as torchrun would give it.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict_loader import load

from fsdpctl.contract.formats.dcp_table import read_table
from tests.train import probe

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["train.loop", "torch.utils.tensorboard", "tests.train.faults", "tests.train.probe"])

Config = dict[str, Any]


@dataclass
class Ranks:
    """Trainer processes of one world."""

    run_dir: Path  # that of rank 0
    logs: Path
    processes: list[BaseProcess]

    def wait(self, timeout: float = 120) -> list[int | None]:
        """Exit codes by rank; a rank that does not end in time is killed and fails the test."""
        deadline = time.monotonic() + timeout
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
        late = [rank for rank, process in enumerate(self.processes) if process.is_alive()]
        self.kill()
        assert not late, f"ranks {late} did not end within {timeout} s: {self.log()}"
        return [process.exitcode for process in self.processes]

    def wait_for_step(self, step: int, timeout: float = 120) -> None:
        deadline = time.monotonic() + timeout
        while not (done := metrics(self.run_dir)) or done[-1]["step"] < step:
            assert time.monotonic() < deadline and self.processes[0].is_alive(), self.log()
            time.sleep(0.01)

    def wait_for_log(self, pattern: str, timeout: float = 120) -> None:
        deadline = time.monotonic() + timeout
        while not re.search(pattern, self.log()):
            assert time.monotonic() < deadline and self.processes[0].is_alive(), self.log()
            time.sleep(0.1)

    def signal(self, rank: int, number: int) -> None:
        pid = self.processes[rank].pid
        assert pid is not None
        os.kill(pid, number)

    def kill(self) -> None:
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()

    def log(self) -> str:
        return "".join(path.read_text() for path in sorted(self.logs.glob("log-*.txt")))


def start(
    run_dir: Path,
    config: Config,
    nodes: int = 1,
    procs_per_node: int = 1,
    env: Mapping[str, str] | None = None,
    fault: Callable[..., None] | None = None,
    fault_args: tuple[Any, ...] = (),
    own_disks: bool = False,
) -> Ranks:
    """Start the trainer on nodes x procs_per_node ranks. `fault` is called in each rank before it begins.

    `own_disks`: the run directory of node N is `disk-N` below `run_dir`.
    """
    disks = [run_dir / f"disk-{node}" if own_disks else run_dir for node in range(nodes)]
    config_paths = [_write_config(disk, config) for disk in disks]
    world, port = nodes * procs_per_node, _free_port()
    processes = []
    for rank in range(world):
        rank_info = {
            "RANK": rank,
            "WORLD_SIZE": world,
            "LOCAL_RANK": rank % procs_per_node,
            "LOCAL_WORLD_SIZE": procs_per_node,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "FSDPCTL_SHARED_DISK": int(not own_disks),
        }
        environment = {**os.environ, **{k: str(v) for k, v in rank_info.items()}, **(env or {})}
        arguments = (config_paths[rank // procs_per_node], run_dir / f"log-{rank}.txt", environment, fault, fault_args)
        process = context.Process(target=_run_rank, args=arguments)
        process.start()
        processes.append(process)
    return Ranks(disks[0], run_dir, processes)


def train(run_dir: Path, config: Config, nodes: int = 1, procs_per_node: int = 1, **options: Any) -> Ranks:
    """Run the trainer to a good end."""
    ranks = start(run_dir, config, nodes, procs_per_node, **options)
    codes = ranks.wait()
    assert codes == [0] * len(codes), ranks.log()
    return ranks


def step_in_turn(
    root: Path,
    configs: Mapping[str, Config],
    nodes: int = 1,
    procs_per_node: int = 1,
    timeout_each: float = 40,
    save_after: int = 0,
) -> Ranks:
    """Take all steps of several configurations, each in `root/NAME`, in one set of processes.

    Save nothing, or only after one step.
    """
    for name, config in configs.items():
        _write_config(root / name, config)
    ranks = start(root, {}, nodes, procs_per_node, fault=probe.step_each, fault_args=(root, tuple(configs), save_after))
    codes = ranks.wait(timeout=60 + timeout_each * len(configs))
    assert codes == [0] * len(codes), ranks.log()
    return ranks


def metrics(run_dir: Path) -> list[dict[str, Any]]:
    path = run_dir / "metrics.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def column(run_dir: Path, name: str) -> list[Any]:
    return [record[name] for record in metrics(run_dir)]


def checkpoints(run_dir: Path) -> list[str]:
    """Return the names of everything in checkpoints/, half-done things included."""
    return sorted(os.listdir(run_dir / "checkpoints"))


def saved_tensors(run_dir: Path, step: int) -> dict[str, torch.Tensor]:
    """Return all tensors of one checkpoint, whole."""
    directory = run_dir / f"checkpoints/step-{step:08d}"
    entries = read_table(directory).state_dict_metadata
    tensors = {name: torch.empty(entry.size, dtype=entry.properties.dtype) for name, entry in entries.items()}
    load(tensors, checkpoint_id=directory, no_dist=True)
    return tensors


def _run_rank(
    config: Path,
    log: Path,
    environment: dict[str, str],
    fault: Callable[..., None] | None,
    fault_args: tuple[Any, ...],
) -> None:
    with log.open("ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch.set_num_threads(1)
    if fault:
        fault(*fault_args)
    from train.__main__ import main

    sys.exit(main(["--config", str(config), "--run-dir", str(config.parent)]))


def _write_config(run_dir: Path, config: Config) -> Path:
    run_dir.mkdir(parents=True, exist_ok=True)
    path = run_dir / "trainer.json"
    path.write_text(json.dumps(config))
    return path


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
