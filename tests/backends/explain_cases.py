"""Real failures of runs with several ranks, and what `explain` must find in each."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fsdpctl.explain.categories import Category, Role
from fsdpctl.explain.explanation import Confidence, Explanation
from fsdpctl.verbs.explain import explain
from tests.backends.harness import Run, fsdpctl, submit

SCRIPT = """
import ctypes, mmap, os, resource, signal, sys, time
from datetime import timedelta
from pathlib import Path

kind, who, when, timeout_s = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
rank = int(os.environ["RANK"])


class Unreadable(Exception):
    pass


def read_shard(path):
    with open(path) as file:
        return file.read()


def allocate_within(limit):
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return bytearray(2 * limit)


def allocate_in_cgroup(limit):
    own = next(line.split(":")[2] for line in open("/proc/self/cgroup") if ":memory:" in line).strip()
    group = Path("/sys/fs/cgroup/memory", own.lstrip("/"), f"explain-{os.getpid()}")
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(limit))
    (group / "cgroup.procs").write_text(str(os.getpid()))
    return b"x" * (4 * limit)


def fill_shared_memory():
    ctypes.CDLL(None).unshare(0x20000)  # CLONE_NEWNS: mounts that no other process sees
    os.system("mount --make-rprivate / && mount -t tmpfs -o size=1m none /dev/shm")
    with open("/dev/shm/batch", "wb+") as file:
        file.truncate(2**23)
        mmap.mmap(file.fileno(), 2**23).write(bytes(2**23))


def write_as_another_user(path):
    os.seteuid(65534)
    try:
        open(path, "w")
    finally:
        os.seteuid(0)


def read_with_a_cause():
    try:
        read_shard("/no/such/shard-00007.bin")
    except OSError as error:
        raise Unreadable("cannot read the data") from error


def multiply(torch, one, other):
    return torch.ones(2, 3, dtype=one) @ torch.ones(3, 2, dtype=other)


def check_loss(loss):
    if loss != loss:
        raise RuntimeError("loss is NaN at step 3")


def check_dtype():
    import torch
    multiply(torch, torch.float32, torch.float16)


def check_shape():
    import torch
    torch.ones(2, 3) @ torch.ones(2, 3)


def load_batch():
    from torch.utils.data import DataLoader
    class Shards:
        def __len__(self): return 4
        def __getitem__(self, index): os.kill(os.getpid(), signal.SIGKILL)
    next(iter(DataLoader(Shards(), num_workers=1)))


def other_collective():
    import torch, torch.distributed as dist
    dist.all_reduce(torch.ones(7))


def wrong_rendezvous():
    os.environ["MASTER_PORT"] = "1"
    import torch.distributed as dist
    dist.init_process_group("gloo", timeout=timedelta(seconds=1))


FAILURES = {
    "value": lambda: int("seven"),
    "key": lambda: {}["lr"],
    "runtime": lambda: (_ for _ in ()).throw(RuntimeError("the tokenizer has 32,000 tokens, the model 50,000")),
    "cause": read_with_a_cause,
    "exit": lambda: sys.exit(3),
    "os_exit": lambda: os._exit(3),
    "os_exit_0": lambda: os._exit(0),
    "leave": lambda: sys.exit(0),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "term": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "segv": lambda: ctypes.string_at(0),
    "shm": fill_shared_memory,
    "abort": os.abort,
    "memory": lambda: allocate_within(2**32),
    "oom": lambda: allocate_in_cgroup(2**28),
    "file": lambda: read_shard("/no/such/shard-00007.bin"),
    "permission": lambda: write_as_another_user("/etc/explain-test"),
    "module": lambda: __import__("flash_attn_no_such"),
    "zero": lambda: 1 / 0,
    "assert": lambda: (_ for _ in ()).throw(AssertionError("sequence is too long")),
    "nan": lambda: check_loss(float("nan")),
    "dtype": check_dtype,
    "shape": check_shape,
    "full": lambda: open("/dev/full", "wb", buffering=0).write(b"checkpoint"),
    "worker": load_batch,
    "mismatch": other_collective,
    "rendezvous": wrong_rendezvous,
    "stopped": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "sleep": lambda: time.sleep(600),
    "none": lambda: None,
}


def fail_if(moment):
    if moment == when and who in (str(rank), "all"):
        print("failing now", flush=True)
        FAILURES[kind]()


