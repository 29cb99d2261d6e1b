"""How a command that has failed reports it: as text, or as one line of JSON at the end of stderr with `--json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from fsdpctl.cli.output import log
from fsdpctl.contract import CliExit
from fsdpctl.errors import FsdpctlError


@dataclass(frozen=True)
class ReportedProblem:
    """What is wrong with one key of a profile or a job."""

    source: str  # file, or option such as `--set`
    line: int | None
    key: str  # dotted, like `trainer.mesh`; empty for the whole document
    text: str


@dataclass(frozen=True)
class ReportedError:
    """Why a command has failed."""

    code: int  # exit code
    kind: str  # of the exit code: `failed`, `usage`, `bug`, `unreachable` or `busy`
    message: str
    hint: str | None  # what to do next
    problems: tuple[ReportedProblem, ...]  # all that is wrong with a file, in the order of its lines


def report_error(code: int, message: str, hint: str | None = None, problems: Sequence[ReportedProblem] = ()) -> None:
    """Write an error to stderr."""
    if wants_json(sys.argv):
        from fsdpctl.contract.codec import encode

        report = ReportedError(code, CliExit(code).name.lower(), message, hint, tuple(problems))
        log(json.dumps({"error": encode(report)}))
        return
    log(f"error: {message}")
    if hint:
        log(f"hint: {hint}")


def problems_of(error: FsdpctlError) -> tuple[ReportedProblem, ...]:
    from fsdpctl.schema.problems import SpecError, key_path

    if not isinstance(error, SpecError):
        return ()
    return tuple(
        ReportedProblem(problem.location.source, problem.location.line, key_path(problem.path), problem.text)
        for problem in sorted(error.problems, key=lambda problem: problem.location.line or 0)
    )


def wants_json(argv: Sequence[str]) -> bool:
    """Return whether a command line has `--json`, before a `--` that begins the words of another command."""
    own = argv[: argv.index("--")] if "--" in argv else argv
    return "--json" in own
