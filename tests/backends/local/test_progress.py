"""Progress of a script that only prints: steps, loss and time left, over a failure and a restart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.backends.harness import fsdpctl, submit, wait_for
from tests.services import require

SCRIPT = """
import os, pathlib, time
saved = pathlib.Path(os.environ["FSDPCTL_CHECKPOINT_DIR"], "step")
saved.parent.mkdir(exist_ok=True)
first = int(saved.read_text()) + 1 if saved.exists() else 1
for step in range(first, 13):
    print(f"iter {step}/12: loss {4 / step:.3f}", flush=True)
    if step % 4 == 0:
        saved.write_text(str(step))
    if step == 6 and first == 1:
        os._exit(3)
while not pathlib.Path(os.environ["FSDPCTL_RUN_DIR"], "seen").exists():
    time.sleep(0.1)
print("iter 12/12: loss 0.333 again", flush=True)
"""
JOB = r"""
name: prints
procs_per_node: 1
restarts: 1
entrypoint: {script: prints.py}
progress_regex: 'iter (?P<step>\d+)/(?P<total>\d+): loss (?P<loss>[\d.]+)'
"""


@pytest.mark.timeout(180)
def test_a_script_that_only_prints_has_step_loss_and_time_left(tmp_path: Path) -> None:
    require("torch")
    (tmp_path / "prints.py").write_text(SCRIPT)
    (tmp_path / "prints.yaml").write_text(JOB)
    run = submit("./prints.yaml", cwd=tmp_path)
    wait_for(lambda: [line["step"] for line in run.metrics()][-1:] == [12], 120, run.describe)
    (top,) = json.loads(fsdpctl("top", run.run_id, "--json", cwd=tmp_path).stdout)
    assert (top["attempt"], top["step"], top["total_steps"], top["loss"], top["eta_s"]) == (2, 12, 12, 0.333, 0.0)
    (run.paths.root / "seen").touch()
    status = run.wait_ended(limit_s=60)
    assert (status["state"], status["step"], status["total_steps"]) == ("SUCCEEDED", 12, 12), run.describe()
    steps = [(line["attempt"], line["step"]) for line in run.metrics()]
    assert steps == [*((1, step) for step in range(1, 5)), *((2, step) for step in range(5, 13))]
    run.assert_nothing_left()
