"""The SSH launcher: a supervisor on the submitting host runs agents on hosts without a scheduler.

Only the supervisor connects to the hosts; commands send it requests through the run directory. So a laptop that sleeps
or a command that is killed changes nothing. The one exception is to cancel a lost run, which has no supervisor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from fsdpctl.backends.base import View
from fsdpctl.backends.detached import control
from fsdpctl.contract import State
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import FsdpctlError, LaunchError
from fsdpctl.runs.evidence import RunFacts, read_plan, read_verdict
from fsdpctl.runs.store import claim_attempt, locked

CANCEL_LIMIT_S = 30.0
"""How long `cancel` waits until the supervisor confirms the end, or reports a host that does not answer."""


def start(run: RunPaths, plan: LaunchPlan) -> None:
    """Claim the next attempt, let the supervisor start it, and wait until all agents are up, if they start now."""
    attempt = claim_attempt(run)
    control.start_supervisor(run)
    if plan.after is not None:
        return
    # No limit here: all that the supervisor does for a start has one, so that a verdict comes unless all agents do.
    while not _are_agents_up(attempt, plan):
        is_supervised = control.find_supervisor(run) is not None  # checked first: it writes the verdict before it exits
        if (verdict := read_verdict(attempt)) is not None and not _are_agents_up(attempt, plan):
            raise LaunchError(verdict.reason, hint=f"fsdpctl resume {run.root.name} tries again")
        if not is_supervised:
            raise FsdpctlError(f"the supervisor ended; see {run.supervisor_log}")
        time.sleep(0.05)


def _are_agents_up(attempt: AttemptPaths, plan: LaunchPlan) -> bool:
    return all(attempt.node(node.rank).agent.exists() for node in plan.nodes)


def observe(runs: Sequence[RunFacts]) -> Mapping[str, View]:
    return control.observe(runs)


def stop(run: RunPaths, report: Callable[[str], None]) -> bool:
    return control.stop(run)


def cancel(run: RunPaths, report: Callable[[str], None]) -> bool:
    """Have the supervisor end the run on every host; it keeps trying hosts that do not answer now.

    Of a run that is LOST no supervisor is left, but processes may be.
    """
    facts = RunFacts(run)
    if facts.newest is None:
        return False
    if facts.has_ended:
        return facts.final_state is State.LOST and _sweep_lost(run, facts.newest.paths)
    before, submissions = facts.waiting, len(facts.record.submissions)
    control.ask_to_end(run)
    if not facts.has_living_supervisor:
        control.start_supervisor(run)
    deadline = time.monotonic() + CANCEL_LIMIT_S
    while (facts := RunFacts(run)).waiting in ("", before) and time.monotonic() < deadline:
        has_ended = facts.has_ended and not facts.has_living_supervisor
        if has_ended or control.was_resumed(run, submissions):
            return True
        control.ask_to_end(run)
        time.sleep(0.1)
    raise LaunchError(
        f"{run.root.name} is being cancelled; {facts.waiting or 'the supervisor has not finished'}",
        hint="the supervisor keeps trying until all hosts have answered, for up to a day; see fsdpctl status",
    )


def _sweep_lost(run: RunPaths, attempt: AttemptPaths) -> bool:
    """End what a lost run has left on its hosts. Raise LaunchError unless each host has confirmed that."""
    from fsdpctl.backends.ssh.agents import SshAgents

    with locked(run):  # or a resume might start ranks meanwhile
        left = SshAgents(run, read_plan(run)).end(attempt)
    if left:
        raise LaunchError(
            f"not confirmed that nothing of {run.root.name} is left: {'; '.join(left)}",
            hint=f"fsdpctl cancel {run.root.name} tries again",
        )
    return True
