"""explain: why a run ended, or what it is waiting for."""

from __future__ import annotations

from contextlib import suppress

from fsdpctl.backends.base import View
from fsdpctl.backends.table import get_backend
from fsdpctl.contract import Cause, State
from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.explain.explanation import NOT_ENDED, Diagnosis, Explanation, FailedRank
from fsdpctl.explain.run.diagnose import explain_attempt, of_end
from fsdpctl.explain.run.evidence import fields_of
from fsdpctl.explain.run.history import read_past
from fsdpctl.explain.run.live import explain_live
from fsdpctl.explain.run.read_evidence import read_evidence
from fsdpctl.runs.evidence import RunFacts, read_plan
from fsdpctl.runs.store import open_record
from fsdpctl.verbs.state import Situation, derive_state
from fsdpctl.verbs.status import RunStatus

_OF_STATES = {State.STOPPED: Cause.STOP, State.CANCELLED: Cause.CANCEL, State.LOST: Cause.LOST}


def explain(run: RunPaths) -> Explanation:
    """Return why a run ended, or what it is waiting for. Raise FsdpctlError if its record cannot be read."""
    facts = RunFacts(run, open_record(run))
    views = get_backend(facts.record.backend).launcher.observe([facts])
    return explain_run(facts, derive_state(facts, views.get(facts.run_id, View("unknown"))))


def explain_ended(run: RunPaths, status: RunStatus) -> Explanation:
    """Return why a run ended whose status is known already: its backend is not asked again."""
    return explain_run(RunFacts(run), Situation(status.state, status.phase, status.reason, status.cause))


def explain_run(facts: RunFacts, found: Situation) -> Explanation:
    """Return the explanation of a run in this state."""
    attempt, plan, cause = facts.newest_of_submission, _find_plan(facts.paths), _cause(found)
    diagnosis: Diagnosis | None = None
    ranks: tuple[FailedRank, ...] = ()
    if found.state in NOT_ENDED:
        diagnosis = explain_live(attempt, plan, found.phase, found.reason)
    elif found.state is not State.SUCCEEDED:
        if attempt is None:
            diagnosis = of_end(cause, found.reason, fields_of(facts.paths, plan))
        else:
            diagnosis, ranks = explain_attempt(read_evidence(facts.paths, attempt, plan), cause, found.reason)
    return Explanation(
        run_id=facts.run_id,
        state=found.state,
        phase=found.phase,
        cause=found.cause,
        reason=found.reason,
        attempt=attempt.number if attempt is not None else 0,
        diagnosis=diagnosis,
        ranks=ranks,
        history=read_past(facts.paths),
    )


def _cause(found: Situation) -> Cause | None:
    """Return the cause of an end; of one that an older version recorded, or the backend alone knows, by its state."""
    return _OF_STATES.get(found.state) if found.cause in (None, Cause.UNKNOWN) else found.cause


def _find_plan(run: RunPaths) -> LaunchPlan | None:
    with suppress(OSError, CodecError):
        return read_plan(run)
    return None
