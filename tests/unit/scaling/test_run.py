"""A point whose run cannot be observed: it is ended, or nothing else is measured."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from fsdpctl.cli import bench_scaling
from fsdpctl.contract import State
from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import FsdpctlError, LaunchError
from fsdpctl.scaling import run as scaling_run
from fsdpctl.scaling.points import Measurement
from fsdpctl.scaling.prepare import PlannedPoint, prepare_points
from fsdpctl.scaling.run import reuse_point, run_point
from fsdpctl.specs.load import load_job, parse_profile

HOW = Measurement(20, False, 1200)
UNREADABLE = [OSError(5, "Input/output error"), CodecError("state: unknown"), LaunchError("Slurm does not answer")]


@pytest.fixture
def planned(tmp_path: Path) -> PlannedPoint:
    profile = parse_profile(f"name: ours\nbackend: {{kind: local}}\nruns_root: {tmp_path}/runs\n", "ours.yaml")
    return prepare_points(profile, load_job("llm-tiny"), [1], [], HOW)[0]


class Runs:
    """Starts a run that cannot be observed, and ends it unless `refusal` is raised."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, problem: BaseException) -> None:
        self.problem = problem
        self.refusal: Exception | None = None
        self.cancelled: list[str] = []
        for name in ("submit", "watch", "cancel"):
            monkeypatch.setattr(scaling_run, name, getattr(self, name))

    def submit(self, request: SimpleNamespace) -> None:
        Path(request.plan.run_dir).mkdir(parents=True)

    def watch(self, run: RunPaths) -> None:
        raise self.problem

    def cancel(self, run: RunPaths) -> bool:
        if self.refusal is not None:
            raise self.refusal
        self.cancelled.append(run.root.name)
        return True


@pytest.mark.parametrize("problem", UNREADABLE)
def test_a_run_that_cannot_be_observed_is_ended_and_named(
    planned: PlannedPoint, problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs(monkeypatch, problem)
    found = run_point(planned, HOW, lambda status: None)
    assert runs.cancelled == [found.run_id] == [planned.request.plan.run_id]
    assert (found.state, found.problem, found.measured) == (State.CANCELLED, str(problem), None)


def test_a_run_that_was_refused_has_no_id(planned: PlannedPoint, monkeypatch: pytest.MonkeyPatch) -> None:
    def submit(request: object) -> None:
        raise LaunchError("no")

    runs = Runs(monkeypatch, OSError())
    monkeypatch.setattr(scaling_run, "submit", submit)
    found = run_point(planned, HOW, lambda status: None)
    assert (found.run_id, found.problem, runs.cancelled) == (None, "no", [])


@pytest.mark.parametrize("problem", [*UNREADABLE, KeyboardInterrupt()])
def test_nothing_is_measured_beside_a_run_that_cannot_be_ended(
    planned: PlannedPoint,
    problem: BaseException,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = Runs(monkeypatch, problem)
    runs.refusal = FsdpctlError("still alive after KILL: 47")
    results, is_interrupted = bench_scaling._measure([planned, planned], HOW, reuse=False)
    name = planned.request.plan.run_id
    printed = capsys.readouterr().err
    assert (results, is_interrupted) == ([], False)
    assert f"nothing else is measured: run {name} may still be alive: still alive after KILL: 47" in printed
    assert f"hint: fsdpctl cancel {name}" in printed


@pytest.mark.parametrize("problem", UNREADABLE)
def test_a_run_that_cannot_be_read_is_measured_again(
    planned: PlannedPoint, problem: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_status(run: RunPaths) -> None:
        raise problem

    monkeypatch.setattr(scaling_run, "find_finished", lambda request: RunPaths(tmp_path))
    monkeypatch.setattr(scaling_run, "read_status", read_status)
    assert reuse_point(planned, HOW) is None
