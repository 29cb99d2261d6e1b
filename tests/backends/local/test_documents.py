"""Attention within documents, from prepared text to a finished run of two ranks."""

from __future__ import annotations

import json
from pathlib import Path

from tests.backends import exact
from tests.backends.harness import fsdpctl, submit


def test_documents_are_kept_apart_and_one_document_is_refused(project: Path) -> None:
    lines = [json.dumps({"text": f"{number} " * (number % 9 + 1)}) for number in range(400)]
    (project / "text.jsonl").write_text("\n".join(lines))
    fsdpctl("data", "prepare", "text.jsonl", "--val-fraction", "0.2", "--out", "data", cwd=project)
    job = exact.JOB.replace(f"steps: {exact.STEPS}", "steps: 8") + "  data: {source: data, attention: document}\n"
    (project / "within.yaml").write_text(job)

    run = submit("within.yaml", "--nodes", "1", "--procs-per-node", "2", cwd=project)
    assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
    counted = [line["valid_tokens"] for line in run.metrics()]
    assert len(counted) == 8
    assert all(400 < tokens < 16 * 32 for tokens in counted), "the first token of a document is no target"

    (project / "one.txt").write_text("a" * 1000)
    (project / "other.txt").write_text("b" * 1000)
    fsdpctl("data", "prepare", "one.txt", "other.txt", "--val-fraction", "0.5", "--out", "one", cwd=project)
    (project / "one.yaml").write_text(job.replace("source: data", "source: one"))
    refused = fsdpctl("submit", "one.yaml", "--nodes", "1", "--dry-run", cwd=project, expect=2).stderr
    line = job.splitlines().index("  data: {source: data, attention: document}") + 1
    assert f"one.yaml:{line}: trainer.data.attention: document needs data of several documents" in refused
