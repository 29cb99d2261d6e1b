"""The node check as the agent calls it, with its limits and disks: real mounts where a failure needs one."""

from __future__ import annotations

import resource
import sys
import venv
from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.contract import Cause, Env
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.findings import Check, Result
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.node.checks.limits import judge_memlock, judge_nofile, judge_shm
from fsdpctl.node.checks.node_check import NodeCheckError, check_node, inspect
from fsdpctl.node.checks.packages import check_packages, needed_packages
from fsdpctl.node.checks.storage import MIN_FREE_BYTES, check_storage
from fsdpctl.specs.load import load_job, parse_profile
from tests.processor_time import done_within
from tests.testbed.disks import Mount

GIB = 2**30


def plan(extra: str = "", python: str = sys.executable) -> LaunchPlan:
    profile = parse_profile(f"name: p\nbackend: local\npython: {python}\n{extra}", "p")
    return build_plan(profile, load_job("llm-tiny"), SubmitHost("r", "/runs/r", "/", sys.executable, ()))


def node_dir(root: Path) -> Path:
    directory = root / "attempts" / "1" / "node-0"
    directory.mkdir(parents=True)
    return directory


def test_a_healthy_node_passes_fast_and_leaves_no_files(tmp_path: Path) -> None:
    directory = node_dir(tmp_path)
    done_within(2, lambda: check_node(plan(), directory))
    assert not list(directory.iterdir())


def test_all_failures_of_a_node_are_reported_at_once(tmp_path: Path, small_disk: Mount) -> None:
    directory = node_dir(small_disk.path)
    small_disk.fill()
    with pytest.raises(NodeCheckError) as caught:
        check_node(plan("network: {interface: ib77}\n", python="/no/such/python"), directory)
    for reason in ("python does not exist here: /no/such/python", "'ib77' does not exist", "is full: No space left"):
        assert reason in str(caught.value)


