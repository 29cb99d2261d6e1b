"""`fsdpctl gc` and `runs pin` on real directories: what is protected, two at once, and one that is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fsdpctl.checkpoints.checkpoint_store import SharedStore
from fsdpctl.checkpoints.listing import Stored
from fsdpctl.contract import Cause, State
from fsdpctl.contract.codec import read_json, write_json
from fsdpctl.contract.files import take_lock
from fsdpctl.contract.formats.lease import lease_of
from fsdpctl.contract.formats.manifest import MANIFEST_FORMAT, Manifest, digest_file, write_manifest
from fsdpctl.contract.paths import RunPaths, checkpoint_name
from fsdpctl.contract.plan import AfterRun
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.node.os import processes
from fsdpctl.runs.copied import CopiedFiles, inventory_project
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.registry import default_runs_root, home
from fsdpctl.runs.store import create, locked, run_ids
from fsdpctl.runs.verdict import Verdict
from fsdpctl.specs.load import load_job, load_profile, parse_job
from fsdpctl.verbs.gc import act, plan_gc
from fsdpctl.verbs.gc_choice import HAS_OTHER_FILES, Action, Limits
from fsdpctl.verbs.pin import pin
from tests.backends.harness import fsdpctl

OLD = time.time() - 90 * 86_400
SCRIPT = "name: own\nentrypoint: {script: train.py}\n"


def make_run(run_id: str, *steps: int, state: State = State.SUCCEEDED, is_own: bool = False) -> RunPaths:
    """A run that ended 90 days ago, with checkpoints of these steps."""
    job = parse_job(SCRIPT, "j.yaml") if is_own else load_job("llm-tiny")
    plan = build_plan(load_profile("local"), job, SubmitHost(run_id, "/", "/", sys.executable, ()))

    def fill(run: RunPaths) -> None:
        write_json(run.plan, plan)
        if not is_own:
            run.trainer_config.write_text("{}")

    run = create(default_runs_root(), RunRecord.new(run_id, job.name, "local", "local", OLD, 1), fill)
    attempt = run.attempt(1)
    attempt.node(0).root.mkdir(parents=True)
    write_json(attempt.verdict, Verdict(state, "as it is", cause=Cause.FINISHED))
    for step in steps:
        save(run, step)
    for path in (run.record, attempt.verdict, attempt.root):
        os.utime(path, (OLD, OLD))
    return run


def save(run: RunPaths, step: int) -> None:
    directory = run.checkpoints / checkpoint_name(step)
    directory.mkdir(parents=True)
    (directory / "__0_0.distcp").write_bytes(bytes([step]) * 5000)
    files = {path.name: digest_file(path) for path in directory.iterdir()}
    write_manifest(directory, Manifest(MANIFEST_FORMAT, step, 1, 8, (2, 4), {}, "none", "2.13", OLD, files))


def gc(cwd: Path, *words: str, expect: int = 0) -> dict[str, Any]:
    return dict(json.loads(fsdpctl("gc", "--json", *words, cwd=cwd, expect=expect).stdout))


def checkpoints(run: RunPaths) -> list[str]:
    return sorted(path.name for path in run.checkpoints.iterdir())


def test_without_yes_nothing_is_changed_and_with_it_what_was_shown_is_done(tmp_path: Path) -> None:
    failed, good = make_run("none-aaaa", state=State.FAILED), make_run("good-aaaa", 4, 8, 12)
    (good.checkpoints / "step-00000016.tmp-1-abcd").mkdir()
    planned = gc(tmp_path)
    assert planned["dry_run"] and {row["run_id"]: row["action"] for row in planned["runs"]} == {
        "none-aaaa": "remove",
        "good-aaaa": "prune",
    }
    assert failed.root.is_dir() and len(checkpoints(good)) == 4
    shown = fsdpctl("gc", cwd=tmp_path)
    assert "none-aaaa" in shown.stdout and "nothing was removed: --yes removes it" in shown.stderr
    done = gc(tmp_path, "--yes")
    assert [row["bytes"] for row in done["runs"]] == [row["bytes"] for row in planned["runs"]]
    assert {name for row in done["runs"] for name in row["checkpoints"]} == {"step-00000004", "step-00000008"}
    assert checkpoints(good) == ["step-00000012"] and run_ids() == ["good-aaaa"]
    assert [path.name for path in default_runs_root().iterdir()] == ["good-aaaa"]
    again = gc(tmp_path, "--yes")
    assert again["runs"] == [] and again["kept"] == {"good-aaaa": "its only complete checkpoint is in it"}


def damage_newest(run: RunPaths) -> None:
    (run.checkpoints / checkpoint_name(12) / "__0_0.distcp").write_bytes(b"x" * 5000)


def test_a_damaged_checkpoint_is_not_the_one_that_stays(tmp_path: Path) -> None:
    run = make_run("good-aaaa", 4, 8, 12)
    damage_newest(run)
    gc(tmp_path, "--yes")
    assert checkpoints(run) == ["step-00000008", "step-00000012"]
    all_bad = make_run("bad-aaaa", 8, 12)
    for step in (8, 12):
        (all_bad.checkpoints / checkpoint_name(step) / "__0_0.distcp").write_bytes(b"x")
    done = gc(tmp_path, "--yes", expect=1)
    assert {row["run_id"]: row["problem"] for row in done["runs"]}["bad-aaaa"] == "none of its checkpoints is complete"
    assert len(checkpoints(all_bad)) == 2


def start_agent(run: RunPaths) -> None:
    run.attempt(1).verdict.unlink()
    write_json(run.attempt(1).node(0).agent, processes.identify(os.getpid()))


def start_supervisor(run: RunPaths) -> None:
    write_json(run.supervisor, processes.identify(os.getpid()))


def wait_for_it(run: RunPaths) -> None:
    """Let a run that is alive wait for this one."""
    other = make_run("other-aaaa")
    plan = build_plan(load_profile("local"), load_job("llm-tiny"), SubmitHost("o", "/", "/", sys.executable, ()))
    write_json(other.plan, replace(plan, after=AfterRun(run.root.name, str(run.root))))
    start_agent(other)


def begin_with_it(run: RunPaths) -> None:
    other = make_run("other-aaaa")
    relative = f"{run.root}/../{run.root.name}/checkpoints/step-00000004"
    other.trainer_config.write_text(json.dumps({"init_from": relative}))
    start_agent(other)


def read_it(run: RunPaths) -> None:
    lease_of(run.checkpoints / "step-00000004").touch()


def lose_it(run: RunPaths) -> None:
    write_json(run.attempt(1).verdict, Verdict(State.LOST, "no heartbeat", cause=Cause.LOST))


def keep_on_hosts(run: RunPaths) -> None:
    plan = build_plan(load_profile("local"), load_job("llm-tiny"), SubmitHost("o", "/", "/", sys.executable, ()))
    write_json(run.plan, replace(plan, shared_disk=False))


def move_it(run: RunPaths) -> None:
    """Move its directory to another disk, with a link in its place."""
    elsewhere = run.root.parent.parent / "elsewhere"
    run.root.rename(elsewhere)
    run.root.symlink_to(elsewhere)


PROTECTED: dict[str, tuple[Callable[[RunPaths], object], str]] = {
    "pinned": (pin, "it is pinned"),
    "alive": (start_agent, "it is RUNNING"),
    "supervised": (start_supervisor, "its supervisor is still at work"),
    "lost": (lose_it, "it is LOST: processes of it may still run"),
    "awaited": (wait_for_it, "run other-aaaa needs it"),
    "begun with": (begin_with_it, "run other-aaaa needs it"),
    "read": (read_it, "step-00000004 is being read"),
    "moved": (move_it, "its directory is a link to another place"),
    "on its hosts": (keep_on_hosts, "each of its hosts has a directory of its own"),
}


@pytest.mark.parametrize(("protect", "reason"), PROTECTED.values(), ids=PROTECTED)
def test_what_is_protected_stays(protect: Callable[[RunPaths], object], reason: str) -> None:
    run = make_run("mine-aaaa", 4, 8)
    protect(run)
    before = checkpoints(run)
    choices = plan_gc(Limits(keep=0))
    assert {choice.run.run_id: choice.reason for choice in choices}["mine-aaaa"] == reason
    assert list(act(choices)) == [] and checkpoints(run) == before
    wanted = [replace(choice, action=Action.PRUNE) for choice in choices if choice.run.run_id == "mine-aaaa"]
    assert [done.problem for done in act(wanted)] == [reason], "it is looked at again under its lock"
    assert checkpoints(run) == before


def test_a_run_that_another_one_begins_with_while_gc_removes_stays() -> None:
    for name in ("one-aaaa", "two-aaaa"):
        make_run(name, 4, 8)
    choices = plan_gc(Limits(keep=0))
    acting, later = act(choices), RunPaths(default_runs_root() / choices[1].run.run_id)
    assert next(acting).problem == ""
    begin_with_it(later)
    assert next(acting).problem == "run other-aaaa needs it"
    assert checkpoints(later) == ["step-00000004", "step-00000008"]


def test_a_checkpoint_that_a_command_reads_once_the_newest_is_verified_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run("mine-aaaa", 4, 8, 12)

    def examine(store: SharedStore, stored: Stored) -> Stored:
        read_it(run)
        return stored

    monkeypatch.setattr(SharedStore, "examine", examine)
    [done] = act(plan_gc(Limits(keep=0)))
    assert (done.checkpoints, done.problem) == (("step-00000008",), "step-00000004 was left: it is being read")


def test_a_run_whose_path_is_escaped_in_json_stays_while_another_begins_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FSDPCTL_HOME", str(tmp_path / "josé"))
    run = make_run("mine-aaaa", 4, 8)
    begin_with_it(run)
    assert "é" in str(run.root)
    assert {choice.run.run_id: choice.reason for choice in plan_gc(Limits(keep=0))}[
        "mine-aaaa"
    ] == "run other-aaaa needs it"


@pytest.mark.parametrize("is_needed", [True, False])
def test_a_run_that_was_never_started_stays_if_another_one_needs_it(is_needed: bool) -> None:
    """It begins with weights of its own, too: those are no reason."""
    run = make_run("mine-aaaa", 4, 8)
    shutil.rmtree(run.attempt(1).root)
    run.trainer_config.write_text(json.dumps({"init_from": f"{run.checkpoints}/step-00000004"}))
    if is_needed:
        wait_for_it(run)
        newer = RunPaths(default_runs_root() / "other-aaaa").record
        write_json(newer, replace(read_json(RunRecord, newer), created=OLD + 1))
    chosen = {choice.run.run_id: choice for choice in plan_gc(Limits(keep=0))}["mine-aaaa"]
    assert chosen.action is (Action.KEEP if is_needed else Action.PRUNE)
    assert chosen.reason == ("run other-aaaa needs it" if is_needed else "its newest complete checkpoint stays")


def test_a_run_stays_while_its_notices_are_sent() -> None:
    run = make_run("mine-aaaa")
    pending = run.pending_notice(1)
    hold = "import sys; from fsdpctl.contract.files import take_lock; from pathlib import Path;"
    hold += "take_lock(Path(sys.argv[1])); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(pending)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sender:
        assert sender.stdout is not None and sender.stdout.readline()
        [choice] = plan_gc(Limits(keep=0))
        assert (choice.action, choice.reason) == (Action.KEEP, "its notices are being sent")
        [done] = act([replace(choice, action=Action.REMOVE)])
        assert done.problem == "its notices are being sent" and run.root.exists()
    assert pending.exists(), "what a sender leaves that was killed protects nothing"
    assert [done.problem for done in act(plan_gc(Limits(keep=0)))] == [""] and not run.root.exists()


def test_a_broken_run_is_listed_and_left(tmp_path: Path) -> None:
    make_run("mine-aaaa")
    broken = make_run("torn-aaaa")
    broken.record.write_text("{")
    listed = gc(tmp_path, "--yes")
    assert [row["run_id"] for row in listed["runs"]] == ["mine-aaaa"]
    assert listed["kept"]["torn-aaaa"].startswith(f"it is BROKEN ({broken.record}: ")
    assert f"delete {broken.root} where you know that" in fsdpctl("gc", cwd=tmp_path).stderr
    assert broken.record.read_text() == "{"


def test_a_script_of_its_own_with_checkpoints_stays_and_one_without_goes(tmp_path: Path) -> None:
    with_some, without = make_run("some-aaaa", is_own=True), make_run("none-aaaa", is_own=True)
    with_some.checkpoints.mkdir()
    (with_some.checkpoints / "model.pt").touch()
    done = gc(tmp_path, "--yes")
    assert done["kept"] == {"some-aaaa": "only its script knows which of its checkpoints are complete"}
    assert with_some.root.is_dir() and not without.root.exists()


def write_beside(run: RunPaths) -> None:
    """As `torch.save` to a relative path does, or `output_dir: out`."""
    (run.source / "out").mkdir()
    (run.source / "out" / "model.pt").touch()


def write_over(run: RunPaths) -> None:
    (run.source / "weights.pt").write_text("trained")


def write_into_the_run_directory(run: RunPaths) -> None:
    (run.root / "model.pt").touch()


def rename_checkpoint(run: RunPaths) -> None:
    (run.checkpoints / "best").mkdir(parents=True)


def compile_only(run: RunPaths) -> None:
    (run.source / "__pycache__").mkdir()
    (run.source / "__pycache__" / "train.cpython-313.pyc").touch()
    run.tracker_state("wandb").touch()
    run.job_claim(1).touch()


def tear_record(run: RunPaths) -> None:
    run.copied.write_text("{")


def lose_record(run: RunPaths) -> None:
    run.copied.unlink()  # a run of an older version


@pytest.mark.parametrize(
    ("write", "is_own", "stays"),
    [
        (write_beside, True, True),
        (write_over, True, True),
        (write_into_the_run_directory, True, True),
        (tear_record, True, True),
        (lose_record, True, True),
        (rename_checkpoint, False, True),
        (compile_only, True, False),
    ],
)
def test_a_run_without_checkpoints_stays_with_what_its_script_has_written(
    write: Callable[[RunPaths], None], is_own: bool, stays: bool
) -> None:
    run = make_run("mine-aaaa", is_own=is_own)
    if is_own:
        run.source.mkdir(parents=True)
        for name in ("train.py", "weights.pt"):
            (run.source / name).write_text("of the project")
        write_json(run.copied, CopiedFiles().followed_by(inventory_project(run)))
    [before] = plan_gc(Limits(keep=0))
    assert before.action is Action.REMOVE
    write(run)
    [choice] = plan_gc(Limits(keep=0))
    assert (choice.action, choice.reason) == (
        (Action.KEEP, HAS_OTHER_FILES) if stays else (Action.REMOVE, "it has ended and has no checkpoint")
    )
    [done] = act([before])
    assert done.problem == (HAS_OTHER_FILES if stays else ""), "it is looked at again under its lock"
    assert run.root.exists() is stays


def test_checkpoints_that_a_rewind_moved_away_are_named_when_they_are_removed() -> None:
    run = make_run("mine-aaaa", 4, 8)
    run.set_aside(1).mkdir()
    [done] = act(plan_gc(Limits(keep=0)))
    assert done.checkpoints == ("step-00000004", "set-aside-1") and checkpoints(run) == ["step-00000008"]


def test_a_run_that_was_pinned_meanwhile_or_is_locked_stays() -> None:
    pinned, busy, gone = make_run("pin-aaaa"), make_run("busy-aaaa"), make_run("gone-aaaa")
    choices = plan_gc(Limits(keep=0))
    pinned.pinned.touch()
    subprocess.run(["rm", "-r", str(gone.root)], check=True)
    holder = subprocess.Popen(
        [sys.executable, "-c", "import sys, fsdpctl.contract.files as f; from pathlib import Path\n"
         f"f.take_lock(Path({str(busy.lock)!r})); print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout is not None and holder.stdout.readline()
    problems = {done.choice.run.run_id: done.problem for done in act(choices)}
    holder.communicate()
    assert problems == {
        "pin-aaaa": "it is pinned",
        "busy-aaaa": "another command is changing it",
        "gone-aaaa": "another command has removed it",
    }
    assert pinned.root.is_dir() and busy.root.is_dir()


@pytest.mark.slow
def test_a_second_gc_at_the_same_time_is_refused_and_both_leave_whole_runs(tmp_path: Path) -> None:
    for number in range(30):
        make_run(f"run-{number:04}", *([4, 8] if number % 2 else []))
    words = [sys.executable, "-m", "fsdpctl", "gc", "--yes", "--json"]
    both = [
        subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=120) for process in both]
    assert all(process.returncode in (0, 1, 5) for process in both), outputs
    assert all("Traceback" not in errors for _, errors in outputs)
    assert sorted(run_ids()) == [f"run-{number:04}" for number in range(30) if number % 2]
    assert all(checkpoints(RunPaths(default_runs_root() / name)) == ["step-00000008"] for name in run_ids())
    lock = take_lock(home() / "remove.lock")
    assert lock is not None, "it is free again"
    refused = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    os.close(lock)
    assert refused.returncode == 5 and "another command is removing runs" in refused.stderr


KILLED = """
import os, shutil, sys
from pathlib import Path

