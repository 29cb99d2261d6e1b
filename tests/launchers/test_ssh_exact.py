"""Whatever dies on real hosts, the run that comes back is the run that was never disturbed, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.launchers import exact
from tests.launchers.harness import Run, kill, submit
from tests.launchers.ssh_cluster import Cluster
from tests.services import require

Curve = list[tuple[int, str, str]]


@pytest.fixture
def project(tmp_path: Path, cluster: Cluster) -> Path:
    require("torch")
    (tmp_path / "exact.yaml").write_text(exact.JOB)
    return tmp_path


@pytest.fixture(scope="module")
def reference() -> dict[str, Curve]:
    """The curve of the undisturbed run, computed once."""
    return {}


@pytest.fixture
def undisturbed(project: Path, cluster: Cluster, reference: dict[str, Curve]) -> Curve:
    if not reference:
        run = launch(cluster, project)
        assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
        run.assert_nothing_left()
        cluster.assert_clean()
        reference["curve"] = run.curve()
    assert [step for step, _, _ in reference["curve"]] == list(range(1, exact.STEPS + 1))
    return reference["curve"]


def launch(cluster: Cluster, project: Path, *words: str) -> Run:
    return submit("./exact.yaml", "--profile", str(cluster.profile), *words, cwd=project)


@pytest.mark.parametrize("victim", [exact.rank, exact.torchrun, exact.agent])
def test_a_killed_part_comes_back_exactly(
    victim: Callable[[Run], list[int]], cluster: Cluster, project: Path, undisturbed: Curve
) -> None:
    run = launch(cluster, project)
    run.wait_step(9)
    kill(victim(run))
    status = run.wait_ended()
    assert status["state"] == "SUCCEEDED", run.describe()
    assert status["attempt"] == 2
    assert run.curve() == undisturbed
    run.assert_nothing_left()
    cluster.assert_clean()
