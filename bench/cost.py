"""Measures the cost of a command, as the kernel counts it, and prints it: JSON lines, then a Markdown table."""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


@dataclass(frozen=True)
class Cost:
    """One run of a command, with all processes that it waited for."""

    cpu_s: float
    wall_s: float


def measure_cost(argv: Sequence[str], env: Mapping[str, str] | None = None) -> Cost:
    """Run it once. Raises CalledProcessError when it fails."""
    before, began = children_cpu_s(), time.monotonic()
    subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return Cost(children_cpu_s() - before, time.monotonic() - began)


def children_cpu_s() -> float:
    """Return the processor time of all that this process has waited for, and that these have waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def count_instructions(argv: Sequence[str]) -> int:
    """Count them in one run of a command without its children, with valgrind. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
        command, env = [*tool, f"--log-file={folder}/%p", *argv], {**os.environ, "PYTHONHASHSEED": "0"}
        with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            code = process.wait()
        if code:
            raise subprocess.CalledProcessError(code, command)
        log = Path(folder, str(process.pid)).read_text()
    return int(re.findall(r"refs: +([\d,]+)", log)[-1].replace(",", ""))


def interleave(works: Mapping[str, Callable[[], Cost]], rounds: int) -> dict[str, list[Cost]]:
    """Run each work once a round, after a round that does not count: other load of the machine affects all alike."""
    found: dict[str, list[Cost]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            cost = work()
            if number:
                found[name].append(cost)
    return found


def print_costs(title: str, costs: Mapping[str, Sequence[Cost]]) -> None:
    """Print the smallest and the median of each; ratios refer to the first row."""
    reference = statistics.median(cost.cpu_s for cost in next(iter(costs.values())))
    rows = []
    for name, runs in costs.items():
        print(json.dumps({"table": title, "what": name, "runs": [asdict(cost) for cost in runs]}))
        cpu, wall = ([getattr(cost, key) for cost in runs] for key in ("cpu_s", "wall_s"))
        middle = statistics.median(cpu)
        rows.append(
            (
                f"`{name}`",
                f"{min(cpu):.2f}",
                f"{middle:.2f}",
                f"{middle / reference:.2f}",
                f"{min(wall):.2f}",
                f"{statistics.median(wall):.2f}",
            )
        )
    print_table(title, ("what", "CPU s, least", "median", "ratio", "wall s, least", "median"), rows)


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table below its title and the machine."""
    print(f"\n## {title}\n\n{machine()}\n")
    for row in (header, ["---"] * len(header), *rows):
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def machine() -> str:
    """Return date, processor, load and versions, as text."""
    model = next((line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")), "?")
    versions = [f"{name} {_version(name)}" for name in ("torch", "typer", "pydantic")]
    load = "load " + " ".join(f"{value:.1f}" for value in os.getloadavg())
    where = f"{os.cpu_count()} cores of {model}, {load}"
    return f"{time.strftime('%Y-%m-%d')} · {where} · Python {platform.python_version()}, {', '.join(versions)}"


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
