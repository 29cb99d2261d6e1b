"""A sweep that is stopped while its runs are started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from fsdpctl.contract import State
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import BusyError, RefusedError
from fsdpctl.sweeps import run as sweeps_run
from fsdpctl.sweeps.record import SweepPaths, SweepRecord, SweptRun, find_record, write_record
from fsdpctl.sweeps.run import refresh_stored, run_sweep

RECORD = SweepRecord(
    "lr", "job", "ours", "0", "/runs", tuple(SweptRun(name, name, {"lr": name}) for name in ("a", "b", "c", "d"))
)


class Cluster:
    """Takes runs, and is asked to stop the sweep while it takes one of them."""

    def __init__(self, paths: SweepPaths, stop_during: str) -> None:
        self.paths, self.stop_during = paths, stop_during
        self.started: list[str] = []
        self.stopped: list[str] = []

    def start(self, *run_ids: str) -> str:
        self.started += run_ids
        if self.stop_during in run_ids:
            self.paths.stop.touch()
        return "47"

    def stop_all(self, runs: Iterable[RunPaths]) -> None:
        self.stopped += [run.root.name for run in runs]

    def refresh(self, record: SweepRecord) -> SweepRecord:
        return replace(record, runs=tuple(replace(run, state=self._state(run.run_id)) for run in record.runs))

    def _state(self, run_id: str) -> State | None:
        if run_id in self.stopped:
            return State.STOPPED
        return State.SUCCEEDED if run_id in self.started else None


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster(SweepPaths(tmp_path), stop_during="b")
    monkeypatch.setattr(sweeps_run, "POLL_S", 0.0)
    monkeypatch.setattr(sweeps_run, "refresh", found.refresh)
    monkeypatch.setattr(sweeps_run, "stop_all", found.stop_all)
    monkeypatch.setattr(sweeps_run, "submit", lambda request: found.start(request.run_id))
    monkeypatch.setattr(sweeps_run, "find_obstacle", lambda *_: "")
    return found


def run_to_end(cluster: Cluster) -> list[State | None]:
    requests = {run.run_id: SimpleNamespace(run_id=run.run_id) for run in RECORD.runs}
    *_, last = run_sweep(cluster.paths, RECORD, requests, None, lambda line: None)  # type: ignore[arg-type]
    return [run.state for run in last.runs]


def test_no_run_starts_after_the_stop_and_the_one_that_was_just_starting_is_stopped(cluster: Cluster) -> None:
    assert run_to_end(cluster) == [State.SUCCEEDED, State.STOPPED, None, None]
    assert (cluster.started, cluster.stopped) == (["a", "b"], ["b"])


def test_a_job_array_that_was_just_being_submitted_is_stopped(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start_together(record: SweepRecord, runs: list[SweptRun], *_: object) -> str:
        return cluster.start(*(run.run_id for run in runs))

    monkeypatch.setattr(sweeps_run, "find_obstacle", lambda *_: None)
    monkeypatch.setattr(sweeps_run, "start_together", start_together)
    assert run_to_end(cluster) == [State.STOPPED] * 4
    assert cluster.stopped == cluster.started == ["a", "b", "c", "d"]


def test_a_run_that_is_refused_is_named_with_how_the_sweep_continues(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit(request: SimpleNamespace) -> None:
        if request.run_id == "b":
            raise RefusedError("this machine is held by dev", hint="fsdpctl release dev")
        cluster.start(request.run_id)

    monkeypatch.setattr(sweeps_run, "submit", submit)
    with pytest.raises(RefusedError, match=r"^b is not started: this machine is held by dev$") as refused:
        run_to_end(cluster)
    assert refused.value.hint == "fsdpctl release dev; then the same command continues the sweep"
    assert cluster.started == ["a"]


def test_what_has_ended_without_a_command_is_stored_by_the_next_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gc` may remove the runs after it."""
    cluster.start("a", "c")
    write_record(cluster.paths, RECORD)
    ended = cluster.refresh(RECORD)

    def busy(paths: SweepPaths) -> None:
        raise BusyError("another command is at work on the sweep")

    @contextmanager
    def stored_by_another(paths: SweepPaths) -> Iterator[None]:
        write_record(paths, newer)
        yield

    newer = replace(RECORD, fingerprint="newer")
    for lock, stored in ((busy, RECORD), (stored_by_another, newer)):
        with monkeypatch.context() as other:
            other.setattr(sweeps_run, "sweep_locked", lock)
            assert refresh_stored(cluster.paths, RECORD) == ended and find_record(cluster.paths) == stored
    write_record(cluster.paths, RECORD)
    assert refresh_stored(cluster.paths, RECORD) == ended == find_record(cluster.paths)


def test_what_has_ended_before_a_sweep_continues_is_stored(cluster: Cluster) -> None:
    cluster.start("a", "c", "d")
    cluster.start("b")  # stops the sweep: nothing changes any more
    *_, last = run_sweep(cluster.paths, RECORD, {}, None, lambda line: None)
    assert {run.state for run in last.runs} == {State.SUCCEEDED} and find_record(cluster.paths) == last
