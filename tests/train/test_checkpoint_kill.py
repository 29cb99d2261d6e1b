"""SIGKILL at every system call by which a save touches files: what is found afterwards is whole, and the right one."""

from __future__ import annotations

import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp

from fsdpctl.contract.paths import RunPaths, checkpoint_name
from tests.services import require
from tests.train.ranks import context
from tests.train.single_rank import SingleRank
from train.checkpoint.verified_checkpoints import VerifiedCheckpoints

CALLS = "openat,write,writev,pwrite64,fsync,rename,renameat,renameat2,mkdir,mkdirat,unlink,unlinkat,rmdir"


def state(step: int) -> dict[str, torch.Tensor]:
    return {f"model.w{i}": torch.full((1000 + i,), float(step)) for i in range(3)}


def save_twice(run: str, control: Connection) -> None:
    """Save step 4, in a process of its own, with `keep: 1`; send "ready", wait for an answer, and save step 8.

    Of step 8 there is a damaged checkpoint by then, which the new one replaces.
    """
    from fsdpctl.contract.formats.manifest import MANIFEST_FORMAT, Manifest
    from train.checkpoint.staging import Staging
    from train.parallel.rank_info import RankInfo
    from train.parallel.world import World

    torch.set_num_threads(1)
    world = World(RankInfo())
    checkpoints = VerifiedCheckpoints(RunPaths.of(run), world.new_control_group(), attempt=0, keep=1)
    for step in (4, 8):
        tensors = state(step)
        staged = Staging(tensors, world.rank, world.members, world.device).copy(tensors)
        manifest = Manifest(MANIFEST_FORMAT, step, 0, 1, (1, 1), {}, "none", torch.__version__, 0.0, {})
        if step == 8:
            (checkpoints.root / checkpoint_name(8)).mkdir()
            control.send("ready")
            control.recv()
        checkpoints.save(manifest, staged, written=lambda: None)
        checkpoints.removals.wait(30)


def save_under_strace(run: Path, *options: str) -> tuple[int | None, str]:
    """Save, the second time under strace; return the exit code and the log of strace."""
    ours, theirs = context.Pipe()
    process = context.Process(target=save_twice, args=(str(run), theirs))
    process.start()
    ours.recv()
    log = run.with_suffix(".strace")
    command = ["strace", "-f", "-y", "-o", str(log), "-e", f"trace={CALLS}", *options, "-p", str(process.pid)]
    strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert strace.stderr is not None
    attached = strace.stderr.readline()
    assert "attached" in attached, attached
    ours.send("go")
    process.join(60)
    strace.communicate()
    return process.exitcode, log.read_text()


def kill_points(seen: str) -> Iterator[tuple[str, int]]:
    """Yield each call that touched the run's directory, with its number among its thread's calls of that name.

    strace counts them by thread, and kills at the first thread that gets so far.
    """
    numbers: Counter[tuple[str, str]] = Counter()
    for thread, call, arguments in re.findall(r"^(\d+) +(\w+)\((.*)", seen, re.MULTILINE):
        numbers[thread, call] += 1
        if "/checkpoints" in arguments:
            yield call, numbers[thread, call]


def assert_flushed_before_the_name(seen: str) -> None:
    """Assert that a power cut leaves a whole checkpoint or none: files and both directories are on disk in time."""
    before, after = re.split(r', "\S+/checkpoints/step-00000008"', seen)
    flushed = re.findall(r"fsync\(\d+<([^>]+)>", before)
    names = {re.sub(r"\.tmp.*", "", Path(path).name) for path in flushed}
    [manifest] = {name for name in names if name.startswith(".manifest.json.")}
    assert names == {"__0_0.distcp", ".metadata", manifest, "step-00000008"}
    assert re.search(r"fsync\(\d+<[^>]+/checkpoints>", after)


def resume(run: Path) -> tuple[int, set[float]]:
    """Return what a new attempt loads from the directory: the step, and the values."""
    checkpoints = VerifiedCheckpoints(RunPaths(run), SingleRank(), 0, 1)
    checkpoints.remove_leftovers()
    checkpoints.removals.wait(30)
    found = checkpoints.find_newest()
    assert found is not None
    tensors = state(0)
    dcp.load(tensors, checkpoint_id=run / "checkpoints" / checkpoint_name(found.step), no_dist=True)
    return found.step, {float(value) for tensor in tensors.values() for value in tensor}


@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_save_killed_at_any_file_operation_costs_at_most_that_save(tmp_path: Path) -> None:
    require("strace")
    save_under_strace(tmp_path / "first")  # writes byte code, which the others then read: fewer calls
    code, seen = save_under_strace(tmp_path / "whole")
    assert code == 0
    points = list(dict.fromkeys(kill_points(seen)))
    assert {"openat", "write", "fsync", "rename", "mkdir"} <= {call for call, _ in points}
    assert_flushed_before_the_name(seen)
    outcomes: Counter[int] = Counter()
    for call, number in points:
        run = tmp_path / f"{call}-{number}"
        code, _ = save_under_strace(run, "-e", f"inject={call}:signal=KILL:when={number}")
        assert code == -signal.SIGKILL, f"{call} {number}"
        step, values = resume(run)
        assert step in (4, 8) and values == {float(step)}, f"killed at {call} {number}: found {step}, {values}"
        outcomes[step] += 1
        left = sorted(path.name for path in (run / "checkpoints").iterdir())
        assert all(".tmp-" not in name for name in left), left
    assert outcomes[4] > 10 and outcomes[8] > 0  # before the rename, and after it
