"""`fsdpctl jobs check` and `fsdpctl jobs rules`, and the lines of `submit` about the same findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.complete import complete_job, complete_profile
from fsdpctl.cli.options import Backend, Json, Set
from fsdpctl.cli.output import log, print_beside, print_data, print_json, print_table
from fsdpctl.errors import RunFailed, UsageError

if TYPE_CHECKING:
    from fsdpctl.cli.shapes.specs import CheckedJob, LintFinding
    from fsdpctl.verbs.lint import LocatedFinding

MAX_LINES = 8


def check(
    names: Annotated[list[str], typer.Argument(help="Names or files of jobs.", autocompletion=complete_job)],
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            "-p",
            help="The cluster profile to check them on; default: that of `submit`.",
            autocompletion=complete_profile,
        ),
    ] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", "-n", help="Number of nodes.")] = None,
    set_: Set = None,
    backend: Backend = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 if there is a finding.")] = False,
    as_json: Json = False,
) -> None:
    """Check jobs: list every problem (exit 2), and what costs time, memory or a result."""
    from fsdpctl.specs.search import BUILTIN_PROFILE

    overrides = [*([f"--nodes={nodes}"] if nodes is not None else []), *(set_ or [])]
    checked, errors = [], []
    for name in names:
        one, error = _check(name, overrides, profile, backend or ())
        checked.append(one)
        if error is not None:
            errors.append(error)
        elif not as_json:
            _print_job(one, is_profile_given=profile is not None)
    if as_json:
        print_json(checked)
    if errors:
        hints = [error.hint for error in errors if error.hint]
        messages = dict.fromkeys(error.message for error in errors)  # a profile is named once
        raise UsageError("\n".join(messages), hint=hints[0] if hints else None)
    if profile is None and any(one.profile == BUILTIN_PROFILE for one in checked):
        log(f"hint: checked on profile {BUILTIN_PROFILE}; -p applies the rules for the GPUs and network of a cluster")
    if strict and (count := sum(len(one.findings) for one in checked)):
        raise RunFailed(f"{count} {'finding' if count == 1 else 'findings'}", hint="`lint: {ignore: [ID]}` in the job")


def rules(as_json: Json = False) -> None:
    """List the rules of `jobs check`."""
    from fsdpctl.cli.shapes.specs import LintRule
    from fsdpctl.lint.table import RULES

    listed = [LintRule(rule.id, rule.severity, rule.what, rule.why, rule.change, rule.source) for rule in RULES]
    if as_json:
        print_json(listed)
    else:
        print_table(("ID", "SEVERITY", "WHAT"), [[rule.id, rule.severity, rule.what] for rule in listed])


def log_findings(findings: Sequence[LocatedFinding], command: str) -> None:
    """Log a line for each warning, and one for all advice; `command` shows the reasons."""
    warnings = [found for found in findings if found.finding.rule.severity == "warning"]
    advice = list(dict.fromkeys(found.finding.rule.id for found in findings if found not in warnings))
    for found in warnings[:MAX_LINES]:
        log(f"warning: {_line(found.location, found.finding.key, found.finding.text, found.finding.rule.id)}")
    if len(warnings) > MAX_LINES:
        log(f"warning: ... and {len(warnings) - MAX_LINES} more")
    if advice:
        log(f"advice: {', '.join(advice)}")
    if findings:
        log(f"hint: {command} shows why; `lint: {{ignore: [ID]}}` in the job ignores a rule")


def _check(
    name: str, overrides: Sequence[str], profile: str | None, backend: Sequence[str]
) -> tuple[CheckedJob, UsageError | None]:
    from fsdpctl.cli.shapes.specs import CheckedJob
    from fsdpctl.cli.spec_files import summarize_job
    from fsdpctl.verbs.lint import check_job

    try:
        checked = check_job(name, overrides, profile, backend)
    except UsageError as error:
        return CheckedJob(name, False, tuple(error.message.splitlines()), None, None, ()), error
    for notice in checked.notices:
        log(notice)
    if checked.misfit is not None:
        log(f"{name}: no rule was applied: {checked.misfit}")
        log("hint: -p chooses another profile")
    fits = checked.misfit is None
    findings = tuple(map(_shape, checked.findings))
    return CheckedJob(name, True, (), summarize_job(checked.job), checked.profile if fits else None, findings), None


def _shape(found: LocatedFinding) -> LintFinding:
    from fsdpctl.cli.shapes.specs import LintFinding

    rule = found.finding.rule
    where, text = found.location, found.finding.text
    return LintFinding(rule.id, rule.severity, where, found.finding.key, text, rule.why, rule.change, rule.source)


def _print_job(checked: CheckedJob, *, is_profile_given: bool) -> None:
    print_data(f"{checked.name}: ok, {checked.summary}{_count(checked, is_profile_given=is_profile_given)}")
    for found in checked.findings:
        print_beside(f"{found.severity}: ", _line(found.location, found.key, found.text, found.rule))
        for name, text in (("why", found.why), ("change", found.change), ("see", found.source)):
            print_beside(f"  {name + ':':<8}", text)


def _count(checked: CheckedJob, *, is_profile_given: bool) -> str:
    from fsdpctl.cli.spec_files import plural

    if not checked.findings:
        return f"; nothing to report on profile {checked.profile}" if is_profile_given else ""
    severities = [found.severity for found in checked.findings]
    warnings, advice = severities.count("warning"), severities.count("advice")
    counts = [plural(warnings, "warning")] if warnings else []
    counts += [f"{advice} {'piece' if advice == 1 else 'pieces'} of advice"] if advice else []
    return f"; on profile {checked.profile}: {', '.join(counts)}"


def _line(location: str, key: str, text: str, rule: str) -> str:
    return f"{location}: {key}: {text} [{rule}]"
