"""InfiniBand checks on a tree like the kernel's; the interface check on this machine's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.contract.findings import Finding, Result
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.node.checks.network import check_infiniband, check_interface, has_infiniband, read_ports, select
from fsdpctl.specs.load import load_profile, parse_job

SITE = SubmitHost("r", "/runs/r", "/", "python3", ())
RATE = "400 Gb/sec (4X NDR)"


def plan(nodes: int = 2) -> LaunchPlan:
    job = parse_job(f"name: j\nnodes: {nodes}\nentrypoint: {{script: x.py}}\n", "j")
    return build_plan(load_profile("ssh-h100"), job, SITE)


def add(sysfs: Path, hca: str, state: str = "4: ACTIVE", rate: str = RATE, gids: tuple[str, ...] = ()) -> None:
    port = sysfs / hca / "ports" / "1"
    (port / "gids").mkdir(parents=True)
    (port / "state").write_text(f"{state}\n")
    (port / "rate").write_text(f"{rate}\n")
    for index, gid in enumerate(gids):
        (port / "gids" / str(index)).write_text(f"{gid}\n")


def look(sysfs: Path, wanted: str = "", gid: str | None = None, nodes: int = 2) -> list[Finding]:
    env = {"NCCL_IB_HCA": wanted} if wanted else {}
    return check_infiniband(plan(nodes), env | ({"NCCL_IB_GID_INDEX": gid} if gid else {}), sysfs)


def test_active_ports_are_ok(tmp_path: Path) -> None:
    add(tmp_path, "mlx5_0")
    add(tmp_path, "mlx5_1")
    (found,) = look(tmp_path, "mlx5_0,mlx5_1")
    assert (found.result, found.reason) == (Result.OK, f"2 active at {RATE}")
    assert has_infiniband(tmp_path)


def test_there_is_no_finding_without_adapters_or_other_nodes(tmp_path: Path) -> None:
    assert look(tmp_path) == []
    add(tmp_path, "mlx5_0", state="1: DOWN")
    assert look(tmp_path, "mlx5_0", nodes=1) == []
    assert not has_infiniband(tmp_path)


@pytest.mark.parametrize(
    ("wanted", "gid", "result", "reason"),
    [
        ("mlx5_0,mlx5_7", None, Result.FAIL, "no such adapter here: mlx5_7"),
        ("mlx5_0,mlx5_1", None, Result.FAIL, "mlx5_1:1 is DOWN"),
        ("", None, Result.WARN, "mlx5_1:1 is DOWN"),
        ("^mlx5_1", None, Result.WARN, "mlx5_0:1 400 Gb/sec (4X NDR), mlx5_2:1 100 Gb/sec (4X EDR)"),
        ("=mlx5_0:1", "0", Result.OK, "1 active"),
        ("=mlx5_0:1", "1", Result.FAIL, "GID 1 is empty on mlx5_0:1"),
        ("=mlx5_0:1", "9", Result.FAIL, "GID 9 is empty on mlx5_0:1"),
        ("mlx5_0:2", None, Result.FAIL, "no such adapter here: mlx5_0:2"),
    ],
)
def test_the_failing_port_is_named(tmp_path: Path, wanted: str, gid: str | None, result: Result, reason: str) -> None:
    zero = ":".join(["0000"] * 8)
    add(tmp_path, "mlx5_0", gids=("fe80:0000:0000:0000:0c42:a103:0012:3456", zero))
    add(tmp_path, "mlx5_1", state="1: DOWN")
    add(tmp_path, "mlx5_2", rate="100 Gb/sec (4X EDR)")
    (found,) = look(tmp_path, wanted, gid)
    assert found.result is result
    assert reason in found.reason


def test_adapters_are_selected_as_nccl_does(tmp_path: Path) -> None:
    for hca in ("mlx5_1", "mlx5_10", "mlx4_0"):
        add(tmp_path, hca)
    ports = read_ports(tmp_path)
    assert [port.hca for port in select(ports, "mlx5_1")["mlx5_1"]] == ["mlx5_1", "mlx5_10"]
    assert [port.hca for port in select(ports, "=mlx5_1")["mlx5_1"]] == ["mlx5_1"]
    assert sorted(select(ports, "^mlx5")) == ["mlx4_0:1"]


def test_a_missing_interface_is_named() -> None:
    assert check_interface("lo").result is Result.OK
    found = check_interface("ib77")
    assert found.result is Result.FAIL
    assert "interface 'ib77' does not exist here or has no IPv4 address; found: lo" in found.reason
