"""Advice about a job on a profile: from the files to findings, each with where its key is written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.errors import UsageError
from fsdpctl.launch.build import IncompatibleError
from fsdpctl.launch.locate import locate_problems
from fsdpctl.lint.find import find_all
from fsdpctl.lint.rule import Finding
from fsdpctl.lint.subject import Subject
from fsdpctl.schema.problems import KeyPath, Location, key_path
from fsdpctl.schema.validate import validate
from fsdpctl.schema.yaml_tree import YamlDocument
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.lint import RuleId
from fsdpctl.specs.load import job_document, profile_document
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.specs.search import ProfileSource, choose_profile, find_job, find_profile
from fsdpctl.verbs.cards import find_profile_card
from fsdpctl.verbs.foreign import hinting_at_import
from fsdpctl.verbs.micro_batch import plan_with_micro_batch
from fsdpctl.verbs.submit import Request
from fsdpctl.verbs.submit_host import runs_root_of, submit_host


@dataclass(frozen=True)
class LocatedFinding:
    """A finding, and the file and line, or the option, of its key."""

    location: str
    finding: Finding


@dataclass(frozen=True)
class CheckedJob:
    """A valid job, and what the rules find in it on a profile."""

    job: JobSpec
    profile: str
    findings: tuple[LocatedFinding, ...]
    notices: tuple[str, ...]  # what was left out of the job's command
    misfit: str | None  # why it cannot run on the default profile: no rule was applied


def check_job(
    name: str, overrides: Sequence[str] = (), profile: str | None = None, backend: Sequence[str] = ()
) -> CheckedJob:
    """Check a job on a profile. Raise UsageError for a job that is not valid, or does not fit the given `profile`.

    `profile` None: the default one, which the job need not fit.
    """
    with hinting_at_import(name):
        job_file = job_document(find_job(name), overrides)
        job = validate(job_file, JobSpec)
    notices = tuple(map(str, job_file.notices))
    chosen, source = choose_profile(profile, job.profile)
    try:
        profile_file = profile_document(find_profile(chosen), backend)
        request = _plan(job, job_file, profile_file)
    except UsageError as error:
        if source is ProfileSource.OPTION:
            raise
        return CheckedJob(job, chosen, (), notices, error.message)
    return CheckedJob(job, chosen, lint_request(request, job_file, profile_file), notices, None)


def _plan(job: JobSpec, job_file: YamlDocument, profile_file: YamlDocument) -> Request:
    """Plan a run from the files alone: data, weights and scripts may be elsewhere."""
    profile = validate(profile_file, ClusterProfile)
    host = submit_host(profile, runs_root_of(profile), f"{job.name}-check", Path.cwd())
    try:
        job, plan, _ = plan_with_micro_batch(profile, job, host)
        return Request(profile, job, plan)
    except IncompatibleError as error:
        raise locate_problems(error, job_file, profile_file) from None


def lint_submission(
    request: Request, job: str, overrides: Sequence[str], backend: Sequence[str], profile: str | None
) -> tuple[LocatedFinding, ...]:
    """Return what the rules find in a launch, without `does-not-fit`, which `submit` checks by itself.

    The files are those from which `read_request` made it.
    """
    chosen, _ = choose_profile(profile, request.job.profile)
    found = lint_request(
        request, job_document(find_job(job), overrides), profile_document(find_profile(chosen), backend)
    )
    return tuple(one for one in found if one.finding.rule.id is not RuleId.DOES_NOT_FIT)


def lint_request(request: Request, job: YamlDocument, profile: YamlDocument) -> tuple[LocatedFinding, ...]:
    """Return what the rules find in a launch, with the places of the keys in its documents."""
    written = frozenset(key_path(path) for document in (job, profile) for path in document.locations)
    found = find_profile_card(request.profile) if request.plan.device == "cuda" else None
    card = found[0] if found is not None else None
    findings = find_all(Subject(request.job, request.profile, request.plan, written, card))
    return tuple(LocatedFinding(str(_locate(finding.key, job, profile)), finding) for finding in findings)


def _locate(key: str, job: YamlDocument, profile: YamlDocument) -> Location:
    """Return where a key is written: in the job, which overrides the profile, or in the closest mapping around it."""
    path: KeyPath = tuple(int(part) if part.isdecimal() else part for part in re.findall(r"\w+", key))
    is_of_profile = path[0] not in JobSpec.model_fields or path in profile.locations
    return (profile if is_of_profile and path not in job.locations else job).locate(path)
