"""The screen of `fsdpctl explain RUN`: in a pipe, on narrow terminals, as JSON."""

from __future__ import annotations

import json

import pytest

from fsdpctl.contract import Cause, RankFailure, State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.records import NodeEnd, ProcessIdentity, RankError
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.runs.store import create
from fsdpctl.runs.verdict import Verdict
from tests.backends.harness import fsdpctl
from tests.unit.cli.test_output import on_terminal

TRACE = """\
Traceback (most recent call last):
  File "{source}/fit.py", line 9, in main
    total / count
ZeroDivisionError: \x1b[31mdivision by zero
"""
SCREEN = "import sys; sys.argv = ['fsdpctl', 'explain']; from fsdpctl.__main__ import main; main()"


@pytest.fixture(autouse=True)
def run() -> None:
    """A run whose second attempt ended by an exception of rank 2; ranks 0 and 1 lost it, and rank 3 was ended."""
    run = create(default_runs_root(), RunRecord.new("mine-aaaa", "mine", "local", "local", 1.0, 1), lambda run: None)
    run.attempt(1).root.mkdir(parents=True)
    write_json(run.attempt(1).verdict, Verdict(State.FAILED, "signal 9", restart=True, cause=Cause.SIGNAL, step=7))
    attempt = run.attempt(2)
    for number, ranks in enumerate(((0, 1), (2, 3))):
        node = attempt.node(number)
        node.root.mkdir(parents=True)
        write_json(node.agent, ProcessIdentity(f"gpu-{number}", 1, 1, "boot", 1.0))
        for rank in ranks:
            node.rank_log(rank).touch()
            failure = RankFailure.LOST_PEER if number == 0 else RankFailure.EXCEPTION
            text = "RuntimeError: Connection closed by peer" if number == 0 else "ZeroDivisionError: \x1b[31mdivision"
            kinds = ("RuntimeError",) if number == 0 else ("ZeroDivisionError", "ArithmeticError")
            error = RankError(rank, number, 9.0 - number, text, TRACE.format(source=run.source), kinds=kinds)
            if rank != 3:
                write_json(node.rank_error(rank), RankError(**{**vars(error), "failure": failure}))
        write_json(node.end, NodeEnd(1, "x", ranks[0], 9.0, Cause.EXIT_CODE, exits={str(ranks[0]): 1}))
    write_json(attempt.verdict, Verdict(State.FAILED, "rank 2", cause=Cause.EXIT_CODE, step=9))


def test_a_pipe_has_one_line_for_each_fact() -> None:
    lines = fsdpctl("explain", cwd=default_runs_root().parent).stdout.splitlines()
    assert lines[:6] == [
        "run        mine-aaaa FAILED, attempt 2",
        "ended by   rank 2 on gpu-1 (node 1): ZeroDivisionError: \\x1b[31mdivision",
        "           at fit.py:9 in main: total / count",
        "followed   ranks 0,1 (gloo)",
        "torn down  rank 3",
        "diagnosis  division_by_zero (certain, workload): The script divided by zero; often the number of samples,"
        " steps or ranks is 0.",
    ]
    assert "attempts   1 FAILED (signal) at step 7: signal 9" in lines
    assert lines[-1] == "logs       fsdpctl logs mine-aaaa --errors"


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 40])
def test_a_terminal_has_one_screen_of_whole_words(columns: int) -> None:
    lines = on_terminal(columns, SCREEN)
    assert len(lines) <= (24 if columns == 80 else 48)
    assert all(len(line) <= columns for line in lines)
    words = " ".join(line.strip() for line in lines).split()
    assert {"ZeroDivisionError:", "division_by_zero", "fit.py:9", "mine-aaaa"} <= set(words)


def test_json_has_every_rank_with_its_role() -> None:
    found = json.loads(fsdpctl("explain", "--json", cwd=default_runs_root().parent).stdout)
    shown = [(rank["rank"], rank["host"], rank["category"], rank["role"]) for rank in found["ranks"]]
    assert shown == [
        (2, "gpu-1", "division_by_zero", "initiating"),
        (0, "gpu-0", "gloo", "cascade"),
        (1, "gpu-0", "gloo", "cascade"),
        (3, "gpu-1", "cancelled", "teardown"),
    ]
    first, diagnosis = found["ranks"][0], found["diagnosis"]
    assert (first["domain"], first["retry"], first["frames"]) == (
        "workload",
        False,
        ["fit.py:9 in main: total / count"],
    )
    assert (diagnosis["category"], diagnosis["confidence"], diagnosis["retry"]) == (
        "division_by_zero",
        "certain",
        False,
    )
    assert [past["cause"] for past in found["history"]] == ["signal", "exit_code"]


def test_status_has_the_diagnosis_and_the_smallest_change() -> None:
    shown = fsdpctl("status", cwd=default_runs_root().parent).stdout
    assert "\nwhy        division_by_zero (certain): The script divided by zero" in shown and "\nchange     " in shown
