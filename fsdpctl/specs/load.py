"""Load profiles and jobs by name, path or text. All problems of a file are raised as one SpecError."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fsdpctl.schema.override import apply_overrides
from fsdpctl.schema.problems import one_line
from fsdpctl.schema.validate import validate
from fsdpctl.schema.yaml_tree import YamlDocument, parse_mapping
from fsdpctl.specs.backend_arguments import apply_backend_arguments
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.specs.search import find_job, find_profile
from fsdpctl.specs.text import read_text


def load_job(name_or_path: str, overrides: Sequence[str] = ()) -> JobSpec:
    """Find, read and validate a job, with `--set` overrides applied before validation."""
    return read_job(find_job(name_or_path), overrides)


def load_job_with_notices(name_or_path: str, overrides: Sequence[str] = ()) -> tuple[JobSpec, tuple[str, ...]]:
    """Return a job, and what was left out of its `command`, each with its place in the file."""
    document = job_document(find_job(name_or_path), overrides)
    job = validate(document, JobSpec)
    return job, tuple(map(str, document.notices))


def load_profile(name_or_path: str, backend: Sequence[str] = ()) -> ClusterProfile:
    """Find, read and validate a cluster profile, with the arguments of `--backend` applied before validation."""
    return read_profile(find_profile(name_or_path), backend)


def read_job(path: Path, overrides: Sequence[str] = ()) -> JobSpec:
    """Read and validate a job's file."""
    return validate(job_document(path, overrides), JobSpec)


def read_profile(path: Path, backend: Sequence[str] = ()) -> ClusterProfile:
    """Read and validate a profile's file."""
    return validate(profile_document(path, backend), ClusterProfile)


def job_document(path: Path, overrides: Sequence[str] = ()) -> YamlDocument:
    """Return a job's file as a tree, with overrides applied, not validated."""
    return _parse_job(read_text(path, "job"), one_line(str(path)), overrides)


def profile_document(path: Path, backend: Sequence[str] = ()) -> YamlDocument:
    """Return a profile's file as a tree, with the arguments of `--backend` applied, not validated."""
    document = _parse_profile(read_text(path, "profile"), one_line(str(path)))
    apply_backend_arguments(document, backend)
    return document


def parse_job(text: str, source: str, overrides: Sequence[str] = ()) -> JobSpec:
    """Validate a job given as YAML text; `source` is its name in messages."""
    return validate(_parse_job(text, source, overrides), JobSpec)


def parse_profile(text: str, source: str) -> ClusterProfile:
    """Validate a cluster profile given as YAML text; `source` is its name in messages."""
    return validate(_parse_profile(text, source), ClusterProfile)


def _parse_job(text: str, source: str, overrides: Sequence[str]) -> YamlDocument:
    document = parse_mapping(text, source, f"job {source}")
    apply_overrides(document, overrides)
    if document.tree.get("command") is not None:  # few jobs have one: late imports
        from fsdpctl.other_launchers.command import expand_command
        from fsdpctl.specs.accelerate_config import read_accelerate_config

        expand_command(document, read_accelerate_config)
    return document


def _parse_profile(text: str, source: str) -> YamlDocument:
    return parse_mapping(text, source, f"profile {source}")
