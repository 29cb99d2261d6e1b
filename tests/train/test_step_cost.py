"""The trainer's own work in a step stays small: a regression shows on any machine, without a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.train import faults
from tests.train.ranks import Config, train

LIMIT = 1.8  # seen: 1.2 to 1.4


def test_a_step_costs_little_more_than_a_bare_loop_of_torch(tmp_path: Path, config: Config) -> None:
    config.update(steps=60, log_every=10, checkpoint={"every_steps": 60})
    (tmp_path / "trainer.json").write_text(json.dumps(config))
    argv = [sys.executable, "-m", "tests.train.step_cost", str(tmp_path / "trainer.json")]
    found = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert float(found) < LIMIT


def test_no_step_reads_the_value_of_a_tensor_or_collects_garbage(tmp_path: Path, config: Config) -> None:
    """So the host runs ahead of a GPU, with a loss scale, too, but for the log now and then."""
    config.update(precision="fp16", log_every=100, mesh={"strategy": "FULL_SHARD"})
    train(tmp_path, config, procs_per_node=2, fault=faults.no_waiting_in_a_step)
