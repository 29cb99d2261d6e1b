"""Scripts of `jobs export --to torchrun` run on this machine, with nothing of fsdpctl beside them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.backends.harness import fsdpctl, submit
from tests.backends.slurm.test_exported import ALL_REDUCE, JOB
from tests.services import require


def test_two_nodes_start_from_one_exported_script(tmp_path: Path) -> None:
    require("torch")
    (tmp_path / "own.py").write_text(ALL_REDUCE)
    (tmp_path / "own.yaml").write_text(JOB)
    fsdpctl("jobs", "export", "./own.yaml", "--to", "torchrun", "-o", "run.sh", cwd=tmp_path)
    nodes = [subprocess.Popen(["bash", "run.sh", str(rank)], cwd=tmp_path, env=os.environ) for rank in range(2)]
    assert [node.wait(timeout=200) for node in nodes] == [0, 0]
    expected = {f"rank-{rank}": f"""10 it's $(me) {["--text", "a b $HOME 'c'"]}""" for rank in range(4)}
    assert {path.name: path.read_text() for path in tmp_path.glob("rank-*")} == expected

    fsdpctl("jobs", "import", "run.sh", "-o", "again.yaml", cwd=tmp_path)
    run = submit("./again.yaml", "--nodes", "2", "--set", "procs_per_node=2", cwd=tmp_path)
    assert run.wait_ended()["state"] == "SUCCEEDED"
    again = {path.name: path.read_text() for path in run.paths.source.glob("rank-*")}
    assert again == expected, "the imported job does the same"


def test_one_node_trains_from_an_exported_script(tmp_path: Path) -> None:
    require("torch")
    steps = [
        "--set",
        "trainer.steps=2",
        "--set",
        "trainer.optim.warmup_steps=1",
        "--set",
        "trainer.eval.sequences=4",
        "--set",
        "trainer.checkpoint.every_steps=2",
    ]
    fsdpctl("jobs", "export", "llm-tiny", "--to", "torchrun", *steps, "-o", "run.sh", cwd=tmp_path)
    subprocess.run(["bash", "run.sh"], cwd=tmp_path, check=True, timeout=200)
    assert (tmp_path / "llm-tiny" / "metrics.jsonl").read_text().count('"loss"') == 2
