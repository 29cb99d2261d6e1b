"""Print what ended a job, from its logs: the screen of `fsdpctl explain --log`."""

from __future__ import annotations

from dataclasses import dataclass

from fsdpctl.cli.output import log, print_rows
from fsdpctl.explain.logs.diagnosis import Failure, LogDiagnosis

_LINE_LIMIT = 240


@dataclass(frozen=True)
class ExplainedLogs:
    """What some logs show; `found` is false if that is no failure."""

    found: bool
    first: Failure | None
    failures: tuple[Failure, ...]  # the first one, what followed from it, and what was ended


def print_diagnosis(diagnosis: LogDiagnosis) -> None:
    """Print the initiating failure, what followed from it, and what to change."""
    first = diagnosis.first
    if first is None:
        log("no failure found")
        return
    rows = [
        ("failure", f"{first.category} ({first.rule}), {_sure(first.confidence)}"),
        ("where", _where(first)),
        ("line", f"{_shorten(first.line)}\n{_place(first)}"),
        *([("code", f"{frame.file}:{frame.line} in {frame.function}")] if (frame := first.frame) else []),
        ("means", first.sentence),
        ("change", "\n".join(f"{number}. {text}" for number, text in enumerate(first.remedy, 1))),
        ("retry", f"{'would help' if first.retry else 'would not help'}; {first.domain}"),
    ]
    if first.docs:
        rows.append(("see", f"docs/{first.docs}"))
    rows += [("then", text) for text in _others(diagnosis.failures[1:])]
    print_rows(rows)


def _sure(confidence: float) -> str:
    return "certain" if confidence >= 0.9 else "likely" if confidence >= 0.6 else "a guess"


def _where(failure: Failure) -> str:
    rank = "unknown rank" if failure.rank is None else f"rank {failure.rank}"
    where = f"{rank} on {failure.host}" if failure.host else rank
    return where if failure.role == "initiating" else f"reported by {where}, which did not fail first"


def _place(failure: Failure) -> str:
    if failure.is_cut:
        return f"{failure.file}, line {failure.number} of its end"
    return f"{failure.file}:{failure.number}"


def _shorten(text: str) -> str:
    return text if len(text) <= _LINE_LIMIT else f"{text[:_LINE_LIMIT]} ..."


def _others(failures: tuple[Failure, ...]) -> list[str]:
    """Return one text for each kind of failure that followed, with its ranks."""
    from fsdpctl.logs.ranges import fold_ranks

    kinds: dict[tuple[str, str], list[Failure]] = {}
    for failure in failures:
        kinds.setdefault((failure.role, failure.rule), []).append(failure)
    texts = []
    for (role, rule), group in kinds.items():
        ranks = [failure.rank for failure in group if failure.rank is not None]
        texts.append(f"{role}: {rule}{f', {fold_ranks(ranks)}' if ranks else ''}")
    return texts
