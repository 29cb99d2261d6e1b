"""A rank writes its flight record on request, also while its main thread runs no Python, and beside the thread that
writes its stacks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from fsdpctl.contract.codec import find_json
from fsdpctl.contract.flight_record import FlightRecord
from fsdpctl.node.os.signals import FLIGHT_SIGNAL

RANK = """
import ctypes, sys
from pathlib import Path
from fsdpctl.node.agent.flight import FlightRecorder
from fsdpctl.node.agent.stack_writer import StackWriter
StackWriter(Path(sys.argv[2])).start()
FlightRecorder(Path(sys.argv[1])).start()
print("up", flush=True)
ctypes.CDLL(None).sleep(60)
"""


def test_a_process_that_does_not_use_torch_answers_and_continues(tmp_path: Path) -> None:
    path = tmp_path / "flight-0.json"
    argv = [sys.executable, "-c", RANK, str(path), str(tmp_path / "stacks-0.txt")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        for _ in range(2):
            path.unlink(missing_ok=True)
            os.kill(process.pid, FLIGHT_SIGNAL)
            deadline = time.monotonic() + 10
            while (record := find_json(FlightRecord, path)) is None:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert record.problem == "torch.distributed is not in use"
        assert process.poll() is None
        process.kill()
