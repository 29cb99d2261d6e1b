"""Apply all rules to a job on a profile. Pure."""

from __future__ import annotations

from fsdpctl.lint.rule import Finding
from fsdpctl.lint.subject import Subject
from fsdpctl.lint.table import RULES
from fsdpctl.schema.problems import shorten

MAX_TEXT = 160


def find_all(subject: Subject) -> list[Finding]:
    """Return what the rules find, warnings first, without the rules that the job or the profile ignores."""
    ignored = {*subject.job.lint.ignore, *subject.profile.lint.ignore}
    findings = [
        Finding(rule, found.key, shorten(found.text, MAX_TEXT))  # it may have a value of the user, of any length
        for rule in RULES
        if rule.id not in ignored
        for found in rule.find(subject)
    ]
    return sorted(findings, key=lambda finding: finding.rule.severity != "warning")
