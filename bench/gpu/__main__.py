"""Measurements on this machine's GPUs: speed beside torchtitan, saves, starts, memory, and what CPUs cannot prove.

    python -m bench.gpu CALL [--rows PATTERN] [--budget 520] [--limit 180] [--out FILE] [--tiny]

CALL is one-gpu, proofs, two-gpus, four-gpus, one-billion, seven-billion, documents, failures, hangs or rest; `--list`
shows its rows. A row is printed as soon as it is known, as a JSON line here and in FILE; the table comes last. One that
fails does not affect the others.
`--tiny` tries the whole path on CPUs. The call `estimates` has cases of its own, see `bench.gpu.estimates`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from bench.cost import print_table
from bench.gpu import estimates
from bench.gpu.process import CommandError
from bench.gpu.result import HEADER, Result, as_line, as_row
from bench.gpu.rows import CALLS, Row
from bench.gpu.workspace import Workspace

ESTIMATES = "estimates"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("call", choices=(*CALLS, ESTIMATES))
    parser.add_argument(
        "--rows", default="", metavar="PATTERN", help="only rows whose name has this regular expression"
    )
    parser.add_argument("--budget", type=float, default=520, help="seconds for all: rows that no longer fit are left")
    parser.add_argument("--limit", type=float, default=180, help="seconds that one command of a row may take")
    parser.add_argument("--out", type=Path, help="a file for the rows, too")
    parser.add_argument("--tiny", action="store_true", help="a small model, a few steps, at most two processes")
    parser.add_argument("--list", action="store_true", help="only list the rows, and their expected seconds")
    args = parser.parse_args()
    if args.call == ESTIMATES:
        estimates.measure_all(re.compile(args.rows), args.budget, args.out or Path("estimates.jsonl"), tiny=args.tiny)
        return
    rows = [row for row in CALLS[args.call]() if re.search(args.rows, row.name)]
    if args.list:
        print("\n".join(f"{row.seconds:4.0f} s  {row.name}" for row in rows))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a row ends with its processes
    table = measure(rows, time.monotonic() + args.budget, args.limit, args.out, tiny=args.tiny)
    cards = f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}" if torch.cuda.is_available() else "no GPU"
    print_table(f"{args.call} on {cards}", HEADER, table)


def measure(
    rows: Sequence[Row], deadline: float, limit_s: float, out: Path | None, *, tiny: bool
) -> list[Sequence[str]]:
    """Measure row after row as long as there is time, and return the table."""
    known: dict[str, Result] = {}
    table: list[Sequence[str]] = []
    with tempfile.TemporaryDirectory(prefix="bench-gpu-") as shared:
        for number, row in enumerate(rows):
            left_s = deadline - time.monotonic()
            if left_s < row.seconds:
                _report(json.dumps({"row": row.name, "left out": f"{left_s:.0f} s left, needs {row.seconds:.0f}"}), out)
                continue
            with tempfile.TemporaryDirectory(dir=shared, prefix=f"{number}-") as root:
                began = time.monotonic()
                workspace = Workspace(Path(root), Path(shared), min(limit_s, left_s), tiny)
                try:
                    result = row.measure(workspace)
                except Exception as error:  # whatever it is: the rows after it are as good as before
                    _report(json.dumps({"row": row.name, "failed": _describe(error)}), out)
                    table.append((row.name, "failed", *[""] * (len(HEADER) - 2)))
                    continue
            known[row.name] = result
            others = {name: known[name] for name in row.against if name in known}
            table.append(as_row(row.name, result, others, row.compares))
            _report(as_line(time.monotonic() - began, result, table[-1]), out)
    return table


def _describe(error: Exception) -> str:
    if isinstance(error, CommandError | LookupError):
        return str(error)
    if isinstance(error, subprocess.TimeoutExpired):
        return f"still ran after {error.timeout:.0f} s"
    return f"{type(error).__name__}: {error}"


def _report(line: str, out: Path | None) -> None:
    print(line, flush=True)
    if out:
        with out.open("a") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())


if __name__ == "__main__":
    main()
