"""What saving costs on this machine's GPUs: the stall of a save beside training, and a stop's way to the disk.

    python -m bench.saves_on_gpus [--job jobs/llm300m.yaml] [--steps 60] [--every 20] [--sequences 32]

Trains the same steps with saves beside training, with saves that are waited for, and without saves; then stops a run.
Prints one Markdown table. Step times are taken from step to step, so that a save in between counts.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import yaml

WARM_UP = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", type=Path, default=Path("jobs/llm300m.yaml"))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--sequences", type=int, default=32)
    words = parser.parse_args()
    print(f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}, torch {torch.__version__}, {words.job.stem}")
    print("| saves | median step ms | p99 | longest | save s | staged ms |\n| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as root:
        for name, checkpoint in [
            ("beside training", {"every_steps": words.every, "keep": 1}),
            ("waited for", {"every_steps": words.every, "keep": 1, "mode": "sync"}),
            ("none", {"every_steps": words.steps, "keep": 1}),
        ]:
            run = Path(root, name.replace(" ", "-"))
            start(run, words, checkpoint).wait()
            print(row(name, run), flush=True)
        print(stop(Path(root, "stopped"), words))


def start(run: Path, words: argparse.Namespace, checkpoint: dict[str, Any]) -> subprocess.Popen[bytes]:
    config = yaml.safe_load(words.job.read_text())["trainer"]
    config.update(steps=words.steps, checkpoint=checkpoint, eval={"sequences": 32}, log_every=10)
    config["batch"] = {"sequences": words.sequences, "micro_batch": 16}
    config["optim"]["warmup_steps"] = 10
    run.mkdir()
    (run / "trainer.json").write_text(json.dumps(config))
    count = str(torch.cuda.device_count())
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", count]
    with (run / "log").open("wb") as log:
        command = [*launcher, "-m", "train", "--config", str(run / "trainer.json")]
        return subprocess.Popen(command, stdout=log, stderr=log)


def row(name: str, run: Path) -> str:
    times = [record["time"] for record in records(run)]
    steps = sorted(1000 * (b - a) for a, b in zip(times[WARM_UP:], times[WARM_UP + 1 :], strict=False))
    log = (run / "log").read_text()
    found = re.findall(r"saved \S+ in ([\d.]+) s \(staged in ([\d.]+) s\)", log)
    if not steps or not found:
        return f"| {name} | failed: {log[-800:]} |"
    save_s, staged_s = (max(float(value) for value in column) for column in zip(*found, strict=True))
    p99 = steps[int(0.99 * (len(steps) - 1))]
    return (
        f"| {name} | {statistics.median(steps):.0f} | {p99:.0f} | {steps[-1]:.0f} "
        f"| {save_s:.2f} | {1000 * staged_s:.0f} |"
    )


def stop(run: Path, words: argparse.Namespace) -> str:
    """TERM to every rank, as a scheduler would send it, and the time until the checkpoint has its name."""
    words.steps *= 100
    process = start(run, words, {"every_steps": words.steps, "keep": 1})
    while len(records(run)) < WARM_UP and process.poll() is None:
        time.sleep(0.05)
    asked = time.monotonic()
    for pid in subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split():
        subprocess.run(["kill", f"-{signal.SIGTERM}", pid], check=True)
    while not list(run.glob("checkpoints/step-*[0-9]")) and process.poll() is None:
        time.sleep(0.01)
    durable = time.monotonic() - asked
    process.wait()
    names = [path.name for path in run.glob("checkpoints/*")]
    size = sum(path.stat().st_size for path in run.rglob("*.distcp")) / 1e9
    return f"TERM to durable checkpoint: {durable:.2f} s ({size:.2f} GB, {', '.join(names)})"


def records(run: Path) -> list[dict[str, Any]]:
    path = run / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []


if __name__ == "__main__":
    main()
