"""The speed and the memory of `fsdpctl data prepare`.

    python bench/data_prepare.py --mb 1000 --workers 1
    python bench/data_prepare.py --mb 1000 --workers 2 --train-bpe 32768

Makes JSON lines of the standard library's sources, over and over with another first line, prepares them in a process of
their own, and adds up ten times a second what all its processes have used: resident memory, where pages that they share
count twice, and processor time, which is more meaningful than the clock where the machine has other work.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=1000, help="size of the input")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--train-bpe", type=int, help="train a BPE of this vocabulary; unset: bytes")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "input.jsonl")
        write_input(source, args.mb * 10**6)
        bpe = ["--train-bpe", str(args.train_bpe)] if args.train_bpe else []
        command = ["data", "prepare", str(source), "--out", f"{folder}/out", "--workers", str(args.workers), *bpe]
        seconds, cpu, peak = measure([sys.executable, "-m", "fsdpctl", *command])
        print(
            f"{args.mb} MB in {seconds:.1f} s: {args.mb / seconds:.1f} MB/s;"
            f" {cpu:.1f} s of processor time: {args.mb / cpu:.1f} MB/s a core;"
            f" at most {peak / 1e6:.0f} MB of memory in all processes"
        )


def write_input(path: Path, num_bytes: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for number, text in enumerate(documents()):
            file.write(json.dumps({"text": f"# document {number}\n{text}"}) + "\n")
            if file.tell() >= num_bytes:
                return


def documents() -> Iterator[str]:
    root = Path(sysconfig.get_paths()["stdlib"])
    paths = [path for path in sorted(root.rglob("*.py")) if not {"site-packages", "test"} & set(path.parts)]
    texts = [path.read_text(encoding="utf-8") for path in paths if path.stat().st_size]
    for _ in count():
        yield from texts


def measure(command: list[str]) -> tuple[float, float, int]:
    """Return seconds by the clock, seconds of processor time, and the highest sum of resident memory in bytes."""
    start, cpu, peak = time.monotonic(), 0.0, 0
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        used = [use for pid in session(process.pid) if (use := usage(pid)) is not None]
        cpu = max(cpu, sum(seconds for seconds, _ in used))
        peak = max(peak, sum(memory for _, memory in used))
        time.sleep(0.1)
    if process.returncode:
        sys.exit(process.returncode)
    return time.monotonic() - start, cpu, peak


def session(leader: int) -> Iterator[int]:
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with suppress(ProcessLookupError):
            if os.getsid(pid) == leader:
                yield pid


def usage(pid: int) -> tuple[float, int] | None:
    """Return processor seconds, those of children that have ended included, and bytes of resident memory."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has just ended
        return None
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
