"""A rank's flight record, written when its agent asks for it.

The main thread of a rank that hangs runs no Python, so a thread of its own waits for the signal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from fsdpctl.contract.codec import write_json
from fsdpctl.contract.flight_record import FlightRecord
from fsdpctl.contract.formats.flight_dump import build_record, load_dump
from fsdpctl.node.os.signals import FLIGHT_SIGNAL, start_answering

FLIGHT_S = 10.0
"""What a rank gets to write its flight record with stacks, for which torch imports its compiler."""
FAILURE_S = 2.0
"""What a rank that fails gets to write its record."""
_DUMPS = ("_dump_nccl_trace", "_dump_fr_trace")
"""Two recorders: that of NCCL, and that of all other backends."""


class FlightRecorder:
    """Writes the flight record of this process to `path` at each FLIGHT_SIGNAL."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_asked = threading.Event()

    def start(self) -> None:
        """Begin to wait for requests, as `signals.start_answering`."""
        start_answering(FLIGHT_SIGNAL, self._answer, name="flight-record")

    def write_at_failure(self) -> None:
        """Write the record of a rank that fails, without stacks; in a thread, because torch may not answer any more."""
        if self._is_asked.is_set():
            return  # what fails now follows from the end, and the record from before it must stay
        thread = threading.Thread(target=self._write, kwargs={"with_stacks": False}, daemon=True)
        thread.start()
        thread.join(FAILURE_S)

    def hold_exit(self) -> None:
        """Once a record was requested, leave the end of this process to the agent.

        Peers of other nodes may have been ended first. If this rank then failed, its torchrun would end the ranks
        that still write.
        """
        if self._is_asked.is_set():
            time.sleep(FLIGHT_S)

    def _answer(self) -> None:
        self._is_asked.set()
        self._write(with_stacks=False)
        self._write(with_stacks=True)

    def _write(self, *, with_stacks: bool) -> None:
        with suppress(OSError):  # a full disk
            write_json(self._path, read_flight_record(with_stacks=with_stacks))


def read_flight_record(*, with_stacks: bool) -> FlightRecord:
    """Return what torch has recorded in this process; an empty record, with a problem, where there is none."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is None:
        return FlightRecord(problem="torch.distributed is not in use")
    try:
        dumps = [load_dump(dump(True, with_stacks, False)) for dump in _find_dumps()]
        return replace(build_record(dumps, _members(c10d)), has_stacks=with_stacks)
    except Exception as error:  # of any version of torch, in a process that hangs or has failed
        return FlightRecord(problem=f"{type(error).__name__}: {error}")


def _find_dumps() -> list[Callable[[bool, bool, bool], bytes]]:
    binding = sys.modules["torch._C._distributed_c10d"]
    return [getattr(binding, name) for name in _DUMPS if hasattr(binding, name)]


def _members(c10d: Any) -> Mapping[str, list[int]]:
    """Return name -> global ranks of the process groups; torch offers no public way to list them."""
    groups = list(c10d._world.pg_names.items())
    return {name: c10d.get_process_group_ranks(group) for group, name in groups}
