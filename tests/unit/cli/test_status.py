"""The output of `fsdpctl status`."""

from __future__ import annotations

import subprocess

from fsdpctl.contract.codec import write_json
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.store import create, default_runs_root
from fsdpctl.runs.verdict import Verdict
from fsdpctl.specs.load import parse_job, parse_profile
from fsdpctl.supervise.decide import State
from tests.backends.harness import COMMAND


def test_a_reason_of_several_lines_stays_in_its_column() -> None:
    run = create(default_runs_root(), RunRecord.new("mine-aaaa", "mine", "local", "local", 1.0, 1), lambda run: None)
    profile, job = (
        parse_profile("name: local\nbackend: local", "p"),
        parse_job("name: mine\nentrypoint: {module: m}", "j"),
    )
    write_json(run.plan, build_plan(profile, job, SubmitHost("mine-aaaa", str(run.root), "/here", "python3", ())))
    run.attempt(1).root.mkdir(parents=True)
    write_json(run.attempt(1).verdict, Verdict(State.FAILED, "left: refused\nright: unknown"))
    done = subprocess.run([COMMAND, "status"], capture_output=True, text=True, timeout=60)
    assert "state      FAILED: left: refused\n           right: unknown\nattempt    1\n" in done.stdout, done
