"""Bus bandwidth as nccl-tests defines it, and what links report."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.benchmarks.network.links import read_interface_rate
from fsdpctl.contract.benchmarks import Collective
from tests.services import require


@pytest.mark.slow  # imports torch
def test_bus_bandwidth_is_that_of_nccl_tests() -> None:
    """doc/PERFORMANCE.md of nccl-tests: 2(n-1)/n for all-reduce, (n-1)/n for the others."""
    require("torch")
    from fsdpctl.benchmarks.network.collectives import bus_bandwidth

    assert bus_bandwidth(Collective.ALL_REDUCE, 8_000_000_000, 1.0, 8) == pytest.approx(14e9)
    assert bus_bandwidth(Collective.ALL_GATHER, 8_000_000_000, 1.0, 8) == pytest.approx(7e9)
    assert bus_bandwidth(Collective.REDUCE_SCATTER, 8_000_000_000, 2.0, 8) == pytest.approx(3.5e9)


def test_a_real_interface_has_a_rate_and_a_virtual_one_none(tmp_path: Path) -> None:
    for name, real, speed in (("eth0", True, "25000\n"), ("veth", False, "10000\n"), ("down", True, "-1\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "speed").write_text(speed)
        if real:
            (tmp_path / name / "device").mkdir()
    rates = {name: read_interface_rate(name, tmp_path) for name in ("eth0", "veth", "down", "absent")}
    assert rates == {"eth0": 25e9, "veth": None, "down": None, "absent": None}
