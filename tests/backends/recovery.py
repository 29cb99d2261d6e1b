"""Where the time between a fault and the first step of the next attempt goes, measured from a run's files."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from fsdpctl.contract.codec import find_json, read_json
from fsdpctl.contract.records import NodeEnd, ProcessIdentity
from fsdpctl.runs.events import newest_events
from tests.backends.harness import Run


@dataclass(frozen=True)
class Recovery:
    """Seconds since the epoch, in order."""

    fault: float
    seen: float  # the control file that names it and ends the attempt
    ended: float  # the last exit record of a node
    judged: float  # confirmed on every host that nothing is left
    started: float  # the next attempt's agents
    python: float  # its last rank
    step: float

    def __str__(self) -> str:
        parts = ("to be seen", "to end the nodes", "to sweep", "to start agents", "for torchrun", "for ranks to step")
        times = (self.fault, self.seen, self.ended, self.judged, self.started, self.python, self.step)
        spent = ", ".join(
            f"{later - earlier:.2f} {what}" for what, (earlier, later) in zip(parts, pairwise(times), strict=True)
        )
        return f"{self.step - self.seen:.1f} s from its detection to the first new step; {spent}"


def measure_recovery(run: Run, fault: float, attempt: int = 1) -> Recovery:
    """Measure how the attempt after `attempt` came to its first step."""
    old, new = run.paths.attempt(attempt), run.paths.attempt(attempt + 1)
    acts = {(act.attempt, act.text.partition(" ")[0].rstrip(":")): act.time for act in newest_events(run.paths, 99)}
    began = max(read_json(ProcessIdentity, node.agent).started for node in new.nodes())
    return Recovery(
        fault=fault,
        seen=old.abort.stat().st_mtime,
        ended=max((end.time for node in old.nodes() if (end := find_json(NodeEnd, node.end))), default=fault),
        judged=acts.get((attempt, "FAILED"), 0.0) or acts[attempt, "LOST"],
        started=acts[attempt + 1, "started"],
        # What a rank writes its stacks into is the first thing that it opens.
        python=max(path.stat().st_mtime for node in new.nodes() for path in node.root.glob("stacks-*")),
        step=min(float(line["time"]) for line in run.metrics() if line["time"] > began),
    )
