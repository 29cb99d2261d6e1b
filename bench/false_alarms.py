"""Count the attempts that are ended as hangs though nothing hangs: many steps and many starts, beside other work.

    python -m bench.false_alarms [--steps 10000] [--starts 50] [--load 8]

Each is a run of two local nodes with saves and evaluations. A load of 8 is eight processes that never rest.
The table gives the mean load average of the machine as well: this run, its load and all other work.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from bench.cost import print_table
from tests.backends.hangs import JOB

START_STEPS = 12
LOAD_EVERY_S = 10.0
HEADER = ("what", "attempts", "taken for a hang", "other ends", "longest step s", "mean load", "minutes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--load", type=int, default=8, help="processes that compute beside it")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a time limit leaves no run behind
    with tempfile.TemporaryDirectory(prefix="false-alarms-") as directory, busy(args.load):
        root = Path(directory)
        (root / "calm.yaml").write_text(JOB)
        rows = [
            measure(root, f"one run of {args.steps:,} steps", [args.steps], every=100),
            measure(root, f"{args.starts} runs of {START_STEPS} steps", args.starts * [START_STEPS], every=5),
        ]
    print_table(f"beside a load of {args.load}", HEADER, rows)


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep `count` processes computing."""
    loads = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for load in loads:
            load.kill()


def measure(root: Path, name: str, runs: list[int], every: int) -> list[str]:
    """Run one job after the other, and return the row of the table."""
    began = time.monotonic()
    with sampled_load() as loads:
        directories = [run(root, steps, every) for steps in runs]
    verdicts = [json.loads(path.read_text()) for one in directories for path in one.glob("attempts/*/verdict.json")]
    hangs = sum(1 for one in directories for _ in one.rglob("hang.json"))
    others = sum(verdict["state"] != "SUCCEEDED" for verdict in verdicts) - hangs
    return [
        *(name, str(len(verdicts)), str(hangs), str(others)),
        *(f"{max(map(longest_step_s, directories)):.1f}", f"{statistics.mean(loads):.1f}"),
        f"{(time.monotonic() - began) / 60:.1f}",
    ]


@contextmanager
def sampled_load() -> Iterator[list[float]]:
    """Yield the load averages of the machine, of one minute each, taken at intervals while the block runs."""
    loads = [os.getloadavg()[0]]
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(LOAD_EVERY_S):
            loads.append(os.getloadavg()[0])

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield loads
    finally:
        ended.set()
        sampler.join()


def run(root: Path, steps: int, every: int) -> Path:
    """Run the job to its end, and return the run directory."""
    settings = [f"steps={steps}", f"checkpoint.every_steps={every}", f"eval.every_steps={every}"]
    words = ["submit", str(root / "calm.yaml"), "--nodes", "2", "--json", "--follow"]
    words += [word for one in settings for word in ("--set", f"trainer.{one}")]
    env = {**os.environ, "FSDPCTL_HOME": str(root / "home")}
    subprocess.run([sys.executable, "-m", "fsdpctl", *words], env=env, capture_output=True, check=False)
    return max((root / "home" / "runs").iterdir(), key=lambda path: path.stat().st_mtime)


def longest_step_s(directory: Path) -> float:
    times = [json.loads(line)["time"] for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return max((after - before for before, after in pairwise(times)), default=0.0)


if __name__ == "__main__":
    main()
