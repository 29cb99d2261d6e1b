"""The commit of a project and its edits are stored at a submit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fsdpctl.contract.paths import RunPaths
from fsdpctl.launch.git_facts import record_git
from fsdpctl.launch.snapshot import SECRETS
from fsdpctl.runs.git_facts import read_git_diff, read_git_facts


def git(project: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    subprocess.run(["git", "-C", str(project), *who, *words], check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "repository" / "project"
    project.mkdir(parents=True)
    git(project, "init", "-q", "-b", "trunk")
    for name in ("train.py", ".env"):
        (project / name).write_text("old\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "Train <fast>\n\nThe reason")
    return project


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    run = RunPaths(tmp_path / "run")
    run.root.mkdir()
    return run


def test_a_clean_repository_has_a_commit_and_no_diff(project: Path, run: RunPaths) -> None:
    record_git(project, run, SECRETS)
    facts = read_git_facts(run)
    assert facts is not None
    assert (facts.subject, facts.branch, facts.changed, facts.untracked) == ("Train <fast>", "trunk", (), ())
    assert len(facts.commit) == 40
    assert read_git_diff(run) == ""


def test_edits_are_stored_but_no_secret(project: Path, run: RunPaths) -> None:
    for name in ("train.py", ".env"):
        (project / name).write_text("new\n")
    (project / "added.py").touch()
    record_git(project, run, SECRETS)
    facts = read_git_facts(run)
    assert facts is not None
    assert (facts.changed, facts.untracked) == ((".env", "train.py"), ("added.py",))
    assert "a/train.py" in read_git_diff(run) and ".env" not in read_git_diff(run)


def test_without_a_repository_or_a_commit_nothing_is_stored(tmp_path: Path, run: RunPaths) -> None:
    record_git(tmp_path, run, SECRETS)
    git(tmp_path, "init", "-q")
    record_git(tmp_path, run, SECRETS)
    assert list(run.root.iterdir()) == []
