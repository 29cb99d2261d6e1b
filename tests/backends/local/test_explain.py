"""Real failures of several ranks, explained. `python -m tests.explain_matrix` has sixty; hangs, killed agents, lost
nodes, setup lines and time limits are explained in the tests of all launchers."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fsdpctl.explain.categories import Category, Role
from fsdpctl.explain.explanation import Explanation
from tests.backends.explain_cases import Case, finish, start
from tests.backends.harness import fsdpctl
from tests.services import require

AT_ONCE = 4

CASES = [
    Case("value", Category.EXCEPTION, "3"),
    Case("cause", Category.FILE_NOT_FOUND, "0", "start", nodes=1),
    Case("os_exit", Category.EXIT_CODE, "1", nodes=1),
    Case("segv", Category.SEGFAULT, "0", procs=1),
    Case("memory", Category.RAM_OOM, "1", "start", nodes=1),
    Case("module", Category.MISSING_MODULE, "all", "start", nodes=1),
    Case("full", Category.DISK_FULL, "1", "end", nodes=1),
    Case("nan", Category.NAN, "all", nodes=1),
    Case("sleep", Category.HANG, "1", timeout_s=3, nodes=1),
    Case("leave", Category.RUNTIME_ERROR, "0", procs=1),
]


@pytest.mark.timeout(400)
def test_the_rank_that_failed_is_found_and_no_victim_is_blamed(tmp_path: Path) -> None:
    require("torch")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(lambda case: finish(start(case, tmp_path)), CASES))
    assert [(result.case.name, result.wrong) for result in results if result.wrong] == []
    value, exit_code = results[0].found, results[2].found
    check_ranks(value)
    shown = fsdpctl("explain", value.run_id, cwd=tmp_path).stdout
    assert re.search(r"fails\.py:\d+ in fail_if: FAILURES\[kind\]\(\)", shown) and "agent/rank.py" not in shown
    ended = fsdpctl("status", exit_code.run_id, cwd=tmp_path).stdout
    assert (
        "why        exit_code (not known): The script ended the rank by itself, not by an exception: ended with"
        in ended
    )


def check_ranks(found: Explanation) -> None:
    """Rank 3 failed; of its peers some lost it, and those that were ended before they noticed have not failed."""
    roles = {rank.rank: rank.role for rank in found.ranks}
    assert roles.keys() == {0, 1, 2, 3} and roles[3] is Role.INITIATING
    assert {roles[rank] for rank in (0, 1, 2)} <= {Role.CASCADE, Role.TEARDOWN}
    first = found.ranks[0]
    assert (first.rank, first.node_rank, first.gpu, first.step, first.exit_code) == (3, 1, None, 1, 1)
    assert {rank.category for rank in found.ranks if rank.role is Role.CASCADE} <= {Category.GLOO}
