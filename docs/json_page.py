"""docs/json.md: what each command prints with `--json`, from the dataclasses that it prints."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from docs.source import member_comments, sentences
from docs.tables import FOOT, as_sentence, row
from fsdpctl.cli.error_report import ReportedError
from fsdpctl.cli.explain_log import ExplainedLogs
from fsdpctl.cli.report_json import ReportedRun
from fsdpctl.cli.shapes.checkpoints import Exported, ListedCheckpoint, Pruned, Verified
from fsdpctl.cli.shapes.cluster import BenchedDisk, BenchedNetwork, Doctored
from fsdpctl.cli.shapes.data import ListedData
from fsdpctl.cli.shapes.estimate import EstimatedJob
from fsdpctl.cli.shapes.gc import Collected
from fsdpctl.cli.shapes.holds import ListedHold, Released
from fsdpctl.cli.shapes.logs import Failures, LogLine
from fsdpctl.cli.shapes.nodes import SuspectNode
from fsdpctl.cli.shapes.runs import Ended, Pinned, Resumed, Shell, Started, TensorBoard, TriedTarget
from fsdpctl.cli.shapes.specs import (
    Checked,
    CheckedJob,
    Created,
    DefaultProfile,
    ExportedJob,
    ImportedJob,
    LintRule,
    ListedFile,
)
from fsdpctl.cli.shapes.status import ListedRun, ShownRun
from fsdpctl.cli.shapes.usage import ShownUsage
from fsdpctl.comparison.result import Comparison
from fsdpctl.contract import Cause, Phase, State
from fsdpctl.contract.events import Event, EventKind
from fsdpctl.curves.series import RunCurves
from fsdpctl.explain.explanation import Explanation
from fsdpctl.scaling.result import Scaling
from fsdpctl.sweeps.result import Sweep
from fsdpctl.verbs.stacks import RunStacks
from fsdpctl.verbs.top import TopRun

INTRO = """\
# JSON

