"""What every command prints with `--json`, from a real run, has its documented shape; messages go to stderr."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from docs.json_page import OTHER_SHAPES, SHAPES
from fsdpctl.contract.codec import decode
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.runs.suspects import Suspect, note_suspects
from fsdpctl.sweeps.plan import SweepRequest, plan_sweep
from fsdpctl.sweeps.record import sweep_paths
from fsdpctl.sweeps.run import begin
from tests.backends.harness import Run, fsdpctl, submit, wait_for
from tests.backends.slow import STEP, Brake

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
JOB = """\
name: fails
nodes: 2
restarts: 1
entrypoint: {script: fail.py}
"""
FAILS = 'import os\nprint("hello")\nassert os.environ["RANK"] != "1", "rank 1"\nimport time; time.sleep(60)\n'

seen: set[str] = set()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "fail.py").write_text(FAILS)
    (tmp_path / "fails.yaml").write_text(JOB)
    return tmp_path


def call(command: str, *words: str, cwd: Path, expect: int = 0) -> Any:
    """Run a command with `--json`, and return what it printed, checked against its shape."""
    seen.add(command)
    printed = fsdpctl(*command.split(), *words, "--json", cwd=cwd, expect=expect).stdout
    shape = SHAPES[command]
    if shape.how == "lines":
        objects = [json.loads(line) for line in printed.splitlines()]
        assert objects
    else:
        whole = json.loads(printed)
        objects = whole if shape.how == "list" else [whole]
    for one in objects:
        decode(shape.of, one)
        missing = set(shape.of.__dataclass_fields__) - set(one)  # type: ignore[attr-defined]
        assert not missing, "a key is null, never absent"
    return objects if shape.how != "object" else objects[0]


def test_a_run_from_its_start_to_its_end(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Brake(project / "slow", monkeypatch).set((*STEP, 0.1))
    settings = (
        *("trainer.steps=400", "trainer.checkpoint.every_steps=4", "trainer.eval.sequences=4"),
        *("trainer.model.seq_len=64", "trainer.batch={sequences: 4, micro_batch: 2}"),
    )
    words = [word for setting in settings for word in ("--set", setting)]
    submitted = call("submit", "llm-tiny", "--nodes", "2", "--procs-per-node", "1", *words, cwd=project)
    run = Run.of(submitted, project)
    run.wait_step(9)
    shown = call("status", run.run_id, cwd=project)
    assert (shown["state"], shown["phase"], shown["last_step_s"] < 60) == ("RUNNING", "training", True)
    assert re.fullmatch(r"step-\d{8}", shown["checkpoint"])
    assert 0 < shown["effective"] < 1 and shown["ledger"]["step"] > 0
    assert 0 < shown["progress_share"] <= 1 and shown["elapsed_s"] > 1 and shown["ends_at"] > shown["created"]
    assert [row["run_id"] for row in call("ls", cwd=project)] == [run.run_id]
    (seen_now,) = call("top", run.run_id, cwd=project)
    ranks = [rank for node in seen_now["nodes"] for rank in node["ranks"]]
    assert [(rank["rank"], rank["is_up"], rank["has_ended"]) for rank in ranks] == [
        (rank, True, False) for rank in range(2)
    ]
    assert seen_now["step_min_s"] <= seen_now["step_s"] <= seen_now["step_max_s"]
    assert [reply["rank"] for reply in call("stacks", run.run_id, cwd=project)["ranks"]] == [0, 1]
    assert not call("supervise", run.run_id, cwd=project)["acted"]
    assert call("shell", run.run_id, cwd=project)["argv"]
    stopped = call("stop", run.run_id, cwd=project)
    assert (stopped["acted"], stopped["state"], stopped["cause"]) == (True, "STOPPED", "stop")
    assert not call("cancel", run.run_id, cwd=project)["acted"]
    assert call("logs", run.run_id, "-n", "5", cwd=project)[-1]["attempt"] == 1
    end = str(shown["step"] + 40)
    resumed = call("resume", run.run_id, "--set", f"trainer.steps={end}", "-f", cwd=project)
    assert resumed["run_id"] == run.run_id
    (curves,) = call("metrics", run.run_id, cwd=project)
    assert [mark["attempt"] for mark in curves["marks"] if mark["kind"] == "restart"] == [2]
    compared = call("compare", run.run_id, run.run_id, cwd=project)
    assert (compared["configuration"], compared["code"], compared["loss"][-1]["step"]) == ([], [], int(end))
    assert str(run.paths.tensorboard) in call("tensorboard", run.run_id, cwd=project)["argv"]
    reported = call("report", run.run_id, cwd=project)
    assert [attempt["state"] for attempt in reported["attempts"]] == ["STOPPED", "SUCCEEDED"]
    listed = call("checkpoints ls", run.run_id, cwd=project)
    assert [row["ok"] for row in call("checkpoints verify", run.run_id, cwd=project)] == [True] * len(listed)
    assert len(call("checkpoints prune", run.run_id, cwd=project)["removed"]) == len(listed) - 1
    exported = call("checkpoints export", run.run_id, "--to", "torch", cwd=project)
    assert (project / exported["path"]).exists() and exported["step"] == int(end)
    check_history(run, project)


def check_history(run: Run, project: Path) -> None:
    """Check that each thing has happened once, in order."""
    *events, ledger = call("events", run.run_id, cwd=project)
    check_ledger(ledger, events)
    assert [event["v"] for event in events] == [1] * len(events)
    assert [event["time"] for event in events] == sorted(event["time"] for event in events)
    saved = [(event["attempt"], event["step"]) for event in events if event["kind"] == "saved"]
    assert len(saved) == len(set(saved)) > 5, "also those that are removed by now"
    assert [(event["kind"], event["who"], event["attempt"]) for event in events if event["kind"] != "saved"] == [
        ("submitted", "user", 0),
        ("started", "supervisor", 1),
        ("stop_requested", "user", 1),
        ("ended", "supervisor", 1),
        ("resumed", "user", 0),
        ("started", "supervisor", 2),
        ("ended", "supervisor", 2),
    ]
    followed = fsdpctl("events", run.run_id, "-f", "--json", cwd=project).stdout
    assert [json.loads(line) for line in followed.splitlines()] == [*events, ledger]
    lines, table = fsdpctl("events", run.run_id, cwd=project).stdout.split("\n\n")
    assert len(lines.splitlines()) == len(events) and "rank 0      saved             step-00000004 in" in lines
    assert [row.split()[0] for row in table.splitlines()[1:]] == [*ledger["ledger"], "total", "effective"]


def check_ledger(ledger: Any, events: list[Any]) -> None:
    """Check that the time of a run that was stopped and resumed adds up to what passed."""
    assert (ledger["kind"], ledger["time"]) == ("ledger", events[-1]["time"])
    uses = ledger["ledger"]
    assert sum(uses.values()) == pytest.approx(ledger["time"] - events[0]["time"], rel=0.01)
    assert set(uses) >= {"start", "restore", "step", "save", "evaluation", "end", "idle"}
    assert not set(uses) & {"queue", "running", "redone", "hang", "restart"}
    effective = uses["step"] + uses["evaluation"]
    assert ledger["effective"] == pytest.approx(effective / (sum(uses.values()) - uses["idle"]), rel=0.01)


def test_a_run_that_fails_and_restarts(project: Path) -> None:
    run = submit("fails.yaml", cwd=project)
    run.wait_ended()
    *events, ledger = call("events", run.run_id, cwd=project)
    assert (ledger["effective"], set(ledger["ledger"])) == (None, {"start", "running", "restart", "end"})
    kinds = [event["kind"] for event in events]
    assert kinds.count("ended") == 2 and kinds.count("restarted") == 1 and "fault" in kinds
    failures = call("logs --errors", run.run_id, cwd=project)
    assert (failures["first"]["rank"], failures["first"]["message"]) == (1, "AssertionError: rank 1")
    explained = call("explain", run.run_id, cwd=project)
    first = explained["ranks"][0]
    assert (first["rank"], first["role"]) == (1, "initiating")
    log = run.paths.attempt(explained["attempt"]).node(first["node_rank"]).rank_log(1)
    assert call("explain --log", str(log), cwd=project)["first"]["category"] == "assertion"
    ended = [event for event in call("events", run.run_id, cwd=project) if event["kind"] == "ended"]
    assert [(event["state"], event["restart"]) for event in ended] == [("FAILED", True), ("FAILED", False)]
    used = call("usage", cwd=project)
    assert (used["runs"][0]["attempts"], used["total"]["gpu_hours"]) == (2, None) and used["total"]["process_hours"] > 0
    remove_it(run, project)


def remove_it(run: Run, project: Path) -> None:
    """Check that a pinned run stays, and goes once it is not pinned any more."""
    wait_for(lambda: not RunFacts(run.paths).has_living_supervisor, 60, "the supervisor to end")
    note_suspects(run.paths.attempt(1), [Suspect("ssh", "10.0.0.7:22", "h7", "died", 1, time.time())])
    (suspect,) = call("nodes", cwd=project)
    assert (suspect["node"], suspect["run_id"], suspect["reason"]) == ("h7", run.run_id, "died")
    assert call("nodes forgive", "h7", cwd=project) == [suspect] and call("nodes", cwd=project) == []
    assert call("runs pin", run.run_id, cwd=project)[0]["pinned"]
    assert call("gc", "--keep", "0", "--yes", cwd=project)["kept"] == {run.run_id: "it is pinned"}
    assert not call("runs unpin", run.run_id, cwd=project)[0]["pinned"]
    assert call("gc", "--keep", "0", "--yes", cwd=project)["runs"][0]["action"] == "remove"
    assert call("ls", cwd=project) == [] and not run.paths.root.exists()


def test_a_hold(project: Path) -> None:
    name = call("hold", "--profile", "local", cwd=project)["name"]
    assert [row["name"] for row in call("holds", cwd=project)] == [name]
    assert call("release", name, cwd=project) == {"name": name}


def test_files_and_clusters(project: Path) -> None:
    for group, good in (("jobs", "llm-tiny"), ("profiles", "local")):
        assert good in [row["name"] for row in call(f"{group} ls", cwd=project)]
        created = call(f"{group} init", "mine", cwd=project)["path"]
        (project / "broken.yaml").write_text("name: [")
        checked = call(f"{group} check", created, "broken.yaml", cwd=project, expect=2)
        assert [(row["ok"], bool(row["problems"])) for row in checked] == [(True, False), (False, True)]
        assert json.loads(fsdpctl(group, "show", "mine", "--json", cwd=project).stdout)["name"] == "mine"
    (project / "run.sh").write_text("torchrun --nnodes=2 train.py --out $OUT\n")
    imported = call("jobs import", "run.sh", cwd=project)
    assert (imported["job"]["nodes"], [row["must_change"] for row in imported["notes"]]) == (2, [True])
    assert "torch.distributed.run" in call("jobs export", "llm-tiny", "--to", "torchrun", cwd=project)["text"]
    assert "fp16" in [row["id"] for row in call("jobs rules", cwd=project)]
    assert call("profiles default", cwd=project) == {"profile": "local", "source": "the built-in default"}
    (project / "notify.yaml").write_text("name: here\nnotify: [{kind: command, command: [cat]}]\n")
    assert call("notify test", "-p", "notify.yaml", cwd=project) == [
        {"name": "command cat", "ok": True, "problem": None}
    ]
    assert call("doctor", "local", cwd=project)["ok"] in (True, False)
    benched = call("bench nccl", "--nodes", "2", "--sizes", "1M,2M", cwd=project)
    assert benched["members"] == ["node 0", "node 1"] and benched["report"]["verdict"]["fault"] == "none"
    assert [one["num_bytes"] for one in benched["report"]["collectives"]] == [2**20] * 3 + [2**21] * 3
    disk = call("bench io", "--nodes", "2", "--size", "8M", "--job", "llm-tiny", cwd=project)
    assert [node["read_from"] for node in disk["report"]["nodes"]] == [1, 0] and disk["checkpoint_bytes"] > 0
    (project / "text.txt").write_text("".join(f"paragraph {number}\n\n" for number in range(500)))
    prepared = fsdpctl("data", "prepare", "text.txt", "-o", "data", "--split-on", "", "--json", cwd=project)
    shown = fsdpctl("data", "show", "data", "--json", cwd=project)
    assert json.loads(prepared.stdout) == json.loads(shown.stdout)
    assert [row["path"] for row in call("data ls", cwd=project)] == ["data"]
    assert call("data check", "data", cwd=project) == [{"name": "data", "ok": True, "problems": []}]
    assert call("estimate", "llm7b", "--gpu", "h100", "--gpus", "8", cwd=project)["fit"] == "fits"
    planned = plan_sweep(SweepRequest("llm-tiny", ("trainer.seed=1,2",), None, ()))
    begin(sweep_paths(planned.default_name), planned)
    swept = call("sweep", "llm-tiny", "--set", "trainer.seed=1,2", "--show", cwd=project)
    assert [(one["values"], one["state"]) for one in swept["runs"]] == [
        ({"trainer.seed": "1"}, None),
        ({"trainer.seed": "2"}, None),
    ]
    plan = json.loads(fsdpctl("submit", "llm-tiny", "--dry-run", "--json", cwd=project).stdout)
    assert {"plan", "nodes"} <= set(plan)
    seen.update(OTHER_SHAPES)


def test_a_scaling_benchmark(project: Path) -> None:
    few = ("--gpus", "1,2", "--strategy", "FULL_SHARD", "--steps", "2", "--set", "trainer.model.d_model=32")
    scaling = call("bench scaling", "llm-tiny", *few, cwd=project)
    alone, both = scaling["points"]
    assert [(one["gpus"], one["strategy"], one["state"]) for one in (alone, both)] == [
        (1, None, "SUCCEEDED"),
        (2, "FULL_SHARD", "SUCCEEDED"),
    ]
    assert alone["measured"]["communication_share"] < both["measured"]["communication_share"] < 1
    assert both["measured"]["tokens_per_s_gpu"] / alone["measured"]["tokens_per_s_gpu"] == both["efficiency"]
    assert sum(both["lost"].values()) == pytest.approx(1 - both["efficiency"])
    assert [row["run_id"] for row in call("ls", cwd=project)] == [both["run_id"], alone["run_id"]]
    assert not list(RunPaths.of(both["run_dir"]).checkpoints.glob("step-*"))
    again = fsdpctl("bench", "scaling", "llm-tiny", *few, "--reuse", "--plot", "chart.svg", cwd=project)
    assert again.stdout.splitlines()[0].split()[:2] == ["RANKS", "STRATEGY"] and "FULL_SHARD: each of 2" in again.stdout
    assert (project / "chart.svg").read_text().count("<circle") == 2
    assert len(call("ls", cwd=project)) == 2, "nothing has run again"
    reported = call("report", both["run_id"], cwd=project)["scaling"]
    assert reported["points"] == scaling["points"] and reported["ended"] > scaling["ended"]


def test_no_shape_is_left_out() -> None:
    """After all tests above."""
    assert sorted({*SHAPES, *OTHER_SHAPES} - seen) == []
