"""What the supervisor reports about ranks for which the others wait: each news once, and no outdated place for good.

And when it is sure of a hang.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fsdpctl.contract.node_report import Activity, NodeReport, RankReport, write_report
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import HangLimits, PlannedNode
from fsdpctl.contract.rank_progress import RankProgress, Section
from fsdpctl.doctor.probe_requests import plan_nodes
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.load import load_profile
from fsdpctl.supervise.world_watch import WorldWatch


class Watched:
    """Two ranks of a script that reports nothing; rank 0 waits in a collective."""

    def __init__(self, root: Path) -> None:
        plan = plan_nodes(load_profile("ssh-h100"), SubmitHost("d", str(root), "/", "python3", ()))
        self.now, self._reports = 1000.0, 0
        self._attempt = RunPaths(root).attempt(1)
        nodes = tuple(PlannedNode(rank, f"host-{rank}") for rank in range(2))
        self._watch = WorldWatch(self._attempt, replace(plan, nodes=nodes, procs_per_node=1), lambda: self.now)

    def look(self, where: str, after_s: float, late: int = 1) -> str | None:
        """Return what is reported when the late rank is at a place."""
        self.now, self._reports = self.now + after_s, self._reports + 1
        for rank in range(2):
            report = RankReport(rank, sign_s=40.0, idle_s=0.0, activity=Activity.WORKING, where=where)
            if rank != late:
                report = replace(report, idle_s=40.0, activity=Activity.PEERS)
            paths = self._attempt.node(rank)
            paths.root.mkdir(parents=True, exist_ok=True)
            write_report(paths.heartbeat, NodeReport(self._reports, (report,)))
        self._watch.look()
        missing = self._watch.new_missing()
        return missing.text if missing is not None else None


def waits(rank: int, where: str) -> str:
    return f"the other ranks wait for rank {rank} on host-{rank}: in the script at {where}"


def test_a_rank_for_which_others_wait_is_reported_again_once_it_is_elsewhere(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    assert watched.look("fit.py:2 <module>", 1.0) == waits(1, "fit.py:2 <module>")
    assert watched.look("fit.py:2 <module>", 100.0) is None, "nothing is new"
    assert watched.look("fit.py:7 read", 1.0) == waits(1, "fit.py:7 read")
    assert watched.look("fit.py:9 sort", 59.0) is None, "the second place is reported a minute later at the earliest"
    assert watched.look("fit.py:9 sort", 1.0) == waits(1, "fit.py:9 sort")
    assert watched.look("fit.py:7 read", 119.0) is None, "the third two minutes later"
    assert watched.look("fit.py:7 read", 1.0, late=0) == waits(0, "fit.py:7 read"), "another rank at once"


class Late:
    """Two ranks of the trainer; rank 1 is late, which counts after 10 s here."""

    def __init__(self, root: Path, *, is_stopped: bool = True) -> None:
        plan = plan_nodes(load_profile("ssh-h100"), SubmitHost("d", str(root), "/", "python3", ()))
        self.now, self._number = 1000.0, 0
        self._attempt = RunPaths(root).attempt(1)
        nodes = tuple(PlannedNode(rank, f"host-{rank}") for rank in range(2))
        limits = HangLimits(step_s=20.0 if is_stopped else 10.0)  # half of it is enough for a stopped process
        self._late = ("T", Activity.UNKNOWN) if is_stopped else ("S", Activity.WORKING)
        plan = replace(plan, nodes=nodes, procs_per_node=1, hang=limits)
        self._watch = WorldWatch(self._attempt, plan, lambda: self.now)

    def look(self, *ages_s: float, step: int = 7, is_new: bool = True) -> bool:
        """Return whether it is a hang, after reports on ranks without progress for so long."""
        self.now, self._number = self.now + 1.0, self._number + is_new
        for rank, age_s in enumerate(ages_s):
            progress = RankProgress(Section.STEP, step, position=step, usual_s=0.1)
            state, activity = self._late if rank else ("S", Activity.PEERS)
            report = RankReport(rank, progress, sign_s=age_s, idle_s=age_s, state=state, activity=activity)
            paths = self._attempt.node(rank)
            paths.root.mkdir(parents=True, exist_ok=True)
            write_report(paths.heartbeat, NodeReport(self._number, (report,)))
        return self._watch.look() is not None


def test_a_stopped_process_is_a_hang_with_the_first_report_over_the_limit_after_one_close_to_it(tmp_path: Path) -> None:
    stopped = Late(tmp_path)
    assert not stopped.look(8.4, 8.4)
    assert not stopped.look(9.4, 9.4), "less than a report before the limit"
    assert not stopped.look(9.4, 9.4, is_new=False), "the same reports confirm nothing"
    assert stopped.look(10.4, 10.4)


def test_a_rank_that_may_still_make_progress_is_a_hang_with_the_second_report_over_the_limit(tmp_path: Path) -> None:
    asleep = Late(tmp_path, is_stopped=False)
    assert not asleep.look(9.4, 9.4)
    assert not asleep.look(10.4, 10.4), "it sleeps for 10.5 s"
    assert asleep.look(11.4, 11.4)


def test_one_report_over_the_limit_is_not_enough(tmp_path: Path) -> None:
    stopped = Late(tmp_path)
    assert not stopped.look(8.4, 8.4)
    assert not stopped.look(12.0, 12.0)
    assert stopped.look(13.0, 13.0)


def test_progress_after_a_report_close_to_the_limit_is_no_hang(tmp_path: Path) -> None:
    stopped = Late(tmp_path)
    assert not stopped.look(9.4, 9.4)
    assert not stopped.look(0.5, 0.5, step=8)
    assert not stopped.look(11.0, 11.0, step=8)
    assert stopped.look(12.0, 12.0, step=8)
