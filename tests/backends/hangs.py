"""Ranks that stop making progress, each in one place of one attempt; and what must be found then."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

from fsdpctl.contract import State
from fsdpctl.contract.codec import read_json
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.runs.evidence import AttemptFacts
from fsdpctl.supervise.hang import Hang
from tests.backends.in_ranks import IN_RANKS

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

ROWS_ALONE = [
    replace(row, rank=0, why=row.why.replace("its peers wait for it", "it makes no progress")) for row in ROWS
]
"""The same in a run of one rank."""

FAULTS = '''
import importlib.util, json, os, re, signal, sys, threading, time

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

def start_idle_thread():
    """As torch.compile does on GPUs: a library's thread that only sleeps, for which nothing waits. It is
    newer than the thread of the save, and so before it in a dump."""
    torch = importlib.util.find_spec("torch").submodule_search_locations[0]
    spec = importlib.util.spec_from_file_location("timer", torch + "/_inductor/compile_worker/timer.py")
    timer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(timer)
    timer.Timer(3600, print).record_call()

def prepare(row):
    wait("train.loop", "Trainer")
    checkpoints = sys.modules["train.checkpoint.verified_checkpoints"]
    write_tensors = checkpoints.write_tensors
    def with_idle_thread(*words, **more):
        start_idle_thread()
        return write_tensors(*words, **more)
    checkpoints.write_tensors = with_idle_thread
    if row and row["rank"] == int(os.environ["RANK"]):
        patch(row)

def find_row():
    with open(os.path.join(os.path.dirname(__file__), "rows.json")) as file:
        prepare(json.load(file).get(os.environ["FSDPCTL_ATTEMPT"]))

in_ranks(find_row)
'''


def write_faults(directory: Path, rows: list[Row]) -> None:
    """Write a `sitecustomize.py` under which the attempt of each row has its fault."""
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(IN_RANKS + FAULTS)
    (directory / "rows.json").write_text(json.dumps({number: vars(row) for number, row in enumerate(rows, 1)}))


@dataclass(frozen=True)
class Found:
    """What came of one fault."""

    row: Row
    seconds: float  # from the fault to the end of the attempt
    misses: list[str]  # what was named wrongly, or not at all


def check_findings(run: RunPaths, rows: list[Row], procs_per_node: int) -> list[Found]:
    """Return what the attempt of each row found."""
    return [_check(run.attempt(number), row, procs_per_node) for number, row in enumerate(rows, 1)]


def list_misses(found: list[Found], within_s: float) -> list[str]:
    """Return what was found late or named wrongly, one line each."""
    late = [f"{one.row}: found after {one.seconds:.1f} s" for one in found if one.seconds > within_s]
    return late + [f"{one.row}: {miss}" for one in found for miss in one.misses]


def _check(attempt: AttemptPaths, row: Row, procs_per_node: int) -> Found:
    facts = AttemptFacts(attempt)
    node = attempt.node(row.rank // procs_per_node)
    if not attempt.hang.exists():
        return Found(row, math.inf, [f"no hang found, but {facts.verdict}"])
    hang = read_json(Hang, attempt.hang)
    began = float(node.rank_log(row.rank).read_text().rpartition(f"fault {row.kind} ")[2].split()[0])
    words = (f"node {node.node_rank}: rank {row.rank} hangs: {row.why}", f"in {row.section}")
    reasons = {hang.reason}
    if facts.verdict is not None and facts.verdict.state is State.FAILED:
        reasons.add(facts.verdict.reason)
    misses = [] if len(reasons) == 1 and all(word in hang.reason for word in words) else [str(reasons)]
    ends = [end.reason for end in facts.ends.values()]
    misses += [f"a node reports {reason!r}" for reason in ends if hang.reason not in reason]
    return Found(row, attempt.abort.stat().st_mtime - began, misses)
