"""Tokens a second, stalls, memory and starts on this machine's GPUs, beside torchtitan where it is installed.

    python -m bench.gpu [--jobs llm300m llm90m llm7b] [--gpus 1 4] [--steps 60] [--limit 240] [--only WORD]

Each row is a run of its own under torchrun with a time limit: one that hangs or fails says so and costs no other. A row
is told as soon as it is known, as a JSON line; the table comes last. `--tiny` tries the whole path on CPUs.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import yaml

from bench.cost import tell_table

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
HEADER = (
    *("row", "tokens/s/GPU", "over torchtitan", "step ms", "p99/p50", "longest ms"),
    *("peak GiB", "first step s", "save s", "staged ms"),
)
LAYERS_THAT_FIT = {"llm7b": 16}
"""Of a job whose weights, gradients and moments are too many for four cards of 80 GB beside its activations."""


@dataclass(frozen=True)
class Row:
    """One run: who trains what, on how many GPUs, and with which keys changed."""

    job: str
    who: str
    gpus: int
    changed: dict[str, Any]  # dotted keys of the trainer's configuration
    resumes: bool = False  # measured is a second start, from the first one's checkpoint

    @property
    def name(self) -> str:
        return f"{self.job} {self.who} x{self.gpus}"


@dataclass(frozen=True)
class Result:
    """Step times are from end to end, so that all between two steps counts."""

    tokens_per_s_gpu: float
    step_ms: float
    p99_over_p50: float
    longest_ms: float
    peak_gib: float
    first_step_s: float  # from the start of torchrun
    save_s: float | None = None
    staged_ms: float | None = None


def rows_for(job: str, gpus: int, steps: int) -> Iterator[Row]:
    """All that is compared on one number of GPUs, the peer first."""
    no_saves = {"checkpoint.every_steps": steps * 100}
    yield Row(job, "torchtitan", gpus, {})
    if gpus == 1:
        yield Row(job, "ours", gpus, no_saves)
    else:
        for strategy in ("HYBRID_SHARD", "FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"):
            yield Row(job, f"ours {strategy}", gpus, {**no_saves, **_mesh(strategy, gpus)})
        for blocks in (0, 1, 4):  # 0: one unit and one graph; else a graph a block
            yield Row(job, f"ours, {blocks} blocks a unit", gpus, {**no_saves, "mesh.units.blocks": blocks})
    yield Row(job, "ours, eager", gpus, {**no_saves, "compile": False})
    yield Row(job, "ours, saves", gpus, {"checkpoint.every_steps": max(2, steps // 3)})
    yield Row(job, "ours, resumed", gpus, {}, resumes=True)


def _mesh(strategy: str, gpus: int) -> dict[str, Any]:
    sizes = {"mesh.replicate": gpus // 2, "mesh.shard": 2} if strategy == "HYBRID_SHARD" and gpus > 2 else {}
    return {"mesh.strategy": strategy, **sizes}


def measure(row: Row, config: dict[str, Any], limit_s: float) -> Result:
    """Run the row. Raises CalledProcessError or TimeoutExpired."""
    with tempfile.TemporaryDirectory() as root:
        path = Path(root, "trainer.json")
        path.write_text(json.dumps(config))
        if row.resumes:
            _run(row, path, limit_s)
            path.write_text(json.dumps({**config, "steps": config["steps"] + 10}))
        began = time.time()
        log = _run(row, path, limit_s)
        return summarize(row, config, began, Path(root), log)


def _run(row: Row, path: Path, limit_s: float) -> str:
    launcher = [*TORCHRUN, "--nproc-per-node", str(row.gpus), "-m"]
    if row.who == "torchtitan":
        sizes = ["--replicate", str(row.gpus // 2), "--shard", "2"] if row.gpus > 2 else ["--shard", str(row.gpus)]
        argv = [*launcher, "bench.torchtitan_peer", str(path), *sizes]
    else:
        argv = [*launcher, "train", "--config", str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            log, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            process.terminate()  # torchrun ends its ranks
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, argv, log)
    return log


def summarize(row: Row, config: dict[str, Any], began: float, run: Path, log: str) -> Result:
    if row.who == "torchtitan":
        found = json.loads(log.rpartition("RESULT ")[2].splitlines()[0])
        ended, peak_gib = found["ended"], found["peak_gib"]
        tokens = config["batch"]["micro_batch"] * config["model"]["seq_len"]  # a GPU's, in one micro-step
    else:
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        ended = [line["time"] for line in lines if line["time"] > began]
        peak_gib = float(re.findall(r"peak memory ([\d.]+) GiB", log)[-1])
        tokens = config["batch"]["sequences"] * config["model"]["seq_len"] / row.gpus
    settled = ended[len(ended) // 3 :]
    steps = sorted(1000 * (b - a) for a, b in pairwise(settled))
    middle = statistics.median(steps)
    saves = re.findall(r"saved \S+ in ([\d.]+) s \(staged in ([\d.]+) s\)", log)
    return Result(
        tokens_per_s_gpu=1000 * tokens / middle,
        step_ms=middle,
        p99_over_p50=steps[int(0.99 * (len(steps) - 1))] / middle,
        longest_ms=steps[-1],
        peak_gib=peak_gib,
        first_step_s=ended[0] - began,
        save_s=max(float(save) for save, _ in saves) if saves else None,
        staged_ms=max(1000 * float(staged) for _, staged in saves) if saves else None,
    )


def config_of(row: Row, steps: int) -> dict[str, Any]:
    """The job's configuration for this row: one micro-step a step, so that both trainers do the same."""
    config: dict[str, Any] = yaml.safe_load(Path("jobs", f"{row.job}.yaml").read_text())["trainer"]
    config["model"]["layers"] = LAYERS_THAT_FIT.get(row.job, config["model"]["layers"])
    config["batch"] = {"micro_batch": config["batch"]["micro_batch"]}
    config["batch"]["sequences"] = config["batch"]["micro_batch"] * row.gpus
    config["optim"]["warmup_steps"] = min(10, steps)
    config.update(steps=steps, eval={"sequences": config["batch"]["sequences"]}, log_every=10)
    for key, value in row.changed.items():
        *outer, last = key.split(".")
        place = config
        for name in outer:
            place = place.setdefault(name, {})
        place[last] = value
    return config


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", nargs="+", default=["llm300m", "llm90m", "llm7b"])
    parser.add_argument("--gpus", nargs="+", type=int, default=sorted({1, max(1, torch.cuda.device_count())}))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--limit", type=float, default=240, help="seconds that one run may take")
    parser.add_argument("--only", default="", help="rows that have this in their name")
    parser.add_argument("--tiny", action="store_true", help="llm-tiny, a few steps")
    words = parser.parse_args()
    if words.tiny:
        words.jobs, words.steps = ["llm-tiny"], 9
    rows = [row for job in words.jobs for gpus in words.gpus for row in rows_for(job, gpus, words.steps)]
    peers: dict[tuple[str, int], float] = {}
    chosen = [row for row in rows if words.only in row.name and not (row.job in LAYERS_THAT_FIT and row.gpus == 1)]
    table = [_tell_row(row, words.steps, words.limit, peers) for row in chosen]
    cards = f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}" if torch.cuda.is_available() else "no GPU"
    tell_table(f"Training on {cards}", HEADER, table)


def _tell_row(row: Row, steps: int, limit_s: float, peers: dict[tuple[str, int], float]) -> tuple[str, ...]:
    try:
        result = measure(row, config_of(row, steps), limit_s)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(json.dumps({"row": row.name, "failed": str(error)[:100], "said": str(error.output)[-2000:]}), flush=True)
        return (row.name, "failed", *[""] * (len(HEADER) - 2))
    print(json.dumps({"row": row.name, "changed": row.changed, **asdict(result)}), flush=True)
    peer = peers.setdefault((row.job, row.gpus), result.tokens_per_s_gpu if row.who == "torchtitan" else 0)
    return (
        row.name,
        f"{result.tokens_per_s_gpu:,.0f}",
        f"{result.tokens_per_s_gpu / peer:.3f}" if peer else "",
        f"{result.step_ms:.1f}",
        f"{result.p99_over_p50:.3f}",
        f"{result.longest_ms:.0f}",
        f"{result.peak_gib:.1f}",
        f"{result.first_step_s:.1f}",
        "" if result.save_s is None else f"{result.save_s:.2f}",
        "" if result.staged_ms is None else f"{result.staged_ms:.0f}",
    )


if __name__ == "__main__":
    main()
