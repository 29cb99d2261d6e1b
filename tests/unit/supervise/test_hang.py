"""The judgement of supervise/hang.py and node/agent/overdue.py, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsdpctl.contract.node_report import Activity, RankReport
from fsdpctl.contract.plan import HangLimits
from fsdpctl.contract.rank_progress import RankProgress, Section
from fsdpctl.node.agent.overdue import is_worth_a_look
from fsdpctl.supervise.hang import PlacedRank, find_hang, find_missing

LIMITS, PEER_TIMEOUT_S = HangLimits(), 15.0
PEERS, WORKING, COMPILING = Activity.PEERS, Activity.WORKING, Activity.COMPILING
SCRIPT = RankReport(0, None, 5.0, 5.0)


def rank(
    number: int = 0,
    section: Section = Section.STEP,
    position: int = 20,
    sign_s: float = 12.0,
    usual_s: float | None = None,
    **more: object,
) -> RankReport:
    """A rank in a run of short steps; it waits in a collective for 12 s."""
    if usual_s is None:
        usual_s = 0.05 if section in (Section.STEP, Section.EVALUATE, Section.DATA) else 0.0
    given = {"idle_s": sign_s, "activity": PEERS, "state": "S", "where": "train/x.py:7 f", **more}
    return replace(RankReport(number, RankProgress(section, 7, position, usual_s=usual_s), sign_s), **given)  # type: ignore[arg-type]


def judge(*reports: RankReport, limits: HangLimits = LIMITS) -> str | None:
    placed = [PlacedRank(number, f"host-{number}", replace(one, rank=number)) for number, one in enumerate(reports)]
    hang = find_hang(placed, limits, PEER_TIMEOUT_S)
    return hang.reason if hang is not None else None


WAITS = rank(position=21)
"""A rank ahead of the other, in the next step's first collective."""

NO_HANG = {
    "nothing is late": (rank(sign_s=9.0), rank(sign_s=9.5)),
    "a peer reads data for less than its own limit": (
        WAITS,
        rank(section=Section.DATA, sign_s=400.0, activity=WORKING),
    ),
    "a peer compiles": (rank(sign_s=900.0), rank(sign_s=900.0, activity=COMPILING)),
    "a peer works before its first step": (
        rank(sign_s=900.0),
        rank(section=Section.START, position=3, sign_s=900.0, idle_s=1.0, activity=WORKING),
    ),
    "a peer saves": (WAITS, rank(section=Section.SAVE, sign_s=300.0, idle_s=0.0, activity=WORKING)),
    "a peer waits for a file server for less than its limit": (
        WAITS,
        rank(section=Section.SAVE, sign_s=50.0, activity=WORKING, state="D"),
    ),
    "stopped for less than half of the limit": (rank(position=21, sign_s=4.9), rank(sign_s=4.9, state="T")),
    "a debugger is attached": (WAITS, rank(sign_s=500.0, state="t", activity=WORKING)),
    "a rank has not started yet": (rank(sign_s=300.0), RankReport(1, sign_s=300.0, is_up=False)),
    "a network that came back is used again only later": (rank(sign_s=29.0), rank(sign_s=29.0)),
    "the first step makes communicators and kernels": (
        rank(sign_s=110.0, usual_s=0.0),
        rank(sign_s=110.0, usual_s=0.0),
    ),
    "a resumed model makes them while its checkpoint is read": (
        rank(section=Section.START, position=3, sign_s=110.0),
        rank(section=Section.START, position=3, sign_s=110.0),
    ),
    "all have ended": (RankReport(0, ended_s=500.0), RankReport(1, ended_s=1.0)),
    "a script computes without output": (replace(SCRIPT, sign_s=9000.0), replace(SCRIPT, sign_s=9000.0, idle_s=0.0)),
    "a script waits in a collective for a peer that computes": (
        replace(SCRIPT, sign_s=900.0, idle_s=900.0, activity=PEERS),
        replace(SCRIPT, sign_s=900.0, idle_s=1.0, activity=WORKING),
    ),
    "a rank of a script computes after the others have ended": (
        replace(SCRIPT, ended_s=900.0),
        replace(SCRIPT, sign_s=900.0, idle_s=0.0, activity=WORKING),
    ),
}

