"""A run whose files were damaged by a power cut, a full disk or a user: it is named, and all others are listed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fsdpctl.cli.app import main
from fsdpctl.contract import CliExit
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.store import create
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.verbs.submit import prepare, write_specs
from tests.backends import harness
from tests.testbed.no_files import NO_FILES

DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "no text": lambda file: file.write_bytes(b"\xff\xfe{"),
    "a list": lambda file: file.write_bytes(b"[]"),
    "nothing": lambda file: file.write_bytes(b"null"),
    "deep": lambda file: file.write_bytes(b"[" * 100_000),
    "gone": lambda file: file.unlink(),
    "a loop": lambda file: (file.unlink(), file.symlink_to(file)),
}

OF_A_RUN = ("run.json", "plan.json", "trainer.json", "supervisor.json", "waiting", "metrics.jsonl")
OF_AN_ATTEMPT = ("verdict.json", "outcome.json", "stop", "abort", "hang.json", "events.jsonl", "events.log")
OF_A_NODE = ("agent.json", "end.json", "ended-0.json", "error-0.json", "rank-0.log", "torchrun.log", "agent.log")
OF_A_HANG = ("heartbeat", "progress-0", "stacks-0.txt", "flight-0.json")


@pytest.fixture
def run() -> RunPaths:
    """Return a run that was never started."""
    request = prepare(load_profile("local"), load_job("llm-tiny"))
    record = RunRecord.new(request.plan.run_id, "llm-tiny", "local", "local", time.time(), 1)

    def fill(run: RunPaths) -> None:
        write_specs(run, request)
        run.code.mkdir()

    return create(Path(request.plan.run_dir).parent, record, fill)


def fsdpctl(*arguments: str) -> subprocess.CompletedProcess[str]:
    return harness.fsdpctl(*arguments, cwd=Path.cwd(), expect=None)


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_listing_shows_a_damaged_run(damage: Callable[[Path], object], run: RunPaths) -> None:
    damage(run.trainer_config)
    done = fsdpctl("ls")
    assert (done.returncode, done.stderr) == (0, "")
    assert run.root.name in done.stdout


def test_a_broken_record_hides_no_other_run(run: RunPaths) -> None:
    broken = create(run.root.parent, RunRecord.new("llm-aaaa", "llm", "local", "local", 1.0, 1), lambda run: None)
    broken.record.write_text("{")
    rows = {row["run_id"]: row["state"] for row in json.loads(fsdpctl("ls", "--json").stdout)}
    assert rows == {run.root.name: "PLANNED", broken.root.name: "BROKEN"}


@pytest.mark.parametrize("name", ["plan.json", "job.yaml", "profile.yaml"])
@pytest.mark.parametrize("damage", ["empty", "gone", "a loop"])
def test_a_resume_names_the_file(damage: str, name: str, run: RunPaths) -> None:
    DAMAGE[damage](run.root / name)
    done = fsdpctl("resume")
    assert done.returncode in (CliExit.FAILED, CliExit.USAGE)
    assert str(run.root / name) in done.stderr
    assert "bug" not in done.stderr


@pytest.mark.parametrize("put", NO_FILES.values(), ids=NO_FILES)
def test_a_start_does_not_wait_for_a_reader_of_its_log(
    put: Callable[[Path], object], run: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.root)
    put(Path(run.supervisor_log.name))
    done = fsdpctl("resume", run.root.name)
    assert done.returncode == CliExit.FAILED
    assert str(run.supervisor_log) in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "arguments", [("ls",), ("status",), ("explain",), ("logs", "--agent")], ids=lambda arguments: arguments[0]
)
@pytest.mark.parametrize("put", NO_FILES.values(), ids=NO_FILES)
def test_no_command_waits_for_what_is_no_file(
    put: Callable[[Path], object], arguments: tuple[str, ...], run: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One at a time, because a damaged file may hide the next one from its reader."""
    node = run.attempt(1).node(0).root
    node.mkdir(parents=True)
    named = [] if arguments == ("ls",) else [run.root.name]
    monkeypatch.setattr(sys, "argv", ["fsdpctl", *arguments, *named])
    for folder, names in ((run.root, OF_A_RUN), (node.parent, OF_AN_ATTEMPT), (node, OF_A_NODE + OF_A_HANG)):
        monkeypatch.chdir(folder)
        for name in map(Path, names):
            kept = name.read_bytes() if name.exists() else None
            name.unlink(missing_ok=True)
            put(name)
            with pytest.raises(SystemExit) as end:
                main()
            assert end.value.code in (0, CliExit.FAILED), name
            name.rmdir() if name.is_dir() else name.unlink()
            if kept is not None:
                name.write_bytes(kept)
