"""Find the run and the attempt that a user names."""

from __future__ import annotations

from collections.abc import Iterable

from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.errors import UsageError
from fsdpctl.runs.evidence import read_plan
from fsdpctl.runs.store import list_runs, unreadable


def find_run(name: str | None) -> RunPaths:
    """Return a run by its id, its job's name (the newest), a unique prefix, or None (the newest). Raise UsageError."""
    runs = [run for run in list_runs() if run.record is not None or run.run_id == name]
    if not runs:
        raise UsageError("there are no runs yet", hint="fsdpctl submit llm-tiny --nodes 2 --follow")
    if name is not None and not name:
        raise UsageError("an empty name is no run", hint="leave it out to mean the newest run")
    if name is None:
        return runs[0].paths
    for run in runs:
        if run.run_id == name:
            if run.broken:
                raise unreadable(run.paths, run.broken)
            return run.paths
    for run in runs:
        if run.record is not None and run.record.job == name:
            return run.paths
    matches = [run for run in runs if run.run_id.startswith(name)]
    if len(matches) == 1:
        return matches[0].paths
    if matches:
        raise UsageError(f"{name!r} could be {', '.join(run.run_id for run in matches[:6])}")
    raise UsageError(f"no run {name!r}", hint="fsdpctl ls shows them")


def find_runs(names: Iterable[str]) -> list[RunPaths]:
    """Return the named runs, each once; without a name, the newest. Raise UsageError."""
    return list(dict.fromkeys(map(find_run, names))) or [find_run(None)]


def find_attempt(run: RunPaths, number: int | None) -> AttemptPaths:
    """Return the attempt `number`, else the newest; of a run without attempts, the future first one."""
    attempts = run.attempts()
    if number is None:
        return attempts[-1] if attempts else run.attempt(1)
    if run.attempt(number) not in attempts:
        known = ", ".join(str(attempt.number) for attempt in attempts) or "none yet"
        raise UsageError(f"{run.root.name} has no attempt {number}; there are: {known}")
    return run.attempt(number)


def check_ranks(run: RunPaths, attempt: AttemptPaths, ranks: Iterable[int], nodes: Iterable[int]) -> None:
    """Raise UsageError if the attempt has no such global rank, or no such node."""
    try:
        plan = read_plan(run)
    except (OSError, CodecError):
        return  # a damaged run may still have logs
    seen = attempt.nodes()  # an older attempt may have had more
    all_nodes = {*(node.rank for node in plan.nodes), *(node.node_rank for node in seen)}
    all_ranks = {*range(plan.world_size), *(rank for node in seen for rank in node.rank_logs())}
    for kind, wanted, known in (("rank", ranks, all_ranks), ("node", nodes, all_nodes)):
        if unknown := set(wanted) - known:
            known_text = f"its {kind}s are 0-{max(known)}" if len(known) > 1 else f"its only {kind} is 0"
            raise UsageError(f"{run.root.name} has no {kind} {min(unknown)}; {known_text}")
