"""How soon the next attempt begins on a spare after a host has died, and what the time is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fsdpctl.contract.codec import find_json, read_json
from fsdpctl.contract.plan import DroppedHost
from fsdpctl.contract.records import NodeEnd, ProcessIdentity
from fsdpctl.runs.events import newest_events
from tests.backends.harness import Run, submit, wait_for
from tests.backends.ssh.cluster import Cluster

# Each rank waits for the other one in each step. As in a collective, neither obeys TERM, nor ends by itself when the
# other one is gone.
SCRIPT = """
import os, signal, socket, time
from pathlib import Path
rank, run = int(os.environ["RANK"]), Path(os.environ["FSDPCTL_RUN_DIR"])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if rank == 0:
    peer, _ = socket.create_server(("", int(os.environ["MASTER_PORT"]) + 1)).accept()
else:
    while True:
        try:
            peer = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]) + 1))
            break
        except ConnectionError:
            time.sleep(0.1)
for step in range(100_000):
    peer.sendall(b".")
    assert peer.recv(1)
    print("step", step, flush=True)
    time.sleep(0.2)
    if os.environ["FSDPCTL_ATTEMPT"] == "2" and step == 5:
        break
"""
JOB = "name: pairs\nnodes: 2\nprocs_per_node: 1\nrestarts: 1\nentrypoint: {script: script.py}\n"


@pytest.mark.timeout(400)
@pytest.mark.parametrize("private", [False, True], ids=["shared-disk", "private-disks"])
def test_the_next_attempt_does_not_wait_for_the_host_that_died(
    private: bool, cluster: Cluster, tmp_path: Path, home: Path
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "job.yaml").write_text(JOB)
    cluster.private = private
    cluster.write_profile(spares=2)
    if private:
        run = cluster.submit_private("./job.yaml", cwd=tmp_path)
    else:
        run = submit("./job.yaml", "--profile", str(cluster.profile), cwd=tmp_path)
    log = run.paths.attempt(1).node(0).rank_log(0)
    wait_for(lambda: log.exists() and log.read_text().count("step") >= 80, 120, run.describe)
    died = time.time()
    cluster.nodes[1].die()
    status = run.wait_ended()
    assert (status["state"], status["attempt"], status["hosts"]) == ("SUCCEEDED", 2, ["node1", "node3"]), run.describe()
    (dropped,) = read_json(tuple[DroppedHost, ...], run.paths.dropped)
    assert dropped.node.id == "node2" and "no answer for " in dropped.reason, "it was not tried once more"
    print(f"\nhost died: {account(run, died)}")
    cluster.nodes[1].boot()
    run.assert_nothing_left(30)


def account(run: Run, died: float) -> str:
    """Return the seconds between the death of a host and the first step on the spare, one after the other."""
    old, new = run.paths.attempt(1), run.paths.attempt(2)
    events = {event.text.partition(" ")[0].rstrip(":"): event.time for event in newest_events(run.paths, 99)}
    end = find_json(NodeEnd, old.node(0).end)
    assert end is not None
    times = {
        "until it is found": old.abort.stat().st_mtime,
        "the other ranks end": end.time,
        "their nodes are swept": events.get("LOST", 0.0) or events["FAILED"],
        "a spare is found": events["node3"],
        "agents are up": max(read_json(ProcessIdentity, node.agent).started for node in new.nodes()),
        "its ranks are up": max(path.stat().st_mtime for node in new.nodes() for path in node.root.glob("stacks-*")),
    }
    before, parts = died, []
    for what, at in times.items():
        parts.append(f"{at - before:.1f} {what}")
        before = at
    return f"{before - died:.1f} s: {', '.join(parts)}"
