"""`fsdpctl explain`: why a run or a log ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.options import Json, Run
from fsdpctl.cli.output import log, print_json, print_rows
from fsdpctl.errors import UsageError

_LINE_LIMIT = 240

if TYPE_CHECKING:
    from fsdpctl.explain.log_files import Failure, LogDiagnosis


def explain(
    run: Run = None,
    files: Annotated[
        list[Path] | None,
        typer.Option("--log", metavar="FILE", help="A log of any program; may be repeated, one per rank or node."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Explain why a run or a log ended: which rank failed first, of what kind, and what to change."""
    if not files:
        _explain_run(run, as_json=as_json)
        return
    if run is not None:
        raise UsageError("--log explains files, not a run", hint="give either a run or --log FILE")
    diagnosis = _explain_logs(files)
    if as_json:
        print_json(as_record(diagnosis))
    else:
        print_diagnosis(diagnosis)


def _explain_logs(files: list[Path]) -> LogDiagnosis:
    from fsdpctl.contract.files import NO_FILE
    from fsdpctl.explain.log_files import explain_files

    try:
        return explain_files(files)
    except OSError as error:
        reason = "not a regular file" if error.errno == NO_FILE else error.strerror
        raise UsageError(f"a log cannot be read: {error.filename}: {reason}", hint="--log takes files") from None


def _explain_run(run: str | None, *, as_json: bool) -> None:
    from fsdpctl.cli.explain_run import print_explanation
    from fsdpctl.contract.codec import encode
    from fsdpctl.runs.find import find_run
    from fsdpctl.verbs.explain import explain as explain_run

    found = explain_run(find_run(run))
    if as_json:
        print_json(encode(found))
    else:
        print_explanation(found)


def as_record(diagnosis: LogDiagnosis) -> dict[str, object]:
    """Return the object that `--json` prints."""
    from fsdpctl.contract.codec import encode

    failures = [encode(failure) for failure in diagnosis.failures]
    return {"found": bool(failures), "first": failures[0] if failures else None, "failures": failures}


def print_diagnosis(diagnosis: LogDiagnosis) -> None:
    """Print the initiating failure, what followed from it, and what to change."""
    first = diagnosis.first
    if first is None:
        log("no failure found")
        return
    rows = [
        ("failure", f"{first.category} ({first.rule}), {_sure(first.confidence)}"),
        ("where", _where(first)),
        ("line", f"{_shorten(first.line)}\n{first.file}:{first.number}"),
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


def _shorten(text: str) -> str:
    return text if len(text) <= _LINE_LIMIT else f"{text[:_LINE_LIMIT]} ..."


def _others(failures: tuple[Failure, ...]) -> list[str]:
    """Return one text for each kind of failure that followed, with its ranks."""
    from fsdpctl.logs.ranges import fold

    kinds: dict[tuple[str, str], list[Failure]] = {}
    for failure in failures:
        kinds.setdefault((failure.role, failure.rule), []).append(failure)
    texts = []
    for (role, rule), group in kinds.items():
        ranks = fold(failure.rank for failure in group if failure.rank is not None)
        texts.append(f"{role}: {rule}{f', ranks {ranks}' if ranks else ''}")
    return texts
