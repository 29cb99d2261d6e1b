"""What is asked of a host without a shared disk before its node starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from fsdpctl.backends.base import NodeAnswer
from fsdpctl.backends.fanout import HostError
from fsdpctl.backends.ssh.sync.disks import Disks
from fsdpctl.backends.ssh.transport.link import Link
from fsdpctl.backends.ssh.transport.ssh_config import Target
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.load import parse_job, parse_profile


class Host:
    """A host that has all files; `sftp`: whether its sshd offers that."""

    def __init__(self, name: str, *, sftp: bool) -> None:
        self.target, self._sftp = Target(name, name), sftp

    def run(self, *_: Any, **__: Any) -> NodeAnswer:
        return NodeAnswer(0, json.dumps({"missing": [], "extra": [], "kept": []}) + "\n", "")

    def open_files(self, timeout_s: float) -> Host:
        if not self._sftp:
            raise HostError(f"{self.target}: no SFTP session", passing=True)
        return self

    def close(self) -> None: ...


def test_a_host_without_sftp_is_refused_before_its_node_starts(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    profile = (
        "name: p\nbackend: {kind: ssh, shared_filesystem: false}\nnodes: [{id: a, address: a}, {id: b, address: b}]\n"
    )
    plan = build_plan(
        parse_profile(profile, "p"),
        parse_job("name: j\nentrypoint: {script: s.py}\n", "j"),
        SubmitHost("j-abcd", str(tmp_path), "/here", "python3", ()),
    )
    write_json(run.plan, plan)
    for path in run.packages():
        path.mkdir(parents=True)
    links = {0: cast(Link, Host("a", sftp=True)), 1: cast(Link, Host("b", sftp=False))}
    assert Disks(run).push(run.attempt(1), links, plan) == {1: "b: no SFTP session"}
