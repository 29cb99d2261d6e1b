"""What follows each cause: the one table for the supervisor, the job key `restart_on` and docs/restarts.md."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fsdpctl.contract import Cause


class Then(StrEnum):
    """What follows the end of an attempt; the values are the texts of docs/restarts.md."""

    END = "the run ends"
    NEVER = "the run ends: it would fail in the same way"
    RESTART = "restart"
    ELSEWHERE = "restart, on another node if there is one"
    REQUEUE = "Slurm: requeue, which uses no restart; else the run ends"


@dataclass(frozen=True)
class Rule:
    """One cause."""

    meaning: str
    then: Then
    counts: bool = True  # without a new step the attempt is one of the few in a row that end a run


RULES = {
    Cause.FINISHED: Rule("All steps are done, or the script ended without error.", Then.END),
    Cause.STOP: Rule(
        "A user requested it, or the ranks left by themselves with the exit code of a stop, 75 or 76.", Then.END
    ),
    Cause.CANCEL: Rule("A user requested it.", Then.END),
    Cause.TIME_LIMIT: Rule("The time limit was near.", Then.REQUEUE),
    Cause.PREEMPTION: Rule("The scheduler took the nodes back.", Then.REQUEUE, counts=False),
    Cause.REQUEUE: Rule("The scheduler requeued the job by itself.", Then.REQUEUE, counts=False),
    Cause.SIGNAL: Rule("A signal ended a rank.", Then.RESTART),
    Cause.EXIT_CODE: Rule(
        "A rank ended with a bad exit code: after an exception of your script, which `logs --errors` shows, or because"
        " it lost a peer.",
        Then.RESTART,
    ),
    Cause.EXCEPTION: Rule("The trainer reported what was wrong.", Then.RESTART),
    Cause.CONFIGURATION: Rule(
        "The trainer refused its configuration, its data or the run's checkpoints.",
        Then.NEVER,
    ),
    Cause.TORCHRUN: Rule("torchrun ended and named no rank.", Then.RESTART),
    Cause.HANG: Rule("A rank made no progress.", Then.RESTART),
    Cause.NODE_CHECK: Rule("A check found that a node cannot take part.", Then.ELSEWHERE),
    Cause.PACKAGE: Rule("On every node, the Python of the ranks does not have a package that they import.", Then.NEVER),
    Cause.SETUP: Rule("A line of `setup` failed on a node.", Then.ELSEWHERE),
    Cause.JOIN: Rule("The nodes did not find each other in time.", Then.RESTART),
    Cause.START: Rule(
        "Agents could not be started; over SSH also where a line of `setup` fails. After `submit` and `resume` the run"
        " ends.",
        Then.ELSEWHERE,
    ),
    Cause.AGENT: Rule("The node agent was killed.", Then.RESTART),
    Cause.LOST: Rule("A node shows no sign of life, or left no exit record.", Then.ELSEWHERE),
    Cause.ABORT: Rule("Ended because another node had failed.", Then.RESTART),
    Cause.UNKNOWN: Rule("Written by an older version.", Then.RESTART),
}

_RESTARTS = (Then.RESTART, Then.ELSEWHERE)

FAILURES = tuple(
    cause for cause, rule in RULES.items() if rule.then in (*_RESTARTS, Then.NEVER) and cause is not Cause.UNKNOWN
)
"""The causes after which `restart_on` decides."""

RESTART_ON = tuple(cause for cause in FAILURES if RULES[cause].then in _RESTARTS)
"""The default of `restart_on`."""
