"""A stop that has no time for a save does not begin one, and logs how many steps that loses."""

from __future__ import annotations

import signal
from pathlib import Path

from fsdpctl.contract import NodeExit
from fsdpctl.contract.codec import read_json
from fsdpctl.contract.formats.manifest import read_manifest
from fsdpctl.contract.records import Outcome
from tests.train import faults
from tests.train.ranks import Config, Ranks, checkpoints, metrics, start


def stop(ranks: Ranks, after_step: int) -> Ranks:
    ranks.wait_for_step(after_step)
    ranks.signal(1, signal.SIGTERM)
    return ranks


def test_a_save_that_does_not_fit_into_the_grace_is_not_begun(tmp_path: Path, config: Config) -> None:
    config["steps"] = 10_000
    env = {"FSDPCTL_GRACE_S": "1"}
    ranks = start(tmp_path, config, procs_per_node=2, env=env, fault=faults.slow_writes, fault_args=(1.0,))
    assert stop(ranks, 5).wait() == [NodeExit.STOPPED_UNSAVED] * 2, ranks.log()  # that of step 4 was in flight
    (saved,) = checkpoints(tmp_path)[-1:]
    newest, last = int(saved.removeprefix("step-")), metrics(tmp_path)[-1]["step"]
    assert newest >= 4 and last > newest, "the one in flight was waited for, and no other one was begun"
    assert f"step {last} not saved: a save took" in ranks.log()
    assert f"of the grace of 1 s; a resume continues from {saved}, {last - newest} step" in ranks.log()
    assert read_manifest(tmp_path / "checkpoints" / saved).save_s >= 1.0

    config["checkpoint"]["every_steps"] = 10_000  # a resumed run knows what a save takes before it makes one
    outcome = tmp_path / "outcome.json"
    ranks = start(tmp_path, config, procs_per_node=2, env={**env, "FSDPCTL_OUTCOME_FILE": str(outcome)})
    assert stop(ranks, last + 1).wait() == [0, 0], ranks.log()
    stopped = read_json(Outcome, outcome)
    assert (stopped.status, stopped.step, stopped.checkpoint) == ("stopped", metrics(tmp_path)[-1]["step"], None)
    assert stopped.reason.startswith("not saved: a save took 1.") and saved in stopped.reason

    config["checkpoint"] = {"every_steps": 4, "keep": 1}  # removing does not count as saving, and is not waited for
    env, fault = {"FSDPCTL_GRACE_S": "20"}, {"fault": faults.slow_removal, "fault_args": (60.0,)}
    ranks = start(tmp_path, config, procs_per_node=2, env=env, **fault)
    ranks.wait_for_log(r"(?s)(saved step.*){3}")
    ranks.signal(1, signal.SIGTERM)
    assert ranks.wait(timeout=20) == [NodeExit.STOPPED] * 2, ranks.log()
    newest = checkpoints(tmp_path)[-1]
    assert newest == f"step-{metrics(tmp_path)[-1]['step']:08d}"
    assert read_manifest(tmp_path / "checkpoints" / newest).save_s < 20
