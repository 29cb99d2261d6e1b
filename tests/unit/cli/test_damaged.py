"""A run whose files a power cut, a full disk or a hand has damaged: named, no bug, and never the end of the list."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fsdpctl.contract import CliExit
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.store import create
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.verbs.submit import prepare, write_specs
from tests.launchers.harness import COMMAND

DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "no text": lambda file: file.write_bytes(b"\xff\xfe{"),
    "a list": lambda file: file.write_bytes(b"[]"),
    "nothing": lambda file: file.write_bytes(b"null"),
    "deep": lambda file: file.write_bytes(b"[" * 100_000),
    "gone": lambda file: file.unlink(),
    "a loop": lambda file: (file.unlink(), file.symlink_to(file)),
}


@pytest.fixture
def run() -> RunPaths:
    """A run that was never started."""
    request = prepare(load_profile("local"), load_job("llm-tiny"))
    record = RunRecord.new(request.plan.run_id, "llm-tiny", "local", "local", time.time(), 1)
    return create(Path(request.plan.run_dir).parent, record, lambda run: write_specs(run, request))


def fsdpctl(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *words], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_listing_lives_through_it(damage: Callable[[Path], object], run: RunPaths) -> None:
    damage(run.trainer_config)
    done = fsdpctl("ls")
    assert (done.returncode, done.stderr) == (0, "")
    assert run.root.name in done.stdout


@pytest.mark.parametrize("name", ["plan.json", "job.yaml", "profile.yaml"])
@pytest.mark.parametrize("damage", ["empty", "gone", "a loop"])
def test_a_resume_names_the_file(damage: str, name: str, run: RunPaths) -> None:
    DAMAGE[damage](run.root / name)
    done = fsdpctl("resume")
    assert done.returncode in (CliExit.FAILED, CliExit.USAGE)
    assert str(run.root / name) in done.stderr
    assert "bug" not in done.stderr
