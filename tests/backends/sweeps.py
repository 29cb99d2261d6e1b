"""A job whose runs report three steps of a loss, and wait while there is a file `hold` in their project."""

from __future__ import annotations

from pathlib import Path

JOB = """
name: mine
nodes: 1
procs_per_node: 1
grace: 30s
entrypoint: {script: train.py}
"""
SCRIPT = """
import os, time
from pathlib import Path
from fsdpctl.report import step
for number in range(1, 4):
    step(number, total=3, loss=float(os.environ["LR"]) / number)
    while Path(os.environ["FSDPCTL_SUBMIT_DIR"], "hold").exists():
        if Path(os.environ["FSDPCTL_STOP_FILE"]).exists():
            raise SystemExit(0)
        time.sleep(0.05)
"""


def write_project(project: Path) -> None:
    """Write `mine.yaml` with its script, and the file that the runs wait for to be gone."""
    for name, text in (("mine.yaml", JOB), ("train.py", SCRIPT), ("hold", "")):
        (project / name).write_text(text)