Every command takes `--json`. The data goes to stdout and everything else to stderr; exit codes are the same, also where
a check has failed and its result was printed. Programs read values such as `state`, `phase`, `cause` and `kind`, which
[run-directory.md](run-directory.md#states) explains: the text of a reason may change. New keys may come, and no key
changes its meaning. A value that is not known or does not apply is null. Times are seconds since the epoch.
"""

ERRORS = (
    "A command that could not do what was asked ends stderr with one line: an object with the key `error`, which"
    " contains this object. Where a run that was followed has failed, the exit code is 1, and `status --json` has the"
    " reason."
)


@dataclass(frozen=True)
class Shape:
    """What a command prints with `--json`."""

    of: type
    how: Literal["object", "list", "lines"] = "object"  # one object, a list of objects, or an object a line


SHAPES = {
    "estimate": Shape(EstimatedJob),
    "submit": Shape(Started),
    "status": Shape(ShownRun),
    "ls": Shape(ListedRun, "list"),
    "top": Shape(TopRun, "list"),
    "events": Shape(Event, "lines"),
    "logs": Shape(LogLine, "lines"),
    "logs --errors": Shape(Failures),
    "stacks": Shape(RunStacks),
    "explain": Shape(Explanation),
    "metrics": Shape(RunCurves, "list"),
    "tensorboard": Shape(TensorBoard),
    "compare": Shape(Comparison),
    "report": Shape(ReportedRun),
    "explain --log": Shape(ExplainedLogs),
    "stop": Shape(Ended),
    "resume": Shape(Resumed),
    "cancel": Shape(Ended),
    "shell": Shape(Shell),
    "doctor": Shape(Doctored),
    "bench nccl": Shape(BenchedNetwork),
    "bench io": Shape(BenchedDisk),
    "supervise": Shape(Ended),
    "usage": Shape(ShownUsage),
    "gc": Shape(Collected),
    "nodes": Shape(SuspectNode, "list"),
    "nodes forgive": Shape(SuspectNode, "list"),
    "hold": Shape(ListedHold),
    "holds": Shape(ListedHold, "list"),
    "release": Shape(Released),
    "runs pin": Shape(Pinned, "list"),
    "runs unpin": Shape(Pinned, "list"),
    "jobs ls": Shape(ListedFile, "list"),
    "jobs check": Shape(CheckedJob, "list"),
    "jobs rules": Shape(LintRule, "list"),
    "jobs init": Shape(Created),
    "jobs import": Shape(ImportedJob),
    "jobs export": Shape(ExportedJob),
    "profiles ls": Shape(ListedFile, "list"),
    "profiles check": Shape(Checked, "list"),
    "profiles init": Shape(Created),
    "profiles default": Shape(DefaultProfile),
    "notify test": Shape(TriedTarget, "list"),
    "data ls": Shape(ListedData, "list"),
    "data check": Shape(Checked, "list"),
    "checkpoints ls": Shape(ListedCheckpoint, "list"),
    "checkpoints verify": Shape(Verified, "list"),
    "checkpoints prune": Shape(Pruned),
    "checkpoints export": Shape(Exported),
    "bench scaling": Shape(Scaling),
    "sweep": Shape(Sweep),
}

OTHER_SHAPES = {
    "submit --dry-run": (
        "The launch plan (`plan`), the command and environment of each node (`nodes`), and what the backend adds."
    ),
    "jobs show": "The job with all defaults filled in; its keys are in [jobs.md](jobs.md).",
    "profiles show": "The profile with all defaults filled in; its keys are in [profiles.md](profiles.md).",
    "data show": "The path and the content of `index.json`.",
    "data prepare": "As `data show`.",
}
"""Commands that print a file's content, whose keys another page has."""

HOW = {"object": "One object.", "list": "A list of objects.", "lines": "One object a line."}
LINKED = {
    State: "[state](run-directory.md#states)",
    Phase: "[phase](run-directory.md#phases-and-causes)",
    Cause: "[cause](restarts.md)",
    EventKind: "[kind](#kinds-of-events)",
}
SCALARS = {str: "text", int: "whole number", float: "number", bool: "true or false", Any: "any value"}


def render() -> str:
    """Return the page: a section for each command, then one for each object within another one."""
    sections = [section(f"`fsdpctl {command}`", shape.of, HOW[shape.how]) for command, shape in SHAPES.items()]
    others = [f"## `fsdpctl {command}`\n\n{text}" for command, text in OTHER_SHAPES.items()]
    shapes = [ReportedError, *(shape.of for shape in SHAPES.values())]
    inner = [section(f"`{cls.__name__}`", cls, "") for cls in nested(shapes)]
    errors = section("Errors", ReportedError, ERRORS)
    return "\n\n".join([INTRO.strip(), errors, *sections, *others, *inner, kinds(), FOOT]) + "\n"


def kinds() -> str:
    rows = [row(f"`{kind}`", as_sentence(text)) for kind, text in member_comments(EventKind).items()]
    return "\n".join(["## Kinds of events", "", "| kind | meaning |", "| --- | --- |", *rows])


def section(title: str, cls: type, how: str) -> str:
    text = " ".join((cls.__doc__ or "").split())
    lines = [f"## {title}", "", f"{how} {text}".strip(), "", "| key | type | description |", "| --- | --- | --- |"]
    hints, described = typing.get_type_hints(cls), comments(cls)
    names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    lines += [row(f"`{name}`", type_name(hints[name]), as_sentence(described.get(name, ""))) for name in names]
    return "\n".join(lines)


def comments(cls: type) -> Mapping[str, str]:
    """Return the description of each field, also of those that are inherited."""
    found: dict[str, str] = {}
    for one in reversed(cls.__mro__[:-1]):
        found |= sentences(one)
    return found


def type_name(hint: Any) -> str:
    """Return the name of a value's type; a dataclass has its own section."""
    if hint in LINKED:
        return LINKED[hint]
    if hint in SCALARS:
        return SCALARS[hint]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        parts = [type_name(arg) for arg in args if arg is not type(None)]
        return " or ".join([*parts, *(["null"] if type(None) in args else [])])
    if origin is typing.Literal:
        return ", ".join(f"`{arg}`" for arg in args)
    if origin is tuple:
        return f"list of {type_name(args[0])}"
    if origin is Mapping:
        return f"mapping of text to {type_name(args[1])}"
    if issubclass(hint, Enum):
        return ", ".join(f"`{member.value}`" for member in hint)
    command = next((command for command, shape in SHAPES.items() if shape.of is hint), None)
    anchor = f"fsdpctl-{command.replace(' ', '-')}" if command else hint.__name__.lower()
    return f"[`{hint.__name__}`](#{anchor})"


def nested(shapes: Any) -> list[type]:
    """Return the dataclasses within these, each once, those that are no shape of a command."""
    tops, found = list(shapes), []
    queue = list(tops)
    while queue:
        for cls in dataclasses_in(typing.get_type_hints(queue.pop(0)).values()):
            if cls not in found and cls not in tops:
                found.append(cls)
                queue.append(cls)
    return found


def dataclasses_in(hints: Any) -> Iterator[type]:
    for hint in hints:
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            yield hint
        yield from dataclasses_in(typing.get_args(hint))
