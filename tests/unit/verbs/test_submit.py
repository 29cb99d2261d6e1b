from __future__ import annotations

import os
from pathlib import Path

import pytest

from fsdpctl.errors import RefusedError, UsageError
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.specs.accelerate_config import read_accelerate_config
from fsdpctl.specs.load import load_job, parse_profile
from fsdpctl.verbs import placing
from fsdpctl.verbs import submit as verb
from fsdpctl.verbs.submit import Request, prepare, submit, without_notices
from fsdpctl.verbs.submit_host import runs_root_of


@pytest.mark.parametrize(
    ("given", "root"), [("runs", "work/runs"), ("../runs", "work/../runs"), ("~/runs", "home/runs"), ("/runs", "/runs")]
)
def test_a_run_is_found_from_anywhere(given: str, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    profile = parse_profile(f"name: p\nruns_root: {given}\n", "p.yaml")
    assert prepare(profile, load_job("llm-tiny"), run_id="r").plan.run_dir == str(tmp_path / root / "r")


def test_a_user_without_a_home_directory_is_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "FSDPCTL_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 54321)
    with pytest.raises(UsageError, match="this user has no home directory") as raised:
        default_runs_root()
    assert raised.value.hint == "set FSDPCTL_HOME, or HOME, to a directory"
    for root in ("~/runs", "~nosuchuser/runs"):
        profile = parse_profile(f"name: x\nbackend: {{kind: local}}\nruns_root: {root}\n", "x")
        with pytest.raises(UsageError, match=f"runs_root {root}: there is no such home directory"):
            runs_root_of(profile)
    assert read_accelerate_config(None) is None


@pytest.mark.parametrize(
    ("keys", "device"), [("", "cuda"), ("gpus_per_node: 1\n", "cuda"), ("gpus_per_node: 0\n", "cpu")]
)
def test_the_driver_is_asked_only_if_a_gpu_may_be_used(
    keys: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool, asked = tmp_path / "nvidia-smi", tmp_path / "asked"
    tool.write_text(f"#!/bin/sh\necho 'GPU 0: (UUID: GPU-1)'\ntouch {asked}\n")
    tool.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    plan = prepare(parse_profile(f"name: p\n{keys}", "p.yaml"), load_job("llm-tiny"), run_id="r").plan
    assert (plan.device, asked.exists()) == (device, device == "cuda")


def test_targets_of_the_profile_and_of_the_settings_are_in_the_plan_once(home: Path) -> None:
    settings = home / ".config" / "fsdpctl" / "settings.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text("notify:\n  - {kind: slack, url_env: A}\n  - {kind: json, url_env: B}\n")
    profile = parse_profile("name: p\nnotify: [{kind: slack, url_env: A}]\n", "p.yaml")
    request = prepare(profile, load_job("llm-tiny"), run_id="r")
    assert [target.name for target in request.plan.notify] == ["slack webhook of $A", "json webhook of $B"]
    assert without_notices(request).plan.notify == ()


def test_a_run_does_not_start_on_nodes_that_were_held_since_it_was_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Created(Exception):
        pass

    def create_run(request: Request, *_: object) -> None:
        raise Created([node.id for node in request.plan.nodes])

    monkeypatch.setattr(verb, "create_run", create_run)
    nodes = "[{id: a, address: 10.0.0.1}, {id: b, address: 10.0.0.2}]"
    profile = parse_profile(f"name: two\nbackend: ssh\nnodes: {nodes}\nruns_root: {tmp_path}\n", "p.yaml")
    request = prepare(profile, load_job("llm-tiny", ["nodes=1"]), run_id="r")
    assert [node.id for node in request.plan.nodes] == ["a"]
    held = {"10.0.0.1:22": "dev"}
    monkeypatch.setattr(placing, "read_taken", lambda: held)
    with pytest.raises(Created, match=r"\['b'\]"):
        submit(request)
    held["10.0.0.2:22"] = "dev"
    with pytest.raises(RefusedError, match="1 node wanted, but only 0 of the profile are not held"):
        submit(request)