calls = []

def die(*_, **__):
    os.kill(os.getpid(), 9)

def die_within(path, *_, **__):
    (Path(path) / "run.json").unlink(missing_ok=True)
    die()

setattr({target}, {death})
from fsdpctl.__main__ import main
sys.argv = ["fsdpctl", "gc", "--yes"]
main()
"""
DEATHS = {
    "before a file is deleted": ("shutil, 'rmtree'", "die"),
    "after some": ("shutil, 'rmtree'", "die_within"),
    "after all, before the pointer": ("__import__('fsdpctl.runs.removal').runs.removal, 'pointer_of'", "die"),
}


@pytest.mark.parametrize(("target", "death"), DEATHS.values(), ids=DEATHS)
def test_a_gc_that_is_killed_leaves_nothing_half_that_breaks_ls(target: str, death: str, tmp_path: Path) -> None:
    run = make_run("big-aaaa")
    words = [sys.executable, "-c", KILLED.format(target=target, death=death)]
    killed = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert json.loads(fsdpctl("ls", "--json", cwd=tmp_path).stdout) == [] == run_ids()
    assert not run.root.exists()
    assert [path.name for path in default_runs_root().iterdir()] in ([".removed-big-aaaa"], [])
    gc(tmp_path, "--yes")
    assert [*default_runs_root().iterdir()] == []


def test_pin_and_unpin(tmp_path: Path) -> None:
    run = make_run("mine-aaaa")
    assert json.loads(fsdpctl("runs", "pin", "mine-aaaa", "--json", cwd=tmp_path).stdout) == [
        {"run_id": "mine-aaaa", "pinned": True, "acted": True}
    ]
    assert "as before" in fsdpctl("runs", "pin", "mine-aaaa", cwd=tmp_path).stdout
    assert gc(tmp_path)["kept"] == {"mine-aaaa": "it is pinned"}
    fsdpctl("runs", "unpin", "mine-aaaa", cwd=tmp_path)
    assert [row["run_id"] for row in gc(tmp_path)["runs"]] == ["mine-aaaa"]
    with locked(run):
        assert run.root.is_dir()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--older-than", "30"], "--older-than: a duration is"),
        (["--older-than", "0s"], "`--keep 0` is for all"),
        (["--max-size", "5"], "--max-size takes a size like"),
    ],
)
def test_wrong_limits_are_refused(words: list[str], problem: str, tmp_path: Path) -> None:
    assert problem in fsdpctl("gc", *words, cwd=tmp_path, expect=2).stderr
