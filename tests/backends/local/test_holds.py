"""Holds of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.harness import command_line, fsdpctl, wait_for
from tests.backends.holds import check_hold, write_job
from tests.services import require


@pytest.mark.timeout(300)
def test_a_hold_keeps_this_machine_between_runs_and_its_fork_servers(tmp_path: Path) -> None:
    require("torch")
    hold = check_hold(tmp_path, "local", held=2, nodes=2)
    wait_for(lambda: not fork_servers(hold.root), 30, "the fork servers to end without their records")


def test_other_runs_and_holds_are_refused_until_it_ends_by_itself(tmp_path: Path) -> None:
    write_job(tmp_path, "other", 1)
    fsdpctl("hold", "-p", "local", "--name", "mine", "--idle", "1h", "--time", "5s", cwd=tmp_path)
    for words in (["submit", "./job.yaml"], ["hold", "-p", "local"]):
        refused = fsdpctl(*words, cwd=tmp_path, expect=4)
        assert "this machine is held by mine" in refused.stderr
    wait_for(lambda: fsdpctl("holds", cwd=tmp_path).stderr == "no nodes are held\n", 60, "the end of the hold")
    fsdpctl("submit", "./job.yaml", "--dry-run", cwd=tmp_path)


def fork_servers(root: Path) -> list[str]:
    lines = [command_line(int(path.name)) for path in Path("/proc").glob("[0-9]*")]
    return [line for line in lines if "fsdpctl.node.warm" in line and str(root) in line]
