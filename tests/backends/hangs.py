"""Ranks that stop making progress, each in one place of one attempt; and what must be found then."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract import State
from fsdpctl.contract.codec import read_json
from fsdpctl.runs.evidence import AttemptFacts
from fsdpctl.supervise.hang import Hang
from tests.backends.harness import Run

JOB = """
name: hangs
procs_per_node: 1
restarts: 20
trainer:
  steps: 70
  log_every: 10
  model: {vocab_size: 256, d_model: 16, layers: 1, heads: 1, kv_heads: 1, head_dim: 16, ffn: 16, seq_len: 16}
  mesh: {strategy: NO_SHARD}
  batch: {sequences: 2, micro_batch: 1}
  optim: {lr: 1.0e-3}
  checkpoint: {every_steps: 5, keep: 1}
  eval: {sequences: 8}
"""


@dataclass(frozen=True)
class Row:
    """One fault: `rank` stops in `place` at the first call of it once `step` is done."""

    place: str
    kind: str
    section: str  # empty: a stopped process stops where it is, in a save beside training
    why: str
    step: int = 0
    rank: int = 1


ROWS = [
    Row("step", "stop", "step", "its process is stopped", step=12),
    Row("start", "sleep", "start (model)", "its peers wait for it at"),
    Row("step", "sleep", "step", "its peers wait for it at", step=12, rank=0),
    Row("start", "stop", "start (model)", "its process is stopped", rank=0),
    Row("step", "gil", "step", "its peers wait for it at", step=12),
    Row("save", "stop", "", "its process is stopped"),
    Row("save", "sleep", "save", "its peers wait for it at"),
    Row("evaluate", "sleep", "evaluate", "its peers wait for it at"),
    Row("end", "sleep", "end (leaving process groups)", "its peers wait for it at"),
]
"""The step of an attempt counts from its own start: they resume from different checkpoints. The evaluation is the one
after the last step; when the last fault comes, all is done."""

FAULTS = """
import json, os, re, signal, sys, threading, time

def fault(kind):
    print("fault", kind, time.time(), flush=True)
    if kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif kind == "gil":
        re.match("(a+)+$", 40 * "a" + "b")
    else:
        time.sleep(float(kind) if kind[0].isdigit() else 600)

def before(owner, name, row):
    original, calls = getattr(owner, name), [0]
    def call(*words, **more):
        calls[0] += 1
        if calls[0] == row["step"] + 1:
            fault(row["kind"])
        return original(*words, **more)
    setattr(owner, name, call)

def patch(row):
    loop = wait("train.loop", "Trainer")
    owner, name = {
        "start": (loop, "build_model"),
        "step": (loop.Trainer, "_train_step"),
        "evaluate": (loop, "held_out_loss"),
        "end": (sys.modules["train.parallel.world"].World, "close"),
        "save": (sys.modules["train.checkpoint.verified_checkpoints"], "write_tensors"),
        "data": (sys.modules["train.data.tokens"].Tokens, "sequences"),
    }[row["place"]]
    before(owner, name, row)

def wait(module, name):
    while not hasattr(sys.modules.get(module), name):
        time.sleep(0.002)
    return sys.modules[module]

if "RANK" in os.environ:
    with open(os.path.join(os.path.dirname(__file__), "rows.json")) as file:
        row = json.load(file).get(os.environ["FSDPCTL_ATTEMPT"])
    if row and row["rank"] == int(os.environ["RANK"]):
        threading.Thread(target=patch, args=(row,), daemon=True).start()
"""


def write_faults(directory: Path, rows: list[Row]) -> None:
    """Write a `sitecustomize.py` under which the attempt of each row has its fault."""
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(FAULTS)
    (directory / "rows.json").write_text(json.dumps({number: vars(row) for number, row in enumerate(rows, 1)}))


def find_misses(run: Run, rows: list[Row], procs_per_node: int, found_within_s: float) -> list[str]:
    """Return what was found late or named wrongly, one line each."""
    misses = []
    for number, row in enumerate(rows, 1):
        attempt = run.paths.attempt(number)
        facts = AttemptFacts(attempt)
        node = attempt.node(row.rank // procs_per_node)
        if not attempt.hang.exists():
            misses.append(f"{row}: no hang found, but {facts.verdict}")
            continue
        hang = read_json(Hang, attempt.hang)
        log = node.rank_log(row.rank).read_text()
        began = float(log.rpartition(f"fault {row.kind} ")[2].split()[0])
        found_s = attempt.abort.stat().st_mtime - began
        words = (f"node {node.node_rank}: rank {row.rank} hangs: {row.why}", f"in {row.section}")
        reasons = {hang.reason}
        if facts.verdict is not None and facts.verdict.state is State.FAILED:
            reasons.add(facts.verdict.reason)
        if len(reasons) != 1 or not all(word in hang.reason for word in words):
            misses.append(f"{row}: {reasons}")
        if found_s > found_within_s:
            misses.append(f"{row}: found after {found_s:.1f} s")
        ends = [end.reason for end in facts.ends.values()]
        misses += [f"{row}: a node reports {reason!r}" for reason in ends if hang.reason not in reason]
    return misses
