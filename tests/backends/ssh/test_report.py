"""`fsdpctl report` of a run on hosts that share no disk: what their agents and ranks have written comes back."""

from __future__ import annotations

import json
from pathlib import Path

from tests.backends.harness import fsdpctl
from tests.backends.ssh.cluster import Cluster
from tests.services import require


def test_a_report_has_steps_nodes_and_checkpoints_of_hosts_without_a_shared_disk(
    cluster: Cluster, tmp_path: Path
) -> None:
    require("torch")
    cluster.private = True
    cluster.write_profile()
    keys = ("steps=4", "checkpoint.every_steps=2", "eval.sequences=0", "optim.warmup_steps=1")
    few = [word for key in keys for word in ("--set", f"trainer.{key}")]
    run = cluster.submit_private("llm-tiny", "--nodes", "2", *few, cwd=tmp_path)
    assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
    text = fsdpctl("report", run.run_id, cwd=tmp_path).stdout
    facts = json.loads(fsdpctl("report", run.run_id, "--json", cwd=tmp_path).stdout)
    assert facts["steps"]["count"] == 4 and facts["attempts"][0]["hosts"] == ["node1", "node2"]
    assert [(one["name"], one["problem"]) for one in facts["checkpoints"]] == [
        ("step-00000004", ""),
        ("step-00000002", ""),
    ]
    assert facts["node_hours"] > 0 and sum(facts["ledger"].values()) > 0
    assert f"Each host has copies of its own; `fsdpctl checkpoints ls {run.run_id}` asks" in text
    assert "   1  node2  1      finished" in text
