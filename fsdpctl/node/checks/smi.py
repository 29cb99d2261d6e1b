"""The output of `nvidia-smi -q -x` as values. Names in it differ between driver versions: `clocks_throttle_reason_*`
became `clocks_event_reason_*`, `sram_uncorrectable` was split in two; a missing entry is not judged.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xml.etree import ElementTree

ANSWER_S = 30.0
"""Without the persistence daemon the driver first initializes all GPUs, which takes seconds each."""

_SLOWDOWNS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")


class SmiError(Exception):
    """nvidia-smi is installed but fails or hangs."""


@dataclass(frozen=True)
class GpuProcess:
    """A process that computes on a GPU."""

    pid: int
    name: str
    memory: str


@dataclass(frozen=True)
class Gpu:
    """One GPU: its identity, faults, slowdowns and processes."""

    index: int
    uuid: str
    faults: tuple[str, ...]
    slowdowns: tuple[str, ...]
    processes: tuple[GpuProcess, ...]
    name: str = ""


@dataclass(frozen=True)
class Listing:
    """The driver and its GPUs in PCI order."""

    driver: str
    gpus: tuple[Gpu, ...]

    def visible(self, env: Mapping[str, str]) -> tuple[Gpu, ...]:
        """Return the GPUs that a process with this environment may use."""
        if (chosen := env.get("CUDA_VISIBLE_DEVICES")) is None:
            return self.gpus
        entries = [entry.strip() for entry in chosen.split(",") if entry.strip()]
        return tuple(
            gpu
            for entry in entries
            for gpu in self.gpus
            if entry == str(gpu.index) or (entry.startswith("GPU-") and gpu.uuid.startswith(entry))
        )


def count_slices(env: Mapping[str, str]) -> int:
    """Return the number of MIG slices that a process with this environment may use; their GPUs are not listed."""
    return len([entry for entry in env.get("CUDA_VISIBLE_DEVICES", "").split(",") if entry.strip().startswith("MIG-")])


def query(env: Mapping[str, str]) -> Listing | None:
    """Run nvidia-smi once; return None if it is not installed. Raise SmiError if it fails or hangs."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "-q", "-x"], env=dict(env), capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired:
        raise SmiError(f"nvidia-smi does not answer within {ANSWER_S:.0f} s") from None
    except OSError as error:
        raise SmiError(f"nvidia-smi cannot be run: {error.strerror}") from error
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        raise SmiError(f"nvidia-smi ends with {done.returncode}: {lines[-1] if lines else 'no output'}")
    return parse(done.stdout)


def parse(text: str) -> Listing:
    """Parse the XML output. Raise SmiError if it is not XML."""
    from xml.etree import ElementTree  # imported late: most importers of this module only count GPUs

    try:
        log = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise SmiError(f"nvidia-smi -q -x printed no valid XML: {error}") from error
    gpus = tuple(_gpu(index, element) for index, element in enumerate(log.iter("gpu")))
    return Listing(_text(log, "driver_version"), gpus)


def visible_gpus() -> list[str]:
    """Return the indices of the GPUs that this process may use, at little cost; empty without a driver."""
    if (chosen := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [index for index in chosen.split(",") if index.strip()]
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=ANSWER_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [str(index) for index, line in enumerate(listing.stdout.splitlines()) if line.startswith("GPU ")]


def count_devices(dev: Path = Path("/dev")) -> int:
    """Return the number of GPUs by the driver's device files, which needs no tool."""
    return len([path for path in dev.glob("nvidia*") if path.name.removeprefix("nvidia").isdecimal()])


def _gpu(index: int, gpu: ElementTree.Element) -> Gpu:
    return Gpu(
        index=index,
        uuid=_text(gpu, "uuid"),
        faults=tuple(_faults(gpu)),
        slowdowns=tuple(name for name in _SLOWDOWNS if _is_active(gpu, name)),
        processes=tuple(
            GpuProcess(int(_text(one, "pid") or 0), _text(one, "process_name"), _text(one, "used_memory"))
            for one in gpu.iterfind("processes/process_info")
            if "C" in _text(one, "type")
        ),
        name=_text(gpu, "product_name"),
    )


def _faults(gpu: ElementTree.Element) -> list[str]:
    found = []
    volatile = gpu.find("ecc_errors/volatile")
    counts = [one.text or "" for one in volatile if "uncorrectable" in one.tag] if volatile is not None else []
    if errors := sum(int(count) for count in counts if count.isdecimal()):
        found.append(f"{errors} uncorrectable memory errors since the driver was loaded")
    for path, fault in (
        ("remapped_rows/remapped_row_pending", "a remapped memory row waits for a reset"),
        ("remapped_rows/remapped_row_failure", "remapping a memory row failed"),
        ("retired_pages/pending_retirement", "a retired memory page waits for a reset"),
        ("gpu_reset_status/reset_required", "the driver asks for a reset"),
    ):
        if _text(gpu, path) == "Yes":
            found.append(fault)
    if (action := _text(gpu, "gpu_recovery_action")) not in ("", "None", "N/A"):
        found.append(f"the driver asks for recovery: {action}")
    if (state := _text(gpu, "fabric/state")) not in ("", "N/A", "Completed"):
        found.append(f"NVLink fabric: {state}; is nvidia-fabricmanager running?")
    return found


def _is_active(gpu: ElementTree.Element, name: str) -> bool:
    groups = ("clocks_event_reason", "clocks_throttle_reason")
    return any(_text(gpu, f"{group}s/{group}_{name}") == "Active" for group in groups)


def _text(element: ElementTree.Element, path: str) -> str:
    return (element.findtext(path) or "").strip()
