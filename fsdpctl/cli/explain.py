"""`fsdpctl explain`: why a run or a log ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.complete import complete_run
from fsdpctl.cli.options import Json
from fsdpctl.cli.output import log, print_json
from fsdpctl.errors import UsageError

if TYPE_CHECKING:
    from fsdpctl.explain.logs.diagnosis import LogDiagnosis


def explain(
    run: Annotated[
        list[str] | None,
        typer.Argument(
            help="Run id, a prefix of it, or a job's name; default: the newest run. With --log: more files.",
            autocompletion=complete_run,
        ),
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option("--log", metavar="FILE", help="A log of any program; more may follow, one per rank or node."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Explain why a run or a log ended: which rank failed first, of what kind, and what to change."""
    names = run or []
    if files:
        _explain_logs([*files, *map(Path, names)], as_json=as_json)
    elif len(names) > 1:
        raise UsageError(f"explain takes one run, got {len(names)}", hint="fsdpctl explain --log FILE...")
    else:
        _explain_run(names[0] if names else None, as_json=as_json)


def _explain_logs(files: list[Path], *, as_json: bool) -> None:
    from fsdpctl.cli.explain_log import ExplainedLogs, print_diagnosis
    from fsdpctl.contract.codec import encode

    diagnosis = _read_logs(files)
    for file in files:
        if not file.stat().st_size:
            log(f"{file} is empty")
    if as_json:
        print_json(encode(ExplainedLogs(bool(diagnosis.failures), diagnosis.first, diagnosis.failures)))
    else:
        print_diagnosis(diagnosis)


def _read_logs(files: list[Path]) -> LogDiagnosis:
    from fsdpctl.contract.files import NO_FILE
    from fsdpctl.explain.logs.files import explain_files

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
