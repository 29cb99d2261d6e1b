"""Print the explanation of a run: `fsdpctl explain RUN`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsdpctl.cli.output import print_rows
from fsdpctl.contract import State
from fsdpctl.errors import FsdpctlError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fsdpctl.contract.paths import RunPaths
    from fsdpctl.explain.explanation import Diagnosis, Explanation, FailedRank, PastAttempt
    from fsdpctl.verbs.status import RunStatus

_PAST = 5
"""Attempts that are shown."""
_WAITING = 16
"""Waiting ranks that are shown."""


def print_explanation(found: Explanation) -> None:
    """Print what ended a run, what followed, and what to change."""
    print_rows(_rows(found))


def short_rows(run: RunPaths, status: RunStatus) -> list[tuple[str, str]]:
    """Return why a failed run ended and the smallest change; nothing for other runs, or where it cannot be read."""
    from fsdpctl.contract.codec import CodecError
    from fsdpctl.verbs.explain import explain_ended

    if status.state not in (State.FAILED, State.LOST):
        return []
    try:
        found = explain_ended(run, status).diagnosis
    except (FsdpctlError, CodecError, OSError):
        return []
    if found is None or found.category == "unknown":
        return []
    rows = [("why", f"{found.category} ({found.confidence}): {found.summary}")]
    return [*rows, *(("change", change) for change in found.changes[:1])]


def _rows(found: Explanation) -> list[tuple[str, str]]:
    from fsdpctl.explain.explanation import NOT_ENDED

    attempt = f", attempt {found.attempt}" if found.attempt > 1 else ""
    rows = [("run", f"{found.run_id} {found.state}{attempt}")]
    if (diagnosis := found.diagnosis) is None:
        why = "it makes progress" if found.state.is_alive else found.reason
        return [*rows, ("diagnosis", f"nothing to explain: {why}")]
    if found.state in NOT_ENDED:
        return [*rows, ("waits", diagnosis.summary), *(("", text) for text in diagnosis.evidence[:_WAITING])]
    return [*rows, *_rank_rows(found.ranks), *_diagnosis_rows(diagnosis), *_past_rows(found.history), *_next(found)]


def _rank_rows(ranks: Sequence[FailedRank]) -> list[tuple[str, str]]:
    from fsdpctl.explain.categories import Role

    by_role = {role: [rank for rank in ranks if rank.role is role] for role in Role}
    rows: list[tuple[str, str]] = []
    alike = by_role[Role.INITIATING][1:]
    for first in by_role[Role.INITIATING][:1]:
        rows.append(("ended by", f"{_place(first)}: {first.message}"))
        rows += [("", f"at {frame}") for frame in reversed(first.frames)]
        if first.frames and first.folded:
            rows.append(("", f"({first.folded} frames of libraries not shown)"))
    if alike:
        rows.append(("", f"and in the same way {_fold(alike)}"))
    if by_role[Role.CASCADE]:
        rows.append(("followed", _fold(by_role[Role.CASCADE])))
    if by_role[Role.TEARDOWN]:
        rows.append(("torn down", _ranks([rank.rank for rank in by_role[Role.TEARDOWN]])))
    return rows


def _place(rank: FailedRank) -> str:
    gpu = f", GPU {rank.gpu}" if rank.gpu is not None else ""
    step = f", after step {rank.step}" if rank.step is not None else ""
    who = f"rank {rank.rank} on {rank.host} (node {rank.node_rank}{gpu}{step})"
    return who if rank.rank is not None else f"node {rank.node_rank} ({rank.host})"


def _fold(ranks: Sequence[FailedRank]) -> str:
    """Return ranks by what ended them, as `ranks 0-2 (nccl), rank 5 (exception)`."""
    by_category: dict[str, list[int | None]] = {}
    for rank in ranks:
        by_category.setdefault(rank.category, []).append(rank.rank)
    return ", ".join(f"{_ranks(numbers)} ({category})" for category, numbers in by_category.items())


def _ranks(numbers: Sequence[int | None]) -> str:
    from fsdpctl.logs.ranges import fold_ranks

    known = [number for number in numbers if number is not None]
    return fold_ranks(known) if known else "other nodes"


def _diagnosis_rows(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    from fsdpctl.explain.categories import Category

    rows = [("diagnosis", f"{diagnosis.category} ({diagnosis.confidence}, {diagnosis.domain}): {diagnosis.summary}")]
    rows += [("evidence" if row == 0 else "", text) for row, text in enumerate(diagnosis.evidence)]
    rows += [("change" if row == 0 else "", text) for row, text in enumerate(diagnosis.changes)]
    if diagnosis.category is not Category.UNKNOWN:
        again = "another attempt may help" if diagnosis.retry else "another attempt would end in the same way"
        rows.append(("retry", again))
    if diagnosis.docs:
        rows.append(("see", f"docs/{diagnosis.docs}"))
    return rows


def _past_rows(history: Sequence[PastAttempt]) -> list[tuple[str, str]]:
    if len(history) < 2:
        return []
    shown = history[-_PAST:]
    return [
        (
            "attempts" if row == 0 else "",
            f"{past.number} {past.state} ({past.cause}) at step {past.step}: {past.reason}",
        )
        for row, past in enumerate(shown)
    ]


def _next(found: Explanation) -> list[tuple[str, str]]:
    return [("logs", f"fsdpctl logs {found.run_id} --errors")]
