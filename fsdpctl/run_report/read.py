"""Read the facts of a run from its directory."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from fsdpctl.checkpoints.listing import list_checkpoints
from fsdpctl.comparison.code import read_versions
from fsdpctl.comparison.configuration import read_configuration
from fsdpctl.contract import State
from fsdpctl.contract.codec import CodecError, read_json
from fsdpctl.contract.events import Event, EventKind
from fsdpctl.contract.node_report import read_report
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.curves.read import EveryStep, read_every_step
from fsdpctl.errors import FsdpctlError
from fsdpctl.explain.explanation import Explanation
from fsdpctl.run_report.facts import Attempt, Checkpoint, Code, Facts, Node
from fsdpctl.run_report.steps import count_slow_ranks, summarize
from fsdpctl.runs.attempt_time import read_attempt_time, read_energy_j
from fsdpctl.runs.evidence import AttemptFacts, RunFacts, read_plan
from fsdpctl.runs.git_facts import read_git_diff, read_git_facts
from fsdpctl.runs.gpu_history import AttemptHistory, measure_energy, read_gpu_history, summarize_gpus
from fsdpctl.runs.metrics import attempt_spans, recent_metrics
from fsdpctl.runs.timeline import read_timeline
from fsdpctl.runs.verdict import Verdict
from fsdpctl.scaling.result import Scaling
from fsdpctl.scaling.stored import find_scaling
from fsdpctl.verbs.explain import explain_ended
from fsdpctl.verbs.ledger import find_ledger
from fsdpctl.verbs.state import derive_verdict
from fsdpctl.verbs.status import RunStatus


def read_facts(paths: RunPaths, status: RunStatus, *, is_brief: bool = False) -> Facts:
    """Return the facts of a run whose status is known. Raise CodecError and OSError if its record cannot be read.

    Brief facts are those without code, checkpoints and the explanation, and without reading all of the metrics.
    """
    run, now = RunFacts(paths), time.time()
    every = None if is_brief else read_every_step(run)
    events = every.events if every is not None else tuple(read_timeline(run))
    history = [] if is_brief else read_gpu_history(paths)
    outcome = status.outcome.summary if status.outcome is not None else {}
    return Facts(
        run_id=status.run_id,
        job=status.job,
        profile=run.record.profile,
        backend=run.record.backend,
        state=status.state,
        phase=status.phase,
        cause=status.cause,
        reason=status.reason,
        directory=status.run_dir,
        submitted=run.record.submissions[0].time,
        read_at=now,
        job_id=status.job_id,
        total_steps=status.total_steps,
        plan=_find_plan(paths),
        configuration={} if is_brief else read_configuration(paths),
        code=Code(None, "", {}) if is_brief else _read_code(paths),
        attempts=tuple(_attempts(run, events, every, now, is_running=status.state is State.RUNNING)),
        nodes=tuple(_nodes(run.newest)) if run.newest is not None else (),
        ledger=find_ledger(paths, status),
        steps=summarize(every, next(iter(recent_metrics(paths.metrics, 1)), {})) if every is not None else None,
        outcome=outcome,
        curves=every.thinned() if every is not None else None,
        events=events,
        gpus=summarize_gpus(history),
        energy_kwh=None if is_brief else _read_energy(run, history),
        slow_ranks=count_slow_ranks(events),
        checkpoints=() if is_brief else tuple(_checkpoints(paths)),
        explanation=None if is_brief else _explain(paths, status),
        scaling=None if is_brief else _find_scaling(paths, run.record.profile),
    )


def _attempts(
    run: RunFacts, events: Sequence[Event], every: EveryStep | None, now: float, *, is_running: bool
) -> Iterator[Attempt]:
    begun = {event.attempt: event.time for event in events if event.kind in (EventKind.STARTED, EventKind.RESTARTED)}
    ended = {event.attempt: event.time for event in events if event.kind is EventKind.ENDED}
    spans = {span.attempt: span.last for span in attempt_spans(run.paths.metrics)}
    of_submission = run.newest_of_submission
    for paths in run.paths.attempts():
        attempt, number = AttemptFacts(paths), paths.number
        written = attempt.verdict
        ran = read_attempt_time(attempt, now)
        is_open = is_running and written is None and of_submission is not None and number == of_submission.number
        verdict = None if is_open else _find_verdict(run, attempt)
        newest_step = every.times.steps[-1] if is_open and every is not None and every.times.steps else None
        yield Attempt(
            number=number,
            started=ran.start if ran is not None else begun.get(number),
            ended=(now if is_open else ran.end) if ran is not None else ended.get(number) or spans.get(number),
            first_step=every.starts.get(number) if every is not None else None,
            last_step=written.step if written is not None else newest_step,
            state=verdict.state if verdict is not None else None,
            cause=verdict.cause if verdict is not None else None,
            reason=verdict.reason if verdict is not None else "",
            hosts=attempt.hosts,
            node=run.record.submission_of(number).node,
        )


def _find_verdict(run: RunFacts, attempt: AttemptFacts) -> Verdict | None:
    with suppress(OSError):
        return derive_verdict(attempt, run.record.submission_of(attempt.number).nodes)
    return None


def _read_energy(run: RunFacts, history: Sequence[AttemptHistory]) -> float | None:
    """Return kilowatt-hours by the GPUs' own counters; of cards without one, by the samples of their power."""
    counted = [read_energy_j(AttemptFacts(paths)) for paths in run.paths.attempts()]
    known = [joules for joules in counted if joules is not None]
    return sum(known) / 3.6e6 if known else measure_energy(history)


def _nodes(attempt: AttemptFacts) -> Iterator[Node]:
    for paths in attempt.readable:
        report, end = read_report(paths.heartbeat), attempt.ends.get(paths.node_rank)
        yield Node(
            rank=paths.node_rank,
            host=attempt.host(paths.node_rank),
            ranks=tuple(sorted(paths.rank_logs())),
            end=(end.reason or f"exit code {end.code}") if end is not None else "",
            gpus=report.gpus if report is not None else (),
        )


def _checkpoints(run: RunPaths) -> Iterator[Checkpoint]:
    if not run.trainer_config.exists():  # only an own script knows what its files are
        return
    for stored in list_checkpoints(run):
        found = stored.manifest
        yield Checkpoint(
            name=stored.path.name,
            step=found.step if found is not None else None,
            num_bytes=found.num_bytes if found is not None else None,
            time=found.time if found is not None else None,
            save_s=found.save_s or None if found is not None else None,
            problem=stored.broken or "",
        )


def _read_code(run: RunPaths) -> Code:
    versions = {name: version for name, version in read_versions(run).items() if version is not None}
    with suppress(OSError, CodecError):
        return Code(read_git_facts(run), read_git_diff(run), versions)
    return Code(None, "", versions)


def _find_plan(run: RunPaths) -> LaunchPlan | None:
    with suppress(OSError, CodecError):
        return read_plan(run)
    return None


def _find_scaling(run: RunPaths, profile: str) -> Scaling | None:
    with suppress(OSError, CodecError):
        return find_scaling(read_json(TrainerConfig, run.trainer_config).model, profile)
    return None


def _explain(run: RunPaths, status: RunStatus) -> Explanation | None:
    if status.state not in (State.FAILED, State.LOST):
        return None
    with suppress(FsdpctlError, CodecError, OSError):
        return explain_ended(run, status)
    return None
