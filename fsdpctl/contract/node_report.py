"""What an agent reports about the ranks of its node, once a second, as the content of its heartbeat file.

Ages are those that the agent has measured: time in which it was suspended does not count, nor do clocks of other hosts.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fsdpctl.contract.codec import CodecError, encode, find_json
from fsdpctl.contract.rank_progress import RankProgress

REPORT_EVERY_S = 1.0


class Activity(StrEnum):
    """What the stack of a rank's main thread shows."""

    UNKNOWN = "unknown"  # not asked, or no stack could be had
    PEERS = "peers"  # in a collective: it waits for other ranks, or for the network
    COMPILING = "compiling"
    WORKING = "working"  # anything else


@dataclass(frozen=True)
class RankReport:
    """One rank, as its agent sees it."""

    rank: int
    progress: RankProgress | None = None  # None: it has not reported any, as most users' scripts
    sign_s: float = 0.0  # since the last sign of progress; of a user's script, since the last output
    idle_s: float = 0.0  # since its processes last used the processor, read or wrote
    is_up: bool = True  # its process exists
    ended_s: float | None = None  # since it finished its script without an error
    state: str = ""  # of its process, as in proc(5): R, S, D, T (stopped), t (traced)
    wait_channel: str = ""  # where it waits in the kernel
    activity: Activity = Activity.UNKNOWN
    where: str = ""  # FILE:LINE FUNCTION (CALLED) of the user's code in which it waits or works, once it is late
    script_step: int | None = None  # the newest that was found for a script that does not report its progress


@dataclass(frozen=True)
class GpuSample:
    """One GPU of a node, as NVML reports it; null where a GPU or a driver does not."""

    index: int  # of the driver
    name: str = ""
    busy: float | None = None  # share of the last moment in which a kernel ran
    sm_activity: float | None = None  # share of the multiprocessors' time in which they had work
    tensor_activity: float | None = None  # share of the time in which tensor cores worked
    memory_used: int | None = None  # bytes
    memory_total: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    energy_j: float | None = None  # used since the agent began to watch, by the GPU's own counter
    temperature_c: int | None = None
    sm_clock_mhz: int | None = None
    max_sm_clock_mhz: int | None = None
    throttle: tuple[str, ...] = ()  # why clocks are lower than asked for


@dataclass(frozen=True)
class NodeReport:
    """The ranks and GPUs of one node."""

    number: int = 0  # counts reports: a new one is different
    ranks: tuple[RankReport, ...] = ()
    gpus: tuple[GpuSample, ...] = ()
    energy_j: float | None = None  # of all GPUs together, also once they report no more


def write_report(path: Path, report: NodeReport) -> None:
    """Replace the content of the heartbeat file in place: no other file, and on a full disk no new block."""
    data = (json.dumps(encode(report), separators=(",", ":")) + "\n").encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, data, 0)
        os.truncate(descriptor, len(data))
    finally:
        os.close(descriptor)


def read_report(path: Path) -> NodeReport | None:
    """Return the report; None if there is none, or it is being written."""
    try:
        return find_json(NodeReport, path)
    except (CodecError, OSError):
        return None
