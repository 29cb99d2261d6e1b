"""Whatever fails on real hosts, the resumed run equals an undisturbed run bit for bit."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fsdpctl.contract import Env
from fsdpctl.contract.codec import read_json
from fsdpctl.contract.plan import DroppedHost
from fsdpctl.node.warm.server import LINGER_S
from fsdpctl.runs.events import newest_events
from tests.backends import exact
from tests.backends.exact import Curve
from tests.backends.harness import Run, fsdpctl, kill, kill_supervisor, submit, wait_for
from tests.backends.recovery import measure_recovery
from tests.backends.slow import STEP, Brake
from tests.backends.ssh.cluster import Cluster
from tests.services import require


@pytest.fixture
def project(tmp_path: Path, cluster: Cluster) -> Path:
    require("torch")
    (tmp_path / "exact.yaml").write_text(exact.JOB)
    return tmp_path


@pytest.fixture
def undisturbed(project: Path, cluster: Cluster, reference: exact.Reference) -> Curve:
    curve = reference.curve(lambda: launch(cluster, project))
    cluster.assert_clean()
    return curve


@pytest.fixture(autouse=True)
def brake(undisturbed: Curve, project: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Brake:
    brake = Brake(project / "slow", monkeypatch)
    brake.set((*STEP, 0.2))
    cluster.keys = f"setup: [export {Env.USER_PYTHONPATH}={project}/slow]\n"
    cluster.write_profile()
    return brake


def launch(cluster: Cluster, project: Path, *words: str) -> Run:
    return submit("./exact.yaml", "--profile", str(cluster.profile), *words, cwd=project)


@pytest.mark.timeout(600)
def test_loss_curve_is_identical_after_two_new_supervisors_and_killed_parts(
    cluster: Cluster, project: Path, undisturbed: Curve, brake: Brake
) -> None:
    """A rank is killed while there is no supervisor, and one part after the other when agents have been taken over."""
    victims = [exact.rank, exact.torchrun, exact.agent]
    brake.set((*STEP, 0.6), attempts=len(victims) + 1)
    run = launch(cluster, project, "--set", f"restarts={len(victims) + 1}")
    run.wait_step(9)
    kill_supervisor(run)
    kill(exact.rank(run))
    run.assert_nothing_left(LINGER_S + 10)  # the fork servers wait for another attempt
    supervise(run)
    run.wait_attempt_steps(2, 2)
    kill_supervisor(run)
    supervise(run)
    assert len(run.paths.attempts()) == 2, "the living agents were taken over"
    strikes = exact.strike_in_turn(run, victims, first=2)
    status = run.wait_ended()
    assert (status["state"], status["attempt"]) == ("SUCCEEDED", len(victims) + 2), run.describe()
    assert run.curve() == undisturbed
    for attempt, (victim, strike) in enumerate(zip(victims, strikes, strict=True), start=2):
        print(f"{victim.__name__} killed: {measure_recovery(run, strike.time, attempt)}")
    run.assert_nothing_left()
    cluster.assert_clean()


def test_loss_curve_is_identical_after_waiting_for_a_dead_host(
    cluster: Cluster, project: Path, undisturbed: Curve
) -> None:
    cluster.write_profile(hosts=2)
    run = launch(cluster, project)
    run.wait_step(9)
    victim = cluster.nodes[1]
    victim.die()
    waiting = "waiting for node2 (10.77.0.2): "
    wait_for(lambda: any(act.text.startswith(waiting) for act in newest_events(run.paths, 9)), 60, run.describe)
    status = run.status()
    assert status["state"] == "RESTARTING" and status["reason"].startswith(waiting)
    victim.boot()
    status = run.wait_ended()
    assert (status["state"], status["attempt"]) == ("SUCCEEDED", 2), run.describe()
    assert run.curve() == undisturbed
    run.assert_nothing_left()
    cluster.assert_clean()


def supervise(run: Run) -> None:
    fsdpctl("supervise", run.run_id, cwd=run.cwd)
    assert "needs no new supervisor" in fsdpctl("supervise", run.run_id, cwd=run.cwd).stderr


@pytest.mark.timeout(600)
def test_loss_curve_is_identical_after_two_spares_replace_hosts(
    cluster: Cluster, project: Path, undisturbed: Curve, brake: Brake
) -> None:
    """A host with its cable pulled for a while is kept: TCP carries the run over it, and ranks that no report comes
    from are not judged."""
    brake.set((*STEP, 0.4), attempts=2)  # the ssh session may need 12 s more than the cable
    cluster.write_profile(spares=2)
    cluster.profile.write_text(cluster.profile.read_text().replace("peer_timeout: 5s", "peer_timeout: 15s"))
    run = launch(cluster, project, "--set", "restarts=2")
    run.wait_step(9)
    pulled = time.time()
    cluster.nodes[1].pull_cable()
    time.sleep(12)
    cluster.nodes[1].plug_cable()
    run.wait_step(len(run.metrics()) + 2)
    assert len(run.paths.attempts()) == 1 and not run.paths.dropped.exists(), run.describe()
    print(f"cable pulled for 12 s: reported after {time_reported(run, 'node2', pulled) - pulled:.1f} s")
    wait_for(lambda: not run.paths.waiting.exists(), 60, run.describe)  # else a second outage is no news

    pulled = time.time()
    cluster.nodes[1].pull_cable()
    wait_for(lambda: any(line["attempt"] == 2 for line in run.metrics()), 120, run.describe)
    cluster.nodes[2].die()
    status = run.wait_ended()
    assert (status["state"], status["attempt"]) == ("SUCCEEDED", 3), run.describe()
    first, second = [act.text for act in newest_events(run.paths, 99) if "takes the place" in act.text]
    assert first.startswith("node3 takes the place of node2, which is not used until 2") and "10.77.0.2): " in first
    assert second.startswith("node4 takes the place of node3, which is not used until 2") and "10.77.0.3): " in second
    dropped = read_json(tuple[DroppedHost, ...], run.paths.dropped)
    assert [host.node.id for host in dropped] == ["node2", "node3"]
    assert run.curve() == undisturbed
    delay = time_reported(run, "node2", pulled) - pulled
    print(f"cable pulled: reported after {delay:.1f} s; {measure_recovery(run, pulled)}")
    cluster.nodes[1].plug_cable()
    cluster.nodes[2].boot()  # the supervisor leaves when both have answered
    run.assert_nothing_left()
    cluster.assert_clean()


def time_reported(run: Run, host: str, since: float) -> float:
    """Return when the supervisor reported that the host does not answer."""
    acts = [act for act in newest_events(run.paths, 99) if act.text.startswith(f"no answer from {host} (")]
    return next(act.time for act in acts if act.time > since)


def test_loss_curve_is_identical_after_a_dead_head_without_a_shared_disk(
    cluster: Cluster, project: Path, undisturbed: Curve
) -> None:
    """The spare has nothing; the other host's copy brings the run back."""
    cluster.private = True
    cluster.write_profile(spares=2)
    run = cluster.submit_private("./exact.yaml", cwd=project)
    run.wait_step(9)
    killed = time.time()
    cluster.nodes[0].die()
    status = run.wait_ended()
    assert (status["state"], status["attempt"]) == ("SUCCEEDED", 2), run.describe()
    assert "node 0 got step-" in run.paths.attempt(2).node(0).rank_log(0).read_text()
    assert run.curve() == undisturbed
    delay = time_reported(run, "node1", killed) - killed
    print(f"head lost with its disk: reported after {delay:.1f} s; {measure_recovery(run, killed)}")
    assert fsdpctl("checkpoints", "ls", run.run_id, cwd=project).stdout.count("complete") == 3
    cluster.nodes[0].boot()  # the supervisor leaves when it has answered
    run.assert_nothing_left(30)
    cluster.assert_clean()
