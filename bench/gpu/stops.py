"""Rows that stop a training in the middle."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from bench.gpu.process import Command, CommandError, run, torchrun
from bench.gpu.result import Result
from bench.gpu.training import WHOLE, Changes, longest_save, read_metrics
from bench.gpu.workspace import Workspace


def time_to_stop(workspace: Workspace, job: str, gpus: int, changed: Changes) -> Result:
    """Send TERM to every rank, as a scheduler does, and measure the time until the checkpoint has its name."""
    gpus = workspace.gpus(gpus)
    config = workspace.config(job, gpus, 12, changed)
    path = workspace.write({**config, "steps": 10_000})
    with Command(torchrun(gpus, *WHOLE, "--config", str(path)), workspace.root / "log", workspace.env) as command:
        seconds = _stop_after(command, workspace, 8)
        output = command.wait(60, may_fail=True)  # a rank that stopped by hand has an exit code of its own
    files = [file.stat().st_size for file in workspace.root.glob("checkpoints/step-*/*.distcp")]
    found = f"{seconds:.2f} s from TERM to a durable checkpoint of {sum(files) / 1e9:.2f} GB in {len(files)} files"
    return Result(save_s=longest_save(output), found=found)


def exact_resume(workspace: Workspace, job: str, gpus: int, changed: Changes) -> Result:
    """Stop in mid-run and resume, and compare with a straight run, to the bit, under deterministic algorithms."""
    gpus = workspace.gpus(gpus)
    config = workspace.config(job, gpus, 24, {**changed, "deterministic": True})
    argv = torchrun(gpus, *WHOLE, "--config")
    straight, broken = workspace.root / "straight", workspace.root / "broken"
    for root in (straight, broken):
        root.mkdir()
        (root / "trainer.json").write_text(json.dumps(config))
    run([*argv, str(straight / "trainer.json")], workspace.root / "straight.log", workspace.limit_s, workspace.env)
    with Command([*argv, str(broken / "trainer.json")], workspace.root / "broken.log", workspace.env) as command:
        _stop_after(command, workspace, 4, broken)
        command.wait(60, may_fail=True)
    steps_before = len(read_metrics(broken))
    run([*argv, str(broken / "trainer.json")], workspace.root / "resumed.log", workspace.limit_s, workspace.env)
    ours, theirs = _numbers(broken), _numbers(straight)
    differing = [b[0] for a, b in zip(ours, theirs, strict=False) if a != b]
    equal = "equal to the bit" if ours == theirs else f"{len(differing)} differ, the first at {differing[:1]}"
    return Result(found=f"{len(theirs)} steps, stopped after {steps_before} and resumed: {equal}")


def _numbers(root: Path) -> list[tuple[int, str, str]]:
    """Return of each step its samples, and its loss to the bit."""
    return [(line["step"], line["samples"], line["loss_hex"]) for line in read_metrics(root)]


def _stop_after(command: Command, workspace: Workspace, num_steps: int, root: Path | None = None) -> float:
    """Wait for so many steps, send TERM to each rank, and return the seconds until there is a checkpoint."""
    root = root or workspace.root
    _wait_for(command, lambda: len(read_metrics(root)) >= num_steps, workspace.limit_s)
    asked = time.monotonic()
    for pid in command.ranks():
        os.kill(pid, signal.SIGTERM)
    _wait_for(command, lambda: bool(list(root.glob("checkpoints/step-*[0-9]"))), workspace.limit_s)
    return time.monotonic() - asked


def _wait_for(command: Command, done: Callable[[], bool], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not done():
        if time.monotonic() > deadline or (command.process.poll() is not None and not done()):
            raise CommandError(f"timed out, or ended too early; last output: {command.output()[-1000:]}")
        time.sleep(0.01)
