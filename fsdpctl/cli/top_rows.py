"""The rows of `top`: runs, below each its nodes, and below each node its ranks. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import NamedTuple

from fsdpctl.contract.node_report import Activity, GpuSample
from fsdpctl.verbs.top import TopNode, TopRank, TopRun

GIB = 2**30


class Key(NamedTuple):
    """What a row shows: a run, a node of it, or a rank."""

    run_id: str
    node: int | None = None
    rank: int | None = None


@dataclass(frozen=True)
class Row:
    """One line: its name with the indentation of the tree, and its other cells by column."""

    key: Key
    name: str
    cells: Mapping[str, str]


COLUMNS = ("DOING", "STEP", "AGE", "BUSY", "MEMORY", "CLOCKS", "POWER", "TEMP", "SM", "TENSOR")
"""From what is shown first to what is left out first on a narrow terminal."""


def make_rows(runs: Sequence[TopRun], closed: Collection[Key]) -> list[Row]:
    """Return all rows but those below a closed one."""
    return [row for run in runs for row in _rows_of(run, closed)]


def _rows_of(run: TopRun, closed: Collection[Key]) -> Iterator[Row]:
    key = Key(run.run_id)
    yield Row(key, _name(0, run.run_id, key, closed, bool(run.nodes)), _run_cells(run))
    if key in closed:
        return
    for node in run.nodes:
        inner = Key(run.run_id, node.node)
        title = f"node {node.node} {node.host or ''}".rstrip()
        yield Row(inner, _name(1, title, inner, closed, bool(node.ranks)), _node_cells(node))
        if inner not in closed:
            for rank in node.ranks:
                yield Row(Key(run.run_id, node.node, rank.rank), f"    rank {rank.rank}", _rank_cells(rank))


def _name(depth: int, title: str, key: Key, closed: Collection[Key], has_rows: bool) -> str:
    sign = " " if not has_rows else "+" if key in closed else "-"
    return f"{'  ' * depth}{sign} {title}"


def _run_cells(run: TopRun) -> dict[str, str]:
    total = f"/{run.total_steps}" if run.total_steps else ""
    step = f"{run.step}{total}" if run.step is not None else ""
    return {"DOING": str(run.state), "STEP": step, **_gpu_cells([gpu for node in run.nodes for gpu in node.gpus])}


def _node_cells(node: TopNode) -> dict[str, str]:
    steps = [rank.step for rank in node.ranks if rank.step is not None]
    step = "" if not steps else f"{min(steps)}" if min(steps) == max(steps) else f"{min(steps)}-{max(steps)}"
    return {"DOING": _most_do(node.ranks), "STEP": step, "AGE": _seconds(node.heartbeat_s), **_gpu_cells(node.gpus)}


def _rank_cells(rank: TopRank) -> dict[str, str]:
    step = str(rank.step) if rank.step is not None else ""
    gpus = [rank.gpu] if rank.gpu is not None else []
    return {"DOING": _doing(rank), "STEP": step, "AGE": _seconds(rank.age_s), **_gpu_cells(gpus)}


def _most_do(ranks: Sequence[TopRank]) -> str:
    """Return what most ranks do, and how many do something else."""
    ((doing, count),) = Counter(map(_doing, ranks)).most_common(1) or [("", 0)]
    others = len(ranks) - count
    return f"{doing}, {others} differ{'s' if others == 1 else ''}" if others else doing


def _doing(rank: TopRank) -> str:
    """Return what a rank does in a word or two; what is wrong with it comes first."""
    if rank.has_ended:
        return "ended"
    if not rank.is_up:
        return "not up"
    if rank.state in ("T", "D"):
        return "stopped" if rank.state == "T" else "on disk"
    section = str(rank.section) if rank.section is not None else "script"
    if rank.is_slow:
        return f"{section}, slow"
    return f"{section}, waits" if rank.activity is Activity.PEERS else section


def _gpu_cells(gpus: Sequence[GpuSample]) -> dict[str, str]:
    """Return the cells of one GPU, or of several: means, sums of power, and the worst of the rest."""
    fullest = max((gpu for gpu in gpus if gpu.memory_total), key=lambda gpu: gpu.memory_used or 0, default=None)
    watts = [gpu.power_w for gpu in gpus if gpu.power_w is not None]
    temperatures = [gpu.temperature_c for gpu in gpus if gpu.temperature_c is not None]
    return {
        "BUSY": _share(gpus, lambda gpu: gpu.busy),
        "SM": _share(gpus, lambda gpu: gpu.sm_activity),
        "TENSOR": _share(gpus, lambda gpu: gpu.tensor_activity),
        "MEMORY": f"{(fullest.memory_used or 0) / GIB:.0f}/{(fullest.memory_total or 0) / GIB:.0f} GiB"
        if fullest
        else "",
        "POWER": f"{sum(watts):.0f} W" if watts else "",
        "TEMP": f"{max(temperatures)} C" if temperatures else "",
        "CLOCKS": _clocks(gpus),
    }


def _clocks(gpus: Sequence[GpuSample]) -> str:
    """Return the lowest clock, and why clocks are lower than asked for."""
    clocks = [gpu.sm_clock_mhz for gpu in gpus if gpu.sm_clock_mhz is not None]
    reasons = sorted({reason for gpu in gpus for reason in gpu.throttle})
    text = ", ".join(reason.removesuffix("_slowdown").replace("_", " ") for reason in reasons)
    return "  ".join(part for part in (f"{min(clocks)} MHz" if clocks else "", text) if part)


def _share(gpus: Sequence[GpuSample], of: Callable[[GpuSample], float | None]) -> str:
    values = [value for gpu in gpus if (value := of(gpu)) is not None]
    return f"{mean(values):.0%}" if values else ""


def _seconds(seconds: float | None) -> str:
    return f"{seconds:.0f} s" if seconds is not None else ""
