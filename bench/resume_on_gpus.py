"""llm300m on this machine's GPUs as two nodes: a straight run, a stop and resume, a killed rank.

    python -m bench.resume_on_gpus [--steps 50] [--sequences 256] [--job llm300m]

Prints one Markdown table, and the lines of the log on device and mesh. Losses are compared step by step with the
straight run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsdpctl.contract.paths import RunPaths
from fsdpctl.node.os import processes
from fsdpctl.node.os.processes import Tag


@dataclass(frozen=True)
class Run:
    run_id: str
    paths: RunPaths

    def losses(self) -> list[float]:
        try:
            lines = self.paths.metrics.read_text().splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line)["loss"] for line in lines if line.endswith("}")]

    def log(self) -> str:
        return "".join(
            path.read_text(errors="replace") for path in sorted(self.paths.root.glob("attempts/*/node-0/rank-0.log"))
        )


def fsdpctl(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "fsdpctl", *words], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        print(f"fsdpctl {' '.join(words)} ended with {done.returncode}", file=sys.stderr)
    return done.stdout


def submit(args: argparse.Namespace, name: str, *more: str) -> Run:
    overrides = [f"trainer.steps={args.steps}", f"trainer.batch.sequences={args.sequences}", *more]
    overrides += ["trainer.checkpoint.every_steps=10", "trainer.eval.sequences=64", "trainer.optim.warmup_steps=10"]
    sets = [part for override in overrides for part in ("--set", override)]
    answer = json.loads(fsdpctl("submit", args.job, "--nodes", "2", "--name", name, "--json", *sets))
    return Run(answer["run_id"], RunPaths.of(answer["run_dir"]))


def wait_step(run: Run, step: int, limit_s: float = 300) -> None:
    deadline = time.monotonic() + limit_s
    while len(run.losses()) < step and time.monotonic() < deadline:
        time.sleep(0.2)


def wait_end(run: Run) -> dict[str, Any]:
    while True:
        status = json.loads(fsdpctl("status", "--json", run.run_id))
        if status["state"] not in ("QUEUED", "RUNNING", "RESTARTING"):
            return dict(status)
        time.sleep(1)


def kill_a_rank(run: Run) -> None:
    ranks = [
        pid
        for pid in processes.find(Tag(run.run_id, 1))
        if b"fsdpctl.node.agent.rank" in (line := Path(f"/proc/{pid}/cmdline").read_bytes())
        and b"fsdpctl.node.agent.torchrun" not in line
    ]
    os.kill(ranks[0], signal.SIGKILL)


def row(name: str, run: Run, status: dict[str, Any], straight: list[float], seconds: float) -> str:
    losses = run.losses()
    differences = [abs(a - b) / b for a, b in zip(losses, straight, strict=False)]
    equal = f"{max(differences):.1e}" if differences and len(losses) == len(straight) else f"{len(losses)} steps"
    summary = (
        json.loads(run.paths.attempts()[-1].outcome.read_text())["summary"] if status["state"] == "SUCCEEDED" else {}
    )
    return (
        f"| {name} | {status['state']} | {status['attempt']} | {losses[0]:.4f} -> {losses[-1]:.4f} | {equal} "
        f"| {summary.get('tokens_per_s', 0):,.0f} | {summary.get('held_out_loss', 0):.4f} | {seconds:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--sequences", type=int, default=256)
    parser.add_argument("--job", default="llm300m")
    args = parser.parse_args()
    rows, run_ids = [], []
    started = time.monotonic()
    run = submit(args, "straight")
    run_ids.append(run.run_id)
    straight_status = wait_end(run)
    straight = run.losses()
    rows.append(row("straight", run, straight_status, straight, time.monotonic() - started))
    where = [line for line in run.log().splitlines() if any(w in line for w in ("mesh:", "device:", "NCCL", "peak"))]

    started = time.monotonic()
    run = submit(args, "stopped")
    run_ids.append(run.run_id)
    wait_step(run, args.steps * 2 // 5)
    fsdpctl("stop", run.run_id)
    stopped_at = len(run.losses())
    fsdpctl("resume", run.run_id)
    status = wait_end(run)
    rows.append(row(f"stopped at {stopped_at}, resumed", run, status, straight, time.monotonic() - started))

    started = time.monotonic()
    run = submit(args, "killed")
    run_ids.append(run.run_id)
    wait_step(run, args.steps * 2 // 5 + 3)
    kill_a_rank(run)
    status = wait_end(run)
    rows.append(row("SIGKILL of a rank", run, status, straight, time.monotonic() - started))
    left = [pid for run_id in run_ids for pid in processes.find(Tag(run_id))]

    print("\n".join(dict.fromkeys(where)))
    print("| run | end | attempts | loss | max rel. difference | tokens/s | held-out | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    print("\n".join(rows))
    print(f"processes left: {left}")


if __name__ == "__main__":
    main()
