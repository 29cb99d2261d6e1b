"""Batch scripts of `jobs export` run on a real cluster, with nothing of fsdpctl beside them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.backends.harness import fsdpctl
from tests.backends.slurm.profile import write_profile
from tests.services import require
from tests.testbed.slurm import SlurmCluster, wait_until

ALL_REDUCE = """
import os, sys
from pathlib import Path
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor(dist.get_rank() + 1)
dist.all_reduce(total)
Path(f"rank-{dist.get_rank()}").write_text(f"{total.item()} {os.environ['GREETING']} {sys.argv[1:]}")
dist.destroy_process_group()
"""
JOB = """
name: own
nodes: 2
procs_per_node: 2
entrypoint: {script: own.py}
args: ["--text", "a b $HOME 'c'"]
env: {GREETING: "it's $(me)"}
"""


def submit(slurm: SlurmCluster, script: Path) -> str:
    """Submit as a user would, and wait for the end; return the log."""
    done = subprocess.run(
        ["sbatch", "--parsable", script.name], cwd=script.parent, capture_output=True, text=True, check=True
    )
    job_id = done.stdout.strip()
    wait_until(lambda: slurm.job(job_id)["JobState"] not in ("PENDING", "RUNNING", "COMPLETING"), "the job to end", 200)
    log = next(script.parent.glob(f"*-{job_id}.log")).read_text()
    assert slurm.job(job_id)["JobState"] == "COMPLETED", log
    return log


def test_a_script_and_the_trainer_run_from_exported_batch_scripts(slurm: SlurmCluster, tmp_path: Path) -> None:
    require("torch")
    profile = write_profile(tmp_path, more=', comment: "x # y"')
    (tmp_path / "own.py").write_text(ALL_REDUCE)
    (tmp_path / "own.yaml").write_text(JOB)
    fsdpctl("jobs", "export", "./own.yaml", "--to", "sbatch", "-p", profile, "-o", "own.sh", cwd=tmp_path)
    submit(slurm, tmp_path / "own.sh")
    written = {path.name: path.read_text() for path in tmp_path.glob("rank-*")}
    assert written == {f"rank-{rank}": f"""10 it's $(me) {["--text", "a b $HOME 'c'"]}""" for rank in range(4)}

    (tmp_path / "train.py").write_text("raise SystemExit('the file of the directory, not the bundled trainer')\n")
    steps = [
        "--set",
        "trainer.steps=3",
        "--set",
        "trainer.optim.warmup_steps=1",
        "--set",
        "trainer.checkpoint.every_steps=3",
        "--set",
        "trainer.eval.sequences=4",
    ]
    fsdpctl(
        "jobs", "export", "llm-tiny", "--to", "sbatch", "-p", profile, "-n", "2", *steps, "-o", "t.sh", cwd=tmp_path
    )
    submit(slurm, tmp_path / "t.sh")
    (metrics,) = tmp_path.glob("llm-tiny-*/metrics.jsonl")
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert [row["step"] for row in rows if "loss" in row] == [1, 2, 3]
    assert len(list(metrics.parent.glob("checkpoints/*/manifest.json"))) == 1
