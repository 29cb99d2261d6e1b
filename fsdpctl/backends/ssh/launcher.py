"""The SSH launcher: agents on hosts without a scheduler, kept alive by a supervisor on the submitting host.

The supervisor alone talks to the hosts; the commands talk to it through the run directory. So a laptop that sleeps or
a command that is killed changes nothing, and what has begun is always finished by the same code.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from fsdpctl.backends.base import View
from fsdpctl.backends.detached import control
from fsdpctl.backends.ssh.sync.file_sets import sending_limit_s
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import FsdpctlError, LaunchError
from fsdpctl.runs.evidence import RunFacts, read_verdict
from fsdpctl.runs.store import claim_attempt

START_LIMIT_S = 150.0
"""Connect, check and start, each with its own limit, one after the other."""
CANCEL_LIMIT_S = 30.0
"""How long `cancel` waits for a word of the supervisor: that nothing is left, or which host does not answer."""


def start(run: RunPaths, plan: LaunchPlan) -> None:
    """Claim the next attempt, let the supervisor start it, and wait until all agents stand."""
    attempt = claim_attempt(run)
    control.start_supervisor(run)
    limit_s = START_LIMIT_S + (0 if plan.shared_disk else sending_limit_s(run))
    deadline = time.monotonic() + limit_s
    while not _stand(attempt, plan):
        is_supervised = control.find_supervisor(run) is not None  # asked first: it judges before it leaves
        if (verdict := read_verdict(attempt)) is not None and not _stand(attempt, plan):
            raise LaunchError(verdict.reason, hint=f"fsdpctl resume {run.root.name} tries again")
        if not is_supervised:
            raise FsdpctlError(f"the supervisor ended; see {run.supervisor_log}")
        if time.monotonic() > deadline:
            raise LaunchError(
                f"not all hosts have started within {limit_s:.0f} s", hint=f"fsdpctl status {run.root.name}"
            )
        time.sleep(0.05)


def _stand(attempt: AttemptPaths, plan: LaunchPlan) -> bool:
    return all(attempt.node(node.rank).agent.exists() for node in plan.nodes)


def observe(runs: Sequence[RunFacts]) -> Mapping[str, View]:
    return control.observe(runs)


def stop(run: RunPaths) -> bool:
    return control.stop(run)


def cancel(run: RunPaths) -> bool:
    """Have the run ended on every host; the supervisor goes on for hosts that do not answer now."""
    facts = RunFacts(run)
    if facts.newest is None or facts.has_ended:
        return False
    before = facts.waiting
    control.ask_to_end(run)
    if not facts.has_living_supervisor:
        control.start_supervisor(run)
    deadline = time.monotonic() + CANCEL_LIMIT_S
    while (facts := RunFacts(run)).waiting in ("", before) and time.monotonic() < deadline:
        if facts.has_ended and not facts.has_living_supervisor:
            return True
        control.ask_to_end(run)
        time.sleep(0.1)
    raise LaunchError(
        f"{run.root.name} is being cancelled; {facts.waiting or 'the supervisor has not finished'}",
        hint="the supervisor goes on until all hosts have answered; fsdpctl status shows when",
    )
