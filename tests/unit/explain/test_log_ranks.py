"""Where the rank of a failure is written: before its lines, in their fields, by its launcher, or in a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.explain.test_log_files import TIMEOUT, TRACE, first, prefixed


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        (TRACE + "MemoryError\nERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 2"
         " (pid: 1193) of binary: /opt/conda/bin/python\n", 2),
        (prefixed("Rank 6 | ", TRACE + "MemoryError"), 6),
        (prefixed("[rank 6] ", TRACE + "MemoryError"), 6),
        (prefixed("[6]<stderr>:", TRACE + "MemoryError"), 6),
        (prefixed("(Worker rank=6 pid=41) ", TRACE + "MemoryError"), 6),
        ('2026-03-02T08:00:11Z rank=6 level=error msg="uncaught exception: torch.OutOfMemoryError: CUDA"\n', 6),
        ('{"rank": 6, "exc": ' + json.dumps(TRACE + "MemoryError") + "}\n", 6),
        (TRACE + "MemoryError\nERROR:composer.cli.launcher:Rank 6 crashed with exit code 1.\n", 6),
        ("NVRM: Xid (PCI:0000:48:00): 48, pid=77, name=python, DBE (double bit error)\n"
         + prefixed("[rank6]: ", TRACE + "RuntimeError: CUDA error: uncorrectable ECC error encountered")
         + "      rank      : 2 (local_rank: 2)\n      exitcode  : -6 (pid: 90)\n", 6),
        ("gpu-01: rank 0 died from signal 15\ngpu-02: rank 6 died from signal 11 and dumped core\n", 6),
        (TRACE + "RuntimeError: [Rank 0]: Ranks 6 failed to pass monitoredBarrier in 300000 ms\n", 6),
        ("Missing ranks:\n6!: [allreduce.a]\nOne or more rank (marked by \"!\") is stalled for longer than 600 seconds."
         " Will shutdown.\n", 6),
        ("[WARNING] [RankMonitorServer:6] Did not get subsequent heartbeat. Waited 171.92 seconds.\n"
         "[WARNING] [RankMonitorServer:7] Did not get subsequent heartbeat. Waited 171.93 seconds.\n"
         "failed (exitcode: -9) local_rank: 2 (pid: 77) of binary: /opt/conda/bin/python\n", 6),
        ("ERROR rank=6 extraction failed\n" + TRACE + "MemoryError\n", 6),
        ("[rank 6] unhandled exception, host gpu-02\n" + TRACE + "MemoryError\n", 6),
        ("(TorchTrainer pid=1, ip=10.0.0.1) - (node_id=a, ip=10.0.0.2, pid=61) world_rank=5, local_rank=1\n"
         "(TorchTrainer pid=1, ip=10.0.0.1) - (node_id=a, ip=10.0.0.2, pid=62) world_rank=6, local_rank=2\n"
         "ray.exceptions.RayTaskError(MemoryError): ray::_RayTrainWorker__execute.get_next() (pid=62, ip=10.0.0.2)\n"
         '  File "loop.py", line 9, in train\n    f()\nMemoryError\n', 6),
        ("process 61 spawned with command: ['python', 'a.py', '--local_rank=6']\n"
         "process 62 spawned with command: ['python', 'a.py', '--local_rank=7']\n"
         "Sep  9 21:20:58 ds kernel: python[61]: segfault at 7f ip 00 sp 00 error 4 in cpu_adam.so\n"
         "['python', 'a.py', '--local_rank=7'] exits with return code = -11\n", 6),
    ],
)  # fmt: skip
def test_other_names_of_the_rank(text: str, rank: int, tmp_path: Path) -> None:
    assert first(tmp_path, text).rank == rank


def test_a_local_rank_is_no_rank_of_several_nodes(tmp_path: Path) -> None:
    text = (
        "+ torchrun --nnodes=2 train.py\n"
        + TRACE
        + "MemoryError\n[ERROR] failed (exitcode: 1) local_rank: 2 (pid: 1)\n"
    )
    assert first(tmp_path, text).rank is None
    assert first(tmp_path, text.replace("nnodes=2", "nnodes=1")).rank == 2


@pytest.mark.parametrize(
    ("prefix", "rank", "other"),
    [
        ("rank 6 ", 6, "rank 0 "),
        ("[gpu02:6] ", 6, "[gpu01:0] "),
        ("(train) 6/8: ", 6, "(train) 0/8: "),
        ("2026-03-02T08:00:11Z 4f1b [rank=6] || ", 6, "2026-03-02T08:00:12Z 4f1b [rank=0] || "),
        ("worker-6 | ", 6, "worker-0 | "),
        ("core.py:33] ", None, "core.py:34] "),
        ("[pid 33] ", None, "[pid 34] "),
        ("node-6> ", None, "node-0> "),
        ("a> ", None, "b> "),
    ],
)
def test_a_prefix_is_learned_from_a_traceback(prefix: str, rank: int | None, other: str, tmp_path: Path) -> None:
    late = prefixed(other, f"{TRACE}RuntimeError: {TIMEOUT.format(rank=0)}")
    found = first(tmp_path, late.replace("08:00:11", "08:00:12") + prefixed(prefix, f"{TRACE}MemoryError"))
    assert (found.rule, found.rank) == ("host_memory_refused", rank)


STALL = (
    '[E stall_inspector.cc:81] One or more rank (marked by "!") are stalled for longer than 600 seconds. Will shutdown.'
)
DESYNC = "the lagging ranks that caused the desync are:\n  - [6] joined but didn't finish collective #5, broadcast\n"


@pytest.mark.parametrize(
    "report",
    [
        TRACE + "RuntimeError: [Rank 0]: Rank 6 failed to pass monitoredBarrier in 1800000 ms\n",
        TRACE + "AssertionError: Rank 6: found NaN in local grad norm\n",
        TRACE + "CheckpointException: CheckpointException ranks:dict_keys([6])\n",
        f"{STALL}\nMissing ranks:\n6!: [allreduce.fc.weight]\n{TRACE}RuntimeError: Horovod has been shut down.\n",
        f"{TIMEOUT.format(rank=0)}\n{DESYNC}",
    ],
    ids=["barrier", "message", "checkpoint", "Horovod", "desync"],
)
def test_the_rank_that_a_report_blames(report: str, tmp_path: Path) -> None:
    assert first(tmp_path, prefixed("[rank0]: ", report.rstrip())).rank == 6


@pytest.mark.parametrize(
    "more", ["  - [5, 7] finished collective #4, allgather\n", "  - [5] joined but didn't finish collective #4\n"]
)
def test_of_several_ranks_a_report_blames_none(more: str, tmp_path: Path) -> None:
    report = f"{TIMEOUT.format(rank=0)}\n{DESYNC}"
    assert first(tmp_path, prefixed("[rank0]: ", (report + more).rstrip())).rank == 0
    states = f"{report}  - Snapshot of ranks' latest states:\n{more}"
    assert first(tmp_path, prefixed("[rank0]: ", states.rstrip())).rank == 6


WATCHDOG = "[E ProcessGroupNCCL.cpp:916] [Rank 6] NCCL watchdog thread terminated with exception: CUDA error: an ECC\n"
LOST = "[rank{}]: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error\n"


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        (f"{TRACE}RuntimeError: CUDA error: an ECC\n{WATCHDOG}", 6),
        (f"{TRACE}AssertionError: bad\n[rank6] exiting with 1 after failed check\n" + LOST.format(0), 6),
        (f"{TRACE}AssertionError: bad\n" + LOST.format(0), None),
        ("(Trainer pid=8) - (node_id=77c2, ip=10.0.13.9, pid=3310) world_rank=6, local_rank=0, node_rank=1\n"
         "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
         "Memory where the task (actor ID: 5d4f, name=RayTrainWorker.__init__, pid=3310, memory used=117.92GB)\n", 6),
        (f"{TRACE}MemoryError\nrank=6 exit=-11 (core dumped)\nrank=0 got ncclRemoteError, exiting\n", 6),
        (f"{TRACE}MemoryError\n['python', 'a.py', '--local_rank=6'] exits with return code = -6\n", None),  # see _LOCAL
        ("prterun noticed that process rank 6 with PID 2 on node n17 exited on\nsignal 11 (Segmentation fault).\n", 6),
    ],
)  # fmt: skip
def test_the_rank_of_a_failure_is_announced_elsewhere(text: str, rank: int | None, tmp_path: Path) -> None:
    assert first(tmp_path, text).rank == rank


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("[2024-08-14 11:20:00] [n04 r6] ", "[2024-08-14 11:20:00] [n04 r0] "),
        ("2026-01-20 10:00:00 | INFO | rank 6/8 | ", "2026-01-20 10:00:00 | INFO | rank 0/8 | "),
        ("2025-09-12 08:30:01.215 | ERROR    | a:f:37 - [r6] ", "2025-09-12 08:30:01.215 | ERROR    | a:f:3 - [r0] "),
    ],
)  # fmt: skip
def test_a_rank_in_a_column_is_that_of_the_traceback_below(one: str, other: str, tmp_path: Path) -> None:
    caught = TRACE.replace('  File "', '> File "')
    found = first(tmp_path, f"{other}step 1\n{one}failed\n{caught}MemoryError\n{other}exit -15\n")
    assert (found.rule, found.rank) == ("host_memory_refused", 6)


@pytest.mark.parametrize(("other", "rank"), [("0", 1), ("4711", None)])
def test_a_number_behind_the_level_is_a_rank_where_it_counts_ranks(
    other: str, rank: int | None, tmp_path: Path
) -> None:
    line = "2025-01-25 20:57:35,570 ERROR [{}] {}\n"
    assert first(tmp_path, f"{line.format(other, 'x')}{line.format(1, 'giving up')}{TRACE}MemoryError\n").rank == rank


POD = "[bert-{}-{}] [rank{}]: step 1\n"


@pytest.mark.parametrize(
    ("seen", "rank"),
    [
        (POD.format("master", 0, 0) + POD.format("worker", 0, 1), 6),
        (POD.format("master", 0, 0) + POD.format("worker", 0, 8), None),
        ("", None),
    ],
)
def test_a_pod_is_the_rank_that_its_lines_have(seen: str, rank: int | None, tmp_path: Path) -> None:
    events = "2m  Warning  Evicted  pod/bert-worker-5  The node was low on resource: memory.\n"
    assert first(tmp_path, seen + events).rank == rank
