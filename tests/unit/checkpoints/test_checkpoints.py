"""`fsdpctl checkpoints` on directories as the trainer writes them, whole and damaged."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fsdpctl.checkpoints import listing
from fsdpctl.checkpoints.checkpoint_store import SharedStore
from fsdpctl.checkpoints.listing import choose_removable, examine, list_checkpoints
from fsdpctl.contract import Cause, State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.formats.lease import lease_of
from fsdpctl.contract.formats.manifest import MANIFEST_FORMAT, Manifest, digest_file, write_manifest
from fsdpctl.contract.formats.removal import remove_checkpoint
from fsdpctl.contract.paths import CHECKPOINT_MANIFEST, RunPaths, checkpoint_name
from fsdpctl.errors import UsageError
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.node.os import processes
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.runs.store import create
from fsdpctl.runs.verdict import Verdict
from fsdpctl.specs.load import load_job, load_profile, parse_job
from fsdpctl.verbs.rewind import go_back, move_newer_away
from tests.backends.harness import fsdpctl


@pytest.fixture
def run() -> RunPaths:
    """Return a run that has ended, with checkpoints of steps 4, 8, 12 and 16."""
    record = RunRecord.new("llm-aaaa", "llm", "local", "local", 1.0, 1)
    run = create(default_runs_root(), record, lambda run: None)
    for step in (4, 8, 12, 16):
        save(run, step)
    (run.checkpoints / "step-00000020.tmp-1-abcd").mkdir()
    return run


def save(run: RunPaths, step: int) -> None:
    directory = run.checkpoints / checkpoint_name(step)
    directory.mkdir(parents=True)
    (directory / "__0_0.distcp").write_bytes(bytes([step]) * 1000)
    files = {path.name: digest_file(path) for path in directory.iterdir()}
    write_manifest(directory, Manifest(MANIFEST_FORMAT, step, 1, 8, (2, 4), {}, "none", "2.13", 1e9, files))


def damage(run: RunPaths, step: int) -> None:
    (run.checkpoints / checkpoint_name(step) / "__0_0.distcp").write_bytes(b"x" * 1000)


def checkpoints(*args: str) -> subprocess.CompletedProcess[str]:
    return fsdpctl("checkpoints", *args, cwd=Path.cwd(), expect=None, env={"TZ": "UTC"})


def names(run: RunPaths) -> list[str]:
    return sorted(path.name for path in run.checkpoints.iterdir() if ".tmp-" not in path.name)


def test_ls_shows_the_newest_first_and_the_broken_ones_too(run: RunPaths) -> None:
    (run.checkpoints / checkpoint_name(12) / "manifest.json").unlink()
    header, newest, broken, *rest = checkpoints("ls").stdout.splitlines()
    assert header.split() == ["STEP", "SIZE", "SAVED", "RANKS", "MESH", "STATE"]
    assert newest.split() == ["16", "0.00", "MB", "2001-09-09", "01:46", "8", "2", "x", "4", "complete"]
    assert broken.split(maxsplit=5)[0::5] == ["step-00000012", "broken: it has no manifest"]
    assert len(rest) == 2
    listed = json.loads(checkpoints("ls", "llm-a", "--json").stdout)
    assert [item["step"] for item in listed] == [16, None, 8, 4]
    assert listed[0]["bytes"] == 1000 and listed[0]["mesh"] == [2, 4]


def test_ls_without_checkpoints_reports_none() -> None:
    create(default_runs_root(), RunRecord.new("llm-bbbb", "llm", "local", "local", 1.0, 1), lambda run: None)
    done = checkpoints("ls")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "run llm-bbbb has no checkpoint yet\n")
    assert checkpoints("ls", "--json").stdout == "[]\n"


def test_checkpoints_of_a_users_own_script_are_refused(tmp_path: Path) -> None:
    site = SubmitHost("mine-aaaa", str(tmp_path), str(tmp_path), "python3", ())
    job = parse_job("name: mine\nentrypoint: {script: train.py}\n", "mine.yaml")
    plan = build_plan(load_profile("local"), job, site)
    record = RunRecord.new("mine-aaaa", "mine", "local", "local", 1.0, 1)
    run = create(default_runs_root(), record, lambda run: write_json(run.plan, plan))
    (run.checkpoints / "step-00000007").mkdir(
        parents=True
    )  # named like one of the bundled trainer, but without a manifest
    error = "run mine-aaaa runs your own script: fsdpctl does not know the format of its checkpoints"
    for word in ("ls", "verify", "prune", "export"):
        done = checkpoints(word)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"error: {error}\n" in done.stderr and str(run.checkpoints) in done.stderr
    go_back(run, plan, 7)  # by its name alone
    (run.checkpoints / "step-00000007").rmdir()
    with pytest.raises(UsageError, match=error):
        go_back(run, plan, 7)


@pytest.mark.parametrize(
    ("lost", "problem"),
    [("__0_0.distcp", "__0_0.distcp: No such file or directory"), (CHECKPOINT_MANIFEST, "it has no manifest")],
)
def test_a_rewind_to_an_incomplete_checkpoint_is_refused(run: RunPaths, lost: str, problem: str) -> None:
    plan = build_plan(load_profile("local"), load_job("llm-tiny"), SubmitHost("llm-aaaa", "/", "/", "python3", ()))
    (run.checkpoints / checkpoint_name(8) / lost).unlink()
    with pytest.raises(UsageError, match=rf"^step-00000008 of run llm-aaaa is damaged: {re.escape(problem)}$"):
        go_back(run, plan, 8)
    assert names(run) == [checkpoint_name(step) for step in (4, 8, 12, 16)]
    go_back(run, plan, 12)
    assert names(run) == ["set-aside-0", *(checkpoint_name(step) for step in (4, 8, 12))]


def test_verify_reads_every_byte(run: RunPaths) -> None:
    assert checkpoints("verify").returncode == 0
    damage(run, 8)
    done = checkpoints("verify", "llm-aaaa")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [f"step-{step:08d}: ok" for step in (16, 12, 4)]
    assert "error: step-00000008: __0_0.distcp does not have the digest in the manifest" in done.stderr
    assert checkpoints("verify", "--step", "16").stdout == "step-00000016: ok\n"
    assert checkpoints("verify", "--step", "9").returncode == 2


def test_prune_keeps_the_newest_whole_ones(run: RunPaths) -> None:
    damage(run, 16)
    done = checkpoints("prune", "--keep", "2")
    assert done.returncode == 0
    assert done.stdout == "step-00000004: removed\n"
    assert "step-00000016 was left: __0_0.distcp does not have the digest" in done.stderr
    assert names(run) == ["step-00000008", "step-00000012", "step-00000016"]
    assert "nothing to remove" in checkpoints("prune", "--keep", "2").stderr


def test_prune_removes_a_link_and_shows_where_its_files_are(run: RunPaths, tmp_path: Path) -> None:
    moved = tmp_path / "other-disk"
    (run.checkpoints / checkpoint_name(4)).rename(moved)
    (run.checkpoints / checkpoint_name(4)).symlink_to(moved)
    done = checkpoints("prune", "--keep", "3")
    assert (done.returncode, done.stdout) == (0, "step-00000004: removed\n"), done.stderr
    assert done.stderr == f"step-00000004 was a link: its files are still in {moved}\n"
    assert (moved / CHECKPOINT_MANIFEST).exists()
    assert sorted(path.name for path in run.checkpoints.iterdir()) == [checkpoint_name(step) for step in (8, 12, 16)]


def test_a_rewind_moves_a_relative_link_so_that_it_still_leads_to_its_files(run: RunPaths) -> None:
    newest = run.checkpoints / checkpoint_name(16)
    newest.rename(run.root / "moved")
    newest.symlink_to("../moved")
    move_newer_away(run, 12)
    assert (run.set_aside(0) / newest.name / CHECKPOINT_MANIFEST).exists() and not newest.is_symlink()


def test_prune_reports_checkpoints_that_were_moved_away(run: RunPaths) -> None:
    move_newer_away(run, 8)
    done = checkpoints("prune")
    assert done.stdout == "step-00000004: removed\n"
    [line] = done.stderr.splitlines()
    assert line.startswith(f"{run.checkpoints}/set-aside-0 was left: 0.00 MB that resume --step moved away")
    assert names(run) == ["set-aside-0", "step-00000008"]
    assert [path.name for path in sorted(run.set_aside(0).iterdir())] == ["step-00000012", "step-00000016"]


def test_prune_removes_nothing_if_all_are_damaged(run: RunPaths) -> None:
    for step in (4, 8, 12, 16):
        damage(run, step)
    removable, damaged = choose_removable(list_checkpoints(run), 1, examine)
    assert (removable, len(damaged)) == ([], 4)


def test_export_of_a_damaged_checkpoint_reports_what_is_wrong(run: RunPaths, tmp_path: Path) -> None:
    damage(run, 16)
    done = checkpoints("export", "--step", "16", "--out", str(tmp_path / "out"))
    assert done.returncode == 1
    assert "step-00000016: __0_0.distcp does not have the digest" in done.stderr
    assert not (tmp_path / "out").exists()
    passed_over = "warning: step-00000016 is passed over"
    assert passed_over in checkpoints("export", "--out", str(tmp_path / "out")).stderr
    assert passed_over not in checkpoints("export", "--step", "12", "--out", str(tmp_path / "out")).stderr


def test_one_that_the_run_removes_before_it_is_leased_gives_way_to_a_newer_one(
    run: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(run, 12)

    @contextmanager
    def too_late(directory: Path) -> Iterator[None]:
        if directory.name == checkpoint_name(16):
            remove_checkpoint(directory)
            save(run, 20)
            damage(run, 20)
            save(run, 24)
        yield

    monkeypatch.setattr(listing, "leased", too_late)
    with listing.take_whole(run, None) as taken:
        assert (taken.stored.path.name, taken.passed_over) == (checkpoint_name(24), ())
    monkeypatch.undo()
    with pytest.raises(UsageError, match="no checkpoint of step 16"), listing.take_whole(run, 16):
        pass
    remove_checkpoint(run.checkpoints / checkpoint_name(24))
    with listing.take_whole(run, None) as taken:
        assert (taken.stored.path.name, taken.passed_over) == (
            checkpoint_name(8),
            (checkpoint_name(20), checkpoint_name(12)),
        )


def test_what_the_run_removes_between_listing_and_reading_is_not_called_damaged(run: RunPaths) -> None:
    store = SharedStore(run)
    newest, *_ = store.read()
    assert not store.examine(newest).is_gone
    remove_checkpoint(newest.path)
    examined = store.examine(newest)
    assert examined.is_gone and examined.problems == []


def test_prune_refuses_a_run_that_is_alive(run: RunPaths) -> None:
    node = run.attempt(1).node(0)
    node.root.mkdir(parents=True)
    write_json(node.agent, processes.identify(os.getpid()))
    done = checkpoints("prune")
    assert done.returncode == 5, done.stderr
    assert "run llm-aaaa may need any of its checkpoints: it is RUNNING" in done.stderr
    assert len(names(run)) == 4


def test_prune_refuses_a_run_whose_processes_may_still_save(run: RunPaths) -> None:
    attempt = run.attempt(1)
    attempt.root.mkdir(parents=True)
    write_json(attempt.verdict, Verdict(State.LOST, "no heartbeat", cause=Cause.LOST))
    lost = checkpoints("prune")
    write_json(attempt.verdict, Verdict(State.SUCCEEDED, "finished", cause=Cause.FINISHED))
    write_json(run.supervisor, processes.identify(os.getpid()))
    supervised = checkpoints("prune")
    assert (lost.returncode, supervised.returncode) == (5, 5)
    assert "it is LOST: processes of it may still run" in lost.stderr
    assert "its supervisor is still at work" in supervised.stderr
    assert len(names(run)) == 4 and (run.checkpoints / "step-00000020.tmp-1-abcd").is_dir()


def test_prune_leaves_what_a_command_reads_or_a_run_begins_with(run: RunPaths) -> None:
    lease_of(run.checkpoints / checkpoint_name(4)).touch()

    def begin(other: RunPaths) -> None:
        other.trainer_config.write_text(json.dumps({"init_from": str(run.checkpoints / checkpoint_name(8))}))

    create(default_runs_root(), RunRecord.new("new-aaaa", "new", "local", "local", 2.0, 1), begin)
    done = checkpoints("prune", "llm-aaaa", "--json")
    assert json.loads(done.stdout) == {
        "removed": ["step-00000012"],
        "broken": [],
        "needed": {"step-00000008": "run new-aaaa begins with it", "step-00000004": "it is being read"},
    }
    assert "step-00000004 was left: it is being read\n" in done.stderr
    assert {checkpoint_name(step) for step in (4, 8, 16)} <= set(names(run))
