"""`fsdpctl bench scaling` where it does not come to a good end."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.backends.harness import COMMAND, Run, fsdpctl, wait_for

pytestmark = pytest.mark.slow


def runs(cwd: Path) -> list[dict[str, str]]:
    return list(json.loads(fsdpctl("ls", "--json", cwd=cwd).stdout))


def test_a_run_that_fails_is_a_row_with_its_cause(tmp_path: Path) -> None:
    broken = ("--set", "trainer.optim.lr=1e30", "--set", "trainer.max_skipped_steps=1")
    done = fsdpctl("bench", "scaling", "llm-tiny", "--gpus", "1", *broken, "--steps", "4", cwd=tmp_path, expect=1)
    (row,) = done.stdout.splitlines()[1:]
    assert row.split()[:4] == ["1", "-", "-", "-"] and "nan: The loss" in row
    (run,) = runs(tmp_path)
    assert f"hint: fsdpctl explain {run['run_id']}" in done.stderr


def test_ctrl_c_ends_the_run_and_prints_what_there_is(tmp_path: Path) -> None:
    words = ("bench", "scaling", "llm-tiny", "--gpus", "1", "--steps", "9000")
    bench = subprocess.Popen([COMMAND, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    started = wait_for(lambda: [run for run in runs(tmp_path) if run["step"]], 120, "a step")
    bench.send_signal(signal.SIGINT)
    _, printed = bench.communicate(timeout=60)
    assert bench.returncode == 130 and "takes the 0 results so far" in printed and "Traceback" not in printed
    run = Run.of(started[0], tmp_path)
    assert run.status()["state"] == "CANCELLED"
    run.assert_nothing_left()
