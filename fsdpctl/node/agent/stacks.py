"""The stacks of this node's ranks: asked for by a signal, written by the ranks, and what they show."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.node_report import Activity
from fsdpctl.contract.paths import NodePaths
from fsdpctl.contract.source_files import is_users
from fsdpctl.contract.stack_dump import ThreadStack, find_active, parse_stacks
from fsdpctl.node.os.signals import DUMP_SIGNAL, FORCED_DUMP_SIGNAL
from fsdpctl.node.os.usage import catches

# Only while code is compiled; running it has frames of torch/_dynamo and torch/_inductor, too.
_COMPILER = ("torch/_dynamo/convert_frame.py", "torch/_inductor/compile_fx.py", "torch/_inductor/async_compile.py")
_TUNING = ("autotune_to_one_config", "benchmark_all_configs", "coordinate_descent_tuning", "precompile")
"""Of torch/_inductor/runtime/triton_heuristics.py, whose other functions start each kernel."""
_COLLECTIVES = ("torch/distributed/", "torch/cuda/")
_READER = "torch/distributed/checkpoint/"
"""Reads and writes files; its collectives have frames of torch/distributed/ itself, too."""


def request_stacks(paths: NodePaths, pids: Mapping[int, int]) -> None:
    """Make the ranks (rank -> pid) replace the stacks beside their logs; it takes them a moment."""
    for rank, pid in pids.items():
        with suppress(OSError):
            os.truncate(paths.rank_stacks(rank), 0)
        _signal(pid, DUMP_SIGNAL)


def force_stacks(pid: int) -> None:
    """Make a rank that hangs, and did not answer, write the stack of its main thread: it holds the interpreter's lock,
    or a library has taken the signal away."""
    _signal(pid, FORCED_DUMP_SIGNAL)


def refresh_stacks(pids: Mapping[int, int]) -> None:
    """Make the ranks write their stacks once more; of those that do not answer, the older ones are kept."""
    for pid in pids.values():
        _signal(pid, DUMP_SIGNAL)


def _signal(pid: int, number: int) -> None:
    if catches(pid, number):  # not before Python has come so far, nor after an exec
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def read_stacks(paths: NodePaths, rank: int) -> str:
    """Return the newest stacks of a rank in the format of faulthandler; empty if there are none."""
    try:
        return read_bytes(paths.rank_stacks(rank)).decode(errors="replace")
    except OSError:
        return ""


def classify(stacks: str) -> tuple[Activity, str]:
    """Return what a rank is doing, and the place in the user's code of the thread on which that depends.

    That is the main thread, or another one for which it waits. Compiling counts in any thread: autograd runs the
    backward pass of a GPU, and what is compiled in it, in a thread of its own.
    """
    threads = parse_stacks(stacks)
    active = find_active(threads)
    if active is None:
        return Activity.UNKNOWN, ""
    thread = next((one for one in threads if _is_compiling(one)), active)
    return _activity(thread), _place(thread)


def _place(thread: ThreadStack) -> str:
    """Return the innermost frame of the user's code with what it has called, or the innermost one of all."""
    innermost = thread.frames[0]
    own = next((frame for frame in thread.frames if is_users(frame.file)), innermost)
    return str(own) if own is innermost else f"{own} ({innermost.function})"


def _activity(thread: ThreadStack) -> Activity:
    if _is_compiling(thread):
        return Activity.COMPILING
    files = [frame for frame in thread.frames if _READER not in frame.file]
    of_torch = [frame for frame in files if any(part in frame.file for part in _COLLECTIVES)]
    is_collective = bool(of_torch) and all(frame.function != "<module>" for frame in of_torch)  # else it is imported
    is_backward = any(frame.function == "_engine_run_backward" for frame in thread.frames)
    return Activity.PEERS if is_collective or is_backward else Activity.WORKING


def _is_compiling(thread: ThreadStack) -> bool:
    return any(
        frame.file.endswith(_COMPILER) or "/triton/compiler/" in frame.file or frame.function in _TUNING
        for frame in thread.frames
    )
