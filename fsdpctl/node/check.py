"""The node check: what must hold on this node before ranks start. Each finding names the fix."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.node import network

MIN_FREE_BYTES = 64 * 2**20


class NodeCheckError(Exception):
    """This node cannot take part, and why."""


def check_node(plan: LaunchPlan, node_dir: Path) -> None:
    """Raise NodeCheckError on the first thing that would end or hang the ranks."""
    check_disk(node_dir)
    check_python(plan.python)
    check_gpus(plan)
    if plan.interface != "auto" and plan.interface not in network.interfaces():
        known = ", ".join(network.interfaces()) or "none"
        raise NodeCheckError(f"interface {plan.interface!r} does not exist here or has no IPv4 address; found: {known}")


def check_disk(directory: Path) -> None:
    """Write, flush and rename a file for real: permission bits and free space alone prove nothing."""
    probe, renamed = directory / ".probe", directory / ".probe.renamed"
    try:
        with open(probe, "wb") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        probe.rename(renamed)
        renamed.unlink()
    except OSError as error:
        raise NodeCheckError(f"cannot write in the run directory: {error.strerror}: {directory}") from error
    free = shutil.disk_usage(directory).free
    if free < MIN_FREE_BYTES:
        raise NodeCheckError(f"only {free // 2**20} MiB are free in {directory}")


def check_python(python: str) -> None:
    if shutil.which(python) is None:
        raise NodeCheckError(f"the profile's python does not exist here: {python}")


def check_gpus(plan: LaunchPlan) -> None:
    if plan.device == "cpu":
        return
    visible = visible_gpus()
    if len(visible) < plan.procs_per_node:
        raise NodeCheckError(
            f"{plan.procs_per_node} ranks a node need as many GPUs, but this node shows {len(visible)}"
            " (nvidia-smi -L, CUDA_VISIBLE_DEVICES)"
        )


def visible_gpus() -> list[str]:
    """Indices of the GPUs that this process may use; empty without a driver."""
    if (chosen := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [index for index in chosen.split(",") if index.strip()]
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [str(index) for index, line in enumerate(listing.stdout.splitlines()) if line.startswith("GPU ")]
