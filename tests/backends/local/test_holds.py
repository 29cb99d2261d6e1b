"""Holds of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.contract.codec import read_json
from fsdpctl.contract.paths import HoldPaths
from fsdpctl.contract.records import ForkServerRecord, ProcessIdentity
from fsdpctl.node.os.processes import is_alive
from tests.backends.harness import fsdpctl, wait_for
from tests.backends.holds import check_hold, write_job
from tests.services import require


@pytest.mark.timeout(300)
def test_a_hold_keeps_this_machine_between_runs_and_its_fork_servers(tmp_path: Path) -> None:
    require("torch")
    servers: list[ProcessIdentity] = []

    def remember(hold: HoldPaths) -> None:
        servers.extend(read_json(ForkServerRecord, hold.fork_server(rank)).process for rank in (0, 1))
        assert all(map(is_alive, servers))

    check_hold(tmp_path, "local", held=2, nodes=2, look=remember)
    wait_for(lambda: not any(map(is_alive, servers)), 30, "the fork servers to end without their records")


def test_other_runs_and_holds_are_refused_until_it_ends_by_itself(tmp_path: Path) -> None:
    write_job(tmp_path, "other", 1)
    fsdpctl("hold", "-p", "local", "--name", "mine", "--idle", "1h", "--time", "5s", cwd=tmp_path)
    for words in (["submit", "./job.yaml"], ["hold", "-p", "local"]):
        refused = fsdpctl(*words, cwd=tmp_path, expect=4)
        assert "this machine is held by mine" in refused.stderr
    wait_for(lambda: fsdpctl("holds", cwd=tmp_path).stderr == "no nodes are held\n", 60, "the end of the hold")
    fsdpctl("submit", "./job.yaml", "--dry-run", cwd=tmp_path)
