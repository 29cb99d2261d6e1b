"""Apply all rules to a job on a profile. Pure."""

from __future__ import annotations

from fsdpctl.lint.rule import Finding
from fsdpctl.lint.subject import Subject
from fsdpctl.lint.table import RULES


def find_all(subject: Subject) -> list[Finding]:
    """Return what the rules find, warnings first, without the rules that the job or the profile ignores."""
    ignored = {*subject.job.lint.ignore, *subject.profile.lint.ignore}
    findings = [
        Finding(rule, found.key, found.text) for rule in RULES if rule.id not in ignored for found in rule.find(subject)
    ]
    return sorted(findings, key=lambda finding: finding.rule.severity != "warning")
