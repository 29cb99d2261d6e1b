"""The compiled path compared with the eager reference: the same steps on text, and the noise of bf16 alone."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.gpu.launched import require
from bench.gpu.process import Command, torchrun
from bench.gpu.result import Result
from bench.gpu.training import STEPS_ONLY, Changes, read_metrics
from bench.gpu.workspace import Workspace

STEPS, EARLY = 200, 20
"""Early ones are reported separately: two runs that once differ drift, and later differ whatever the reason was."""
SEQUENCES = 4  # numbers are compared, not speed
AT_MOST = 2.0  # times the noise

EAGER, COMPILED, PRECISE = "eager", "compiled", "eager in fp32"


def agreement(workspace: Workspace, job: str, changed: Changes) -> Result:
    """Compare compiled with eager, and, as the noise of bf16, eager with the same in fp32.

    Compiled code rounds less often, so it may be as far from eager as fp32 is, on either side. The three train side by
    side, since they are not timed. Raises CommandError where the first differs by more than noise.
    """
    config = workspace.config(
        job, workspace.gpus(1), STEPS, {**changed, "precision": "bf16", "batch.micro_batch": SEQUENCES}
    )
    runs: Mapping[str, dict[str, Any]] = {
        EAGER: {**config, "compile": False},
        COMPILED: {**config, "compile": True},
        PRECISE: {**config, "compile": False, "precision": "fp32"},
    }
    with ExitStack() as stack:
        commands = [stack.enter_context(_begin(workspace, name, run)) for name, run in runs.items()]
        logs = [command.wait(workspace.limit_s) for command in commands]
    require("WON'T CONVERT" not in "".join(logs), "the compiler gave up on a part: nothing to compare")
    lines = {name: read_metrics(workspace.root / name) for name in runs}
    samples = {tuple(line["samples"] for line in of_run) for of_run in lines.values()}
    require(len(samples) == 1 and len(lines[EAGER]) == config["steps"], "the runs did not see the same samples")
    losses = {
        name: [math.nan if line["loss"] is None else line["loss"] for line in of_run] for name, of_run in lines.items()
    }
    ours, noise = (differences(losses[name], losses[EAGER]) for name in (COMPILED, PRECISE))
    found = describe(ours, noise)
    require(statistics.mean(ours) <= AT_MOST * statistics.mean(noise), f"more than bf16's noise: {found}")
    return Result(losses=tuple(losses[COMPILED]), sequences=config["batch"]["sequences"], found=found)


def _begin(workspace: Workspace, name: str, config: dict[str, Any]) -> Command:
    root = Path(workspace.root, name)
    root.mkdir()
    path = root / "trainer.json"
    path.write_text(json.dumps(config))
    return Command(torchrun(1, *STEPS_ONLY, "--config", str(path)), root / "log", workspace.env)


def differences(losses: Sequence[float], reference: Sequence[float]) -> list[float]:
    """Return the relative difference of each step."""
    return [abs(a - b) / abs(b) for a, b in zip(losses, reference, strict=True)]


def describe(ours: Sequence[float], noise: Sequence[float]) -> str:
    """Describe both differences, and the ratio of the two: over all steps, and over the early ones."""
    parts = []
    for steps in (len(ours), min(EARLY, len(ours))):
        compiled, precise = ours[:steps], noise[:steps]
        parts.append(
            f"{steps} steps: compiled differs by {max(compiled):.1e} at most, {statistics.mean(compiled):.1e} in the"
            f" mean; fp32 by {max(precise):.1e}, {statistics.mean(precise):.1e};"
            f" ratio of the means {statistics.mean(compiled) / statistics.mean(precise):.2f}"
        )
    return "; first ".join(parts)
