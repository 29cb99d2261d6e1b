"""Load profiles and jobs by name, path or text. All problems of a file are raised as one SpecError."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path

from fsdpctl.contract.files import NO_FILE, open_file
from fsdpctl.errors import UsageError
from fsdpctl.schema.override import apply_overrides
from fsdpctl.schema.problems import Location, fail, one_line
from fsdpctl.schema.validate import validate
from fsdpctl.schema.yaml_tree import YamlDocument, parse_mapping
from fsdpctl.specs.backend_arguments import apply_backend_arguments
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.specs.search import find_job, find_profile

MAX_BYTES = 1_000_000


def load_job(name_or_path: str, overrides: Sequence[str] = ()) -> JobSpec:
    """Find, read and validate a job, with `--set` overrides applied before validation."""
    return read_job(find_job(name_or_path), overrides)


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
    return document


def _parse_profile(text: str, source: str) -> YamlDocument:
    return parse_mapping(text, source, f"profile {source}")


def read_text(path: Path, what: str) -> str:
    """Return the text of a user's file. Raise UsageError or SpecError for a file that is no text of a usual size."""
    source = one_line(str(path))
    subject, start = f"{what} {source}", Location(source, 1)
    data = _read_bytes(path, source, what)
    if data.startswith(codecs.BOM_UTF8):
        fail(subject, start, "starts with a byte order mark; save the file as UTF-8 without one")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        fail(subject, start.at(line), f"byte 0x{data[error.start]:02X} is not UTF-8; save the file as UTF-8")


def _read_bytes(path: Path, source: str, what: str) -> bytes:
    try:
        with BufferedReader(open_file(path)) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        if error.errno == NO_FILE:
            raise UsageError(f"{source}: not a file; a {what} is one text file") from None
        raise UsageError(f"{source}: cannot read this {what}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{source}: larger than {MAX_BYTES:,} bytes; a {what} has a few lines")
    return data