HANGS = {
    "all in a collective of the start": (
        (rank(section=Section.START, position=3, sign_s=121.0), rank(section=Section.START, position=3, sign_s=121.0)),
        "all ranks wait for each other: no progress for 121 s in start",
    ),
    "all in a collective of the first step": (
        (rank(sign_s=121.0, usual_s=0.0), rank(sign_s=121.0, usual_s=0.0)),
        "all ranks wait for each other: no progress for 121 s in step",
    ),
    "stopped": ((WAITS, rank(state="T", activity=Activity.UNKNOWN)), "rank 1 hangs: its process is stopped"),
    "stopped for half of the limit": (
        (rank(position=21, sign_s=5.1), rank(sign_s=5.1, state="T")),
        "rank 1 hangs: its process is stopped, no progress for 5 s",
    ),
    "stopped, and its peers are in the same step": ((rank(), rank(state="T")), "rank 1 hangs: its process is stopped"),
    "asleep": ((rank(), rank(activity=WORKING)), "rank 1 hangs: its peers wait for it at train/x.py:7 f"),
    "computes forever in a step": ((rank(), rank(activity=WORKING, idle_s=0.0)), "rank 1 hangs: its peers wait"),
    "behind its peers": ((rank(activity=WORKING), WAITS), "rank 0 hangs: its peers wait for it"),
    "does not enter a collective": (
        (rank(sign_s=31.0), WAITS),
        "rank 0 hangs: it waits for ranks that are ahead of it",
    ),
    "all in a collective": (
        (rank(sign_s=31.0), rank(sign_s=31.0)),
        "all ranks wait for each other: no progress for 31 s in step",
    ),
    "data for too long": (
        (WAITS, rank(section=Section.DATA, sign_s=700.0, activity=WORKING)),
        "rank 1 hangs: it waits for data at train/x.py:7 f, no progress for 700 s in data after step 7",
    ),
    "a disk": (
        (WAITS, rank(section=Section.SAVE, sign_s=70.0, activity=WORKING, state="D", wait_channel="nfs_wait")),
        "rank 1 hangs: it waits for a disk or a file server (kernel function nfs_wait)",
    ),
    "asleep in a save": ((rank(section=Section.SAVE), rank(section=Section.SAVE, activity=WORKING)), "rank 1 hangs"),
    "asleep at the start": (
        (rank(section=Section.START, position=4), rank(section=Section.START, position=3, activity=WORKING)),
        "rank 1 hangs: its peers wait for it at train/x.py:7 f, no progress for 12 s in start after step 7",
    ),
    "asleep after its peers have ended": (
        (RankReport(0, ended_s=11.0), rank(section=Section.END, activity=WORKING)),
        "rank 1 hangs: its peers wait for it",
    ),
    "computes forever at the start": (
        (rank(section=Section.START), rank(section=Section.START, sign_s=1801.0, idle_s=0.0, activity=WORKING)),
        "rank 1 hangs",
    ),
    "a script that is stopped": (
        (replace(SCRIPT, idle_s=0.0), replace(SCRIPT, sign_s=11.0, idle_s=11.0, state="T")),
        "rank 1 hangs: its process is stopped, no progress for 11 s in the script",
    ),
    "a script that does nothing on any rank": (
        (replace(SCRIPT, sign_s=601.0, idle_s=601.0), replace(SCRIPT, sign_s=900.0, idle_s=601.0)),
        "all ranks wait for each other: no progress for 601 s in the script",
    ),
    "a script whose steps are known from outside is stopped": (
        (replace(SCRIPT, sign_s=11.0, idle_s=11.0, state="T", script_step=7),),
        "rank 0 hangs: its process is stopped, no progress for 11 s in the script after step 7",
    ),
    "a rank of a script that stays": (
        (replace(SCRIPT, ended_s=301.0), replace(SCRIPT, sign_s=9000.0, idle_s=301.0, activity=WORKING)),
        "rank 1 hangs: it stays, 301 s after other ranks have ended",
    ),
}


@pytest.mark.parametrize("row", NO_HANG)
def test_no_hang(row: str) -> None:
    assert judge(*NO_HANG[row]) is None


@pytest.mark.parametrize("row", HANGS)
def test_hang(row: str) -> None:
    reports, reason = HANGS[row]
    found = judge(*reports)
    assert found is not None and found.startswith((reason, f"node {found[5]}: {reason}")), found


