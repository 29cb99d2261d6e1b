"""The nodes of an attempt join through the run directory, also where its file server fails for a moment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fsdpctl.contract.codec import find_json, read_json, write_json
from fsdpctl.contract.paths import NodePaths, RunPaths
from fsdpctl.contract.plan import NodeContext
from fsdpctl.contract.records import NodeEnd, NodeReady
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.node.agent import join as module
from fsdpctl.node.agent.join import JoinError, join
from fsdpctl.specs.load import parse_job, parse_profile

PLAN = replace(
    build_plan(
        parse_profile("name: p\nbackend: local\n", "p"),
        parse_job("name: j\nnodes: 2\nentrypoint: {script: s.py}\n", "j"),
        SubmitHost("j-abcd", "/runs/j-abcd", "/here", "python3", ()),
    ),
    allow_loopback=True,
)


def nodes(root: Path) -> tuple[NodePaths, NodePaths]:
    attempt = RunPaths(root).attempt(1)
    for rank in (0, 1):
        attempt.node(rank).root.mkdir(parents=True)
    return attempt.node(0), attempt.node(1)


def failing_first(call: Any) -> Any:
    """Return the function with an error of NFS at its first call."""
    errors = [OSError(116, "Stale file handle")]

    def fail(*words: Any) -> Any:
        if errors:
            raise errors.pop()
        return call(*words)

    return fail


def test_a_node_joins_though_each_of_its_calls_fails_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head, node = nodes(tmp_path)
    for name in ("find_json", "read_control_file", "write_json"):
        monkeypatch.setattr(module, name, failing_first(getattr(module, name)))
    looks: list[int] = []

    def beat() -> None:
        looks.append(1)
        if len(looks) == 5:
            write_json(head.ready, NodeReady("head", "lo", "127.0.0.1", 24000))

    context, lease = join(PLAN, RunPaths(tmp_path).attempt(1), 1, beat)
    assert context == NodeContext(1, 1, "127.0.0.1", 24000, "lo") and lease is None
    assert read_json(NodeReady, node.ready).address is None


def test_the_head_publishes_its_port_though_the_first_write_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, node = nodes(tmp_path)
    write_json(node.ready, NodeReady("other"))
    monkeypatch.setattr(module, "write_json", failing_first(write_json))
    context, lease = join(PLAN, RunPaths(tmp_path).attempt(1), 0, lambda: None)
    assert lease is not None
    lease.release()
    assert (found := find_json(NodeReady, head.ready)) is not None and found.port == context.port


def test_a_node_that_has_failed_is_named(tmp_path: Path) -> None:
    _, node = nodes(tmp_path)
    write_json(node.end, NodeEnd(3, "no space is left"))
    with pytest.raises(JoinError, match="node 1: no space is left"):
        join(PLAN, RunPaths(tmp_path).attempt(1), 0, lambda: None)