fail_if("start")
import torch
import torch.distributed as dist
from fsdpctl.report import step

dist.init_process_group("gloo", timeout=timedelta(seconds=timeout_s))
stop = Path(os.environ["FSDPCTL_STOP_FILE"])
for number in range(10_000 if kind == "none" else 4):
    if number == 2:
        fail_if("step")
    dist.all_reduce(torch.ones(3))
    step(number, loss=float(number))
    if kind == "none":
        time.sleep(0.05)
        halt = torch.tensor(float(stop.exists()))
        dist.all_reduce(halt)
        if halt:
            break
fail_if("end")
dist.barrier()
dist.destroy_process_group()
"""


def request(word: str) -> Callable[[Run], None]:
    def act(run: Run) -> None:
        fsdpctl(word, run.run_id, cwd=run.cwd)

    return act


def signal_agent(number: int, node_rank: int) -> Callable[[Run], None]:
    def act(run: Run) -> None:
        for pid in run.find(node_rank, "fsdpctl.node.agent --run-dir"):
            os.kill(pid, number)
            return

    return act


@dataclass(frozen=True)
class Case:
    """One failure: rank `who` fails by `kind` at a moment; `act` is done to the run instead, once it is training."""

    kind: str
    category: Category
    who: str = "1"
    when: str = "step"
    nodes: int = 2
    procs: int = 2
    timeout_s: float = 60.0
    extra: str = ""  # of the job
    profile: str = ""
    act: Callable[[Run], None] | None = None
    first_rank: int | None = -1  # -1: `who`; None: no rank
    first_node: int | None = None  # a whole node

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.who}-{self.when}-{self.nodes}x{self.procs}"

    @property
    def initiating(self) -> set[tuple[int | None, int]]:
        """The ranks, with their nodes, that may be named as those that ended it."""
        if self.first_node is not None:
            return {(None, self.first_node)}
        if self.first_rank is None:
            return set()
        ranks = range(self.nodes * self.procs) if self.who == "all" else [int(self.who)]
        return {(rank, rank // self.procs) for rank in ranks}


@dataclass(frozen=True)
class Result:
    """What was found, and what is wrong with it."""

    case: Case
    found: Explanation
    wrong: tuple[str, ...] = ()
    blamed: tuple[int | None, ...] = ()  # victims

    @property
    def is_wrong_with_confidence(self) -> bool:
        found = self.found.diagnosis
        return bool(self.wrong) and found is not None and found.confidence is Confidence.CERTAIN


@dataclass
class Started:
    """A case whose run has started."""

    case: Case
    run: Run
    acted: bool = field(default=False)


def start(case: Case, directory: Path) -> Started:
    """Submit the run of a case from a directory of its own."""
    project = directory / case.name
    project.mkdir()
    (project / "fails.py").write_text(SCRIPT)
    words = f"[{case.kind}, '{case.who}', {case.when}, '{case.timeout_s}']"
    (project / "fails.yaml").write_text(
        f"name: fails\nnodes: {case.nodes}\nprocs_per_node: {case.procs}\nentrypoint: {{script: fails.py}}\n"
        f"args: {words}\n{case.extra}\n"
    )
    options = []
    if case.profile:
        (project / "own.yaml").write_text(case.profile)
        options = ["--profile", "./own.yaml"]
    return Started(case, submit("./fails.yaml", *options, cwd=project))


def finish(started: Started) -> Result:
    """Wait for the end of a run, and compare its explanation with what is known."""
    case, run = started.case, started.run
    if case.act is not None:
        run.wait_step(3)
        case.act(run)
    run.wait_ended(limit_s=180)
    return judge(case, explain(run.paths))


def judge(case: Case, found: Explanation) -> Result:
    first = {(rank.rank, rank.node_rank) for rank in found.ranks if rank.role is Role.INITIATING}
    wrong = []
    if not (first <= case.initiating and bool(first) == bool(case.initiating)):
        wrong.append(f"ended by {sorted(map(str, first))}, not {sorted(map(str, case.initiating))}")
    category = found.diagnosis.category if found.diagnosis is not None else None
    if category != case.category:
        wrong.append(f"category {category}, not {case.category}")
    hosts = {rank.host for rank in found.ranks}
    if case.profile == "" and hosts - {os.uname().nodename}:
        wrong.append(f"hosts {hosts}")
    return Result(case, found, tuple(wrong), tuple(rank for rank, node in first - case.initiating))