def test_the_limit_of_a_step_is_at_least_three_slow_steps() -> None:
    slow = RankProgress(Section.STEP, 7, 20, usual_s=30.0)
    assert judge(rank(progress=slow, sign_s=89.0), rank(progress=slow, sign_s=89.0)) is None
    assert judge(rank(progress=slow, sign_s=91.0), rank(progress=slow, sign_s=91.0)) is not None
    assert not is_worth_a_look(rank(progress=slow, sign_s=30.0), LIMITS)
    assert is_worth_a_look(rank(progress=slow, sign_s=80.0), LIMITS)


def test_a_script_is_watched_closely_once_its_job_asks_for_it() -> None:
    waits, sleeps = replace(SCRIPT, sign_s=40.0, idle_s=40.0, activity=PEERS), replace(SCRIPT, sign_s=40.0, idle_s=40.0)
    asleep = replace(sleeps, activity=WORKING, where="train.py:9 load")
    assert judge(waits, asleep) is None
    found = judge(waits, asleep, limits=HangLimits(step_s=30.0, script_s=30.0))
    assert found == (
        "node 1: rank 1 hangs: its peers wait for it at train.py:9 load, no progress for 40 s in the script;"
        " it runs on host-1"
    )


def test_a_hang_has_its_reason_without_rank_and_node_too() -> None:
    stopped = PlacedRank(1, "host-1", rank(state="T", activity=Activity.UNKNOWN))
    found = find_hang([PlacedRank(0, "host-0", WAITS), stopped], LIMITS, PEER_TIMEOUT_S)
    assert found is not None and found.what.startswith("hangs: its process is stopped") and found.what in found.reason


def test_a_script_that_reports_its_steps_may_save_between_two_of_them() -> None:
    saves = rank(progress=RankProgress(Section.SCRIPT, 9, 9, usual_s=0.5), activity=WORKING, idle_s=0.0, sign_s=200.0)
    waits = rank(progress=RankProgress(Section.SCRIPT, 9, 9, usual_s=0.5), sign_s=200.0)
    assert judge(saves, waits) is None
    assert "rank 0 hangs" in str(judge(replace(saves, idle_s=61.0), waits))


def missing(*reports: RankReport) -> str | None:
    placed = [PlacedRank(number, f"host-{number}", replace(one, rank=number)) for number, one in enumerate(reports)]
    found = find_missing(placed)
    return found.text if found is not None else None


def test_the_rank_that_the_others_wait_for_at_the_start_is_named() -> None:
    waits = rank(section=Section.START, position=3, sign_s=31.0)
    imports = replace(waits, progress=RankProgress(Section.START, 0, 1, phase="imports"))
    assert missing(waits, imports) == "the other ranks wait for rank 1 on host-1: in start (imports) after step 0"
    assert missing(waits, RankReport(1, sign_s=31.0, is_up=False)) == (
        "the other ranks wait for rank 1 on host-1: has not started"
    )
    assert missing(waits, waits) is None
    assert missing(WAITS, rank(sign_s=31.0)) is None  # no start


def test_where_each_rank_of_a_script_waits_is_reported() -> None:
    waits = RankReport(0, None, 31.0, 31.0, activity=PEERS, where="rendezvous.py:5 connect")
    assert missing(waits, waits) == (
        "no rank makes progress: rank 0 on host-0, rank 1 on host-1 in rendezvous.py:5 connect"
    )
    assert missing(waits, replace(waits, sign_s=1.0)) is None
    assert missing(waits, replace(waits, ended_s=40.0)) is None


def test_the_rank_of_a_script_that_the_others_wait_for_is_named() -> None:
    waits = RankReport(0, None, 31.0, 31.0, activity=PEERS)
    works = RankReport(0, None, 25.0, 0.0, activity=WORKING, where="mine.py:5 load")
    named = "the other ranks wait for rank 1 on host-1: in the script at mine.py:5 load"
    assert missing(waits, works) == named
    assert missing(waits, replace(works, sign_s=50.0, idle_s=50.0), waits) == named
    assert missing(waits, works, works) == named.replace("host-1", "host-1 and 1 more")
    assert missing(waits, replace(works, activity=Activity.UNKNOWN)) is None  # it may wait, too