def test_missing_packages_are_named_with_what_installs_them(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare")
    bare = str(tmp_path / "bare" / "bin" / "python")
    with pytest.raises(NodeCheckError) as caught:
        check_node(plan(python=bare), node_dir(tmp_path))
    assert str(caught.value) == (
        f"{bare} does not have torch and numpy, which the ranks import"
        f" ({bare} -m pip install torch numpy, or set `venv` in the profile)"
    )
    assert caught.value.cause is Cause.PACKAGE
    with pytest.raises(NodeCheckError, match="'ib77' does not exist") as caught:
        check_node(plan("network: {interface: ib77}\n", python=bare), tmp_path / "attempts" / "1" / "node-0")
    assert caught.value.cause is Cause.NODE_CHECK, "another node may have the interface"


@pytest.mark.parametrize(
    ("source", "packages"),
    [("s3://bucket/data", ("fsspec", "s3fs")), ("gs://bucket/data", ("fsspec",)), ("/data", ()), ("builtin", ())],
)
def test_data_behind_a_url_needs_its_packages(source: str, packages: tuple[str, ...], tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    entry = plan().entry
    assert needed_packages(entry, run) == ("torch", "numpy")
    trainer = load_job("llm-tiny", [f"trainer.data.source={source}"]).trainer
    write_json(run.trainer_config, trainer)
    assert needed_packages(entry, run) == ("torch", "numpy", *packages)
    assert needed_packages(replace(entry, target="mine"), run) == ("torch",)


def test_packages_are_found_as_ranks_find_them(tmp_path: Path) -> None:
    """On the PYTHONPATH of the submitting shell, and not in a directory of that name without a module."""
    venv.create(tmp_path / "bare")
    bare = str(tmp_path / "bare" / "bin" / "python")
    for name, files, result in (("package", ["__init__.py"], Result.OK), ("directory", [], Result.FAIL)):
        (tmp_path / name / "torch").mkdir(parents=True)
        for file in files:
            (tmp_path / name / "torch" / file).write_text("raise SystemExit('imported')")
        assert check_packages(bare, ("torch",), {Env.USER_PYTHONPATH: str(tmp_path / name)}).result is result
    assert check_packages("/no/such/python", ("torch",), {}).result is Result.UNKNOWN
    assert check_packages("/bin/false", ("torch",), {}).result is Result.UNKNOWN


def test_python_is_looked_up_on_the_nodes_own_path(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mypython").symlink_to(sys.executable)
    env = f"nodes: [{{id: a, address: 127.0.0.1, env: {{PATH: {tmp_path}/bin}}}}]\n"
    for extra, result in (("", Result.FAIL), (env, Result.OK)):
        findings = inspect(plan(extra, python="mypython"), 0, node_dir(tmp_path / str(result)))
        assert [finding.result for finding in findings if finding.check is Check.PYTHON] == [result]


def test_a_full_disk_is_one_failure(small_disk: Mount) -> None:
    small_disk.fill()
    (found,) = check_storage(small_disk.path / "probe")
    assert (found.check, found.result) == (Check.DISK, Result.FAIL)
    assert f"{small_disk.path} is full: No space left on device" in found.reason


def test_a_nearly_full_disk_is_a_failure_too(small_disk: Mount) -> None:
    small_disk.fill(leave=32 * 2**20)
    run_root, disk = check_storage(small_disk.path / "probe")
    assert (run_root.result, disk.result) == (Result.OK, Result.FAIL)
    assert disk.reason.endswith(f"MiB are free in {small_disk.path}, at least {MIN_FREE_BYTES // 2**20} are needed")


def test_a_disk_with_few_inodes_is_a_failure(small_disk: Mount) -> None:
    small_disk.use_up_inodes()
    for number in range(500):
        (small_disk.path / "ballast" / str(number)).unlink()
    run_root, disk = check_storage(small_disk.path / "probe")
    assert (run_root.result, disk.result) == (Result.OK, Result.FAIL)
    assert disk.reason == f"only 499 more files can be created in {small_disk.path} (inodes)"


def test_a_read_only_disk_is_a_failure(small_disk: Mount) -> None:
    small_disk.make_read_only()
    (found,) = check_storage(small_disk.path / "probe")
    assert (found.check, found.result) == (Check.RUN_ROOT, Result.FAIL)
    assert f"cannot write in the run directory: Read-only file system: {small_disk.path}" in found.reason


def test_a_warning_is_returned_and_stops_nothing(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, limits[1]))
    try:
        warnings = check_node(plan(), node_dir(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert [warning.reason for warning in warnings if warning.check is Check.NOFILE] == [
        "only 512 open files; connections and data loaders need more"
    ]


@pytest.mark.parametrize(
    ("limit", "rdma", "result"),
    [
        (resource.RLIM_INFINITY, True, Result.OK),
        (64 * 1024, False, Result.OK),
        (64 * 1024, True, Result.FAIL),
        (GIB, True, Result.WARN),
    ],
)
def test_locked_memory_matters_only_with_infiniband(limit: int, rdma: bool, result: Result) -> None:
    assert judge_memlock(limit, rdma).result is result


@pytest.mark.parametrize(
    ("limit", "many", "result"),
    [
        (resource.RLIM_INFINITY, True, Result.OK),
        (1024, False, Result.OK),
        (1024, True, Result.WARN),
        (4096, True, Result.OK),
        (100, False, Result.FAIL),
    ],
)
def test_open_files(limit: int, many: bool, result: Result) -> None:
    assert judge_nofile(limit, many).result is result


@pytest.mark.parametrize(
    ("free", "procs", "gpus", "result"),
    [
        (GIB, 8, True, Result.OK),
        (64 * 2**20, 8, True, Result.FAIL),  # the default of a container
        (64 * 2**20, 2, True, Result.WARN),
        (64 * 2**20, 2, False, Result.OK),
        (0, 2, False, Result.WARN),
    ],
)
def test_shared_memory(free: int, procs: int, gpus: bool, result: Result) -> None:
    assert judge_shm(free, procs, gpus).result is result
