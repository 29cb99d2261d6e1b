"""Logs of launchers in which a prefix is a node, and exceptions that are no end or stand for another one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsdpctl.explain.categories import Category, Role
from tests.unit.explain.test_log_files import SUMMARY, TIMEOUT, TRACE, diagnose, first, prefixed

AGENT = "[WARNING] torch.distributed.elastic.multiprocessing.api: Sending process 5930 closing signal SIGTERM\n"
ON_GPU_02 = SUMMARY.format(code=1, traceback="To enable traceback see")  # its rank is 9


@pytest.mark.parametrize(
    "prefix", ["{}: ", "[pod/bert-worker-{}/pytorch] "], ids=["a launcher of each srun task", "kubectl logs --prefix"]
)
def test_ranks_of_a_node_are_named_by_its_launcher(prefix: str, tmp_path: Path) -> None:
    text = prefixed(prefix.format(1), TRACE + "ZeroDivisionError: division by zero\n" + AGENT + ON_GPU_02)
    others = prefixed(prefix.format(0), TIMEOUT.format(rank=0) + "\n" + AGENT)
    found = diagnose(tmp_path, others + text)
    assert [(one.rank, one.role, one.rule) for one in found.failures] == [
        (9, Role.INITIATING, "division_by_zero"),
        (None, Role.CASCADE, "nccl_timeout"),
    ]


def test_a_pod_is_the_host_of_its_lines(tmp_path: Path) -> None:
    line = "python3: Error while finding module specification for 'torch.distributed.run' (ModuleNotFoundError: No"
    found = first(tmp_path, prefixed("[pod/bert-master-0/pytorch] ", f"{line} module named 'torch')"))
    assert (found.rule, found.host) == ("missing_module", "bert-master-0")


def test_a_task_of_srun_that_starts_processes_is_no_rank(tmp_path: Path) -> None:
    text = "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 5 terminated with the following error:\n"
    assert first(tmp_path, prefixed("0: ", f"{text}{TRACE}ZeroDivisionError: division by zero")).rank == 5


def test_the_prefix_of_sagemaker_names_the_rank(tmp_path: Path) -> None:
    text = prefixed("[1,mpirank:11,algo-2]<stderr>:", TRACE + "KeyError: 'labels'")
    assert first(tmp_path, text).rank == 11


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        (f"-- Process 1 terminated with the following error:\n{TRACE}ZeroDivisionError: division by zero\n", 1),
        ("torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal SIGSEGV\n", 2),
    ],
)
def test_multiprocessing_names_the_process_that_ended(text: str, rank: int, tmp_path: Path) -> None:
    assert first(tmp_path, text).rank == rank


SKIPPED = (
    f"WARNING: failed to decode sample 93346, substituting a random one\n{TRACE}OSError: image file is truncated\n"
)


@pytest.mark.parametrize(
    ("end", "rule"),
    [
        ("Fatal Python error: Segmentation fault\n", "segfault_traced"),
        (f"{TIMEOUT.format(rank=1)}\nterminate called\n", "nccl_timeout"),
        ("Timeout (0:20:00)!\n", "hang_watchdog"),
        ("ERROR: Job failed: execution took longer than 6h0m0s seconds\n", "slurm_time_limit"),
    ],
)
def test_an_exception_that_a_warning_announces_was_caught(end: str, rule: str, tmp_path: Path) -> None:
    assert first(tmp_path, f"torch.distributed rank 0\nstep 1 loss 2.3\n{SKIPPED}step 2 loss 2.2\n{end}").rule == rule


@pytest.mark.parametrize(
    "caught",
    [
        f"{TRACE}ModuleNotFoundError: No module named 'flash_attn_2_cuda'\nINFO: flash-attn unavailable, using sdpa\n",
        f"{TRACE}TimeoutError: The read operation timed out\n[hub] attempt 1/5 failed, retrying in 2 s\n",
        f"{TRACE}OSError: x\n\nDuring handling of the above exception, another exception occurred:\n\n"
        f"{TRACE}ValueError: bad image\nWARNING:data:skipping sample, replaced by a random one\n",
        f"Exception in thread ChkStopThr:\n{TRACE}BrokenPipeError: [Errno 32] Broken pipe\n",
    ],
)
def test_an_exception_after_which_the_process_continued_was_caught(caught: str, tmp_path: Path) -> None:
    end = f"{TRACE}ZeroDivisionError: division by zero\n"
    assert first(tmp_path, f"torch.distributed rank 0\n{caught}{end}").rule == "division_by_zero"
    assert first(tmp_path, f"{end}{caught}").rule == "division_by_zero"


def test_an_exception_that_was_caught_is_still_found_where_nothing_else_is(tmp_path: Path) -> None:
    assert first(tmp_path, SKIPPED).line == "OSError: image file is truncated"


@pytest.mark.parametrize(
    "warning", ["WARNING: ignoring unknown key `foo`", "WARNING:x:tf.y is deprecated, use tf.z instead", "a line"]
)
def test_another_warning_before_an_exception_means_nothing(warning: str, tmp_path: Path) -> None:
    end = prefixed("[rank0]: ", f"{warning}\n{TRACE}OSError: image file is truncated")
    found = diagnose(tmp_path, end + prefixed("[rank1]: ", TIMEOUT.format(rank=1)))
    assert [(one.rank, one.role) for one in found.failures] == [(0, Role.INITIATING), (1, Role.CASCADE)]


HANDLING = "\nDuring handling of the above exception, another exception occurred:\n\n"
LOAD = '  File "/app/data.py", line {}, in load\n    {}\n'
OPEN = '  File "/usr/lib/python3.11/json/decoder.py", line 353, in raw_decode\n    raise JSONDecodeError("x", s, 0)\n'
HEAD = "Traceback (most recent call last):\n"
DENIED = HEAD + LOAD.format(7, "open(path)") + "PermissionError: [Errno 13] Permission denied: '/data/x'\n"


@pytest.mark.parametrize(
    ("later", "rule"),
    [
        (LOAD.format(9, 'raise DataError("cannot load x") from None'), "permission"),
        (LOAD.format(9, 'log(error); raise DataError("cannot load x")') + "               ^^^^^^^^\n", "permission"),
        (LOAD.format(9, "return self.cache[path]"), "exception"),
        (LOAD.format(9, "return json.loads(default)") + OPEN, "exception"),
    ],
)
def test_what_a_function_raises_for_what_it_caught_stands_for_that(later: str, rule: str, tmp_path: Path) -> None:
    assert first(tmp_path, DENIED + HANDLING + HEAD + later + "data.DataError: cannot load x\n").rule == rule


def test_a_mistake_in_a_handler_is_no_cause(tmp_path: Path) -> None:
    mistake = LOAD.format(9, "writer.close()") + "NameError: name 'writer' is not defined\n"
    assert first(tmp_path, DENIED + HANDLING + HEAD + mistake).rule == "permission"


def test_a_rank_that_was_killed_before_its_peers_raise_is_the_cause(tmp_path: Path) -> None:
    killed = "slurmstepd: error: Detected 3 oom-kill event(s) in step 44.0 cgroup. Some processes may have been\n"
    lost = f"{TRACE}RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:784, unhandled system error, NCCL version 2.7.8\n"
    assert first(tmp_path, killed + lost).rule == "slurm_oom_kill"


def test_an_assertion_without_a_message_after_a_loss_that_is_not_finite(tmp_path: Path) -> None:
    text = f"2023-08-05 06:47:45 - mmengine - INFO - loss become infinite or NaN!\n{TRACE}AssertionError: None\n"
    assert first(tmp_path, text).rule == "nan_line"
    assert first(tmp_path, f"{TRACE}AssertionError: None\n").rule == "assertion"


def test_what_a_watchdog_kills_did_not_run_out_of_memory(tmp_path: Path) -> None:
    reaped = "INFO:torch.distributed.elastic.timer.api:Reaping worker_id=[72784]. Expired timers: ['train_step']\n"
    summary = SUMMARY.format(code=-9, traceback="Signal 9 (SIGKILL) received by PID 72784")
    assert first(tmp_path, reaped + summary).rule == "hang_watchdog"


def test_the_cause_is_below_what_ray_reports_of_its_run(tmp_path: Path) -> None:
    text = (
        "ray.exceptions.RayTaskError(ModuleNotFoundError): ray::_Inner.train() (pid=76756, ip=10.54.175.113)\n"
        '  File "/home/ann/train_ray.py", line 41, in loop\n    import albumentations\n'
        "ModuleNotFoundError: No module named 'albumentations'\n"
        "ray.train.base_trainer.TrainingFailedError: The Ray Train run failed.\n"
    )
    assert first(tmp_path, text).rule == "missing_module"


@pytest.mark.parametrize("key", ["log", "line", "message"])
def test_lines_that_a_collector_wrote_as_json(key: str, tmp_path: Path) -> None:
    lines = (TRACE + "OSError: [Errno 28] No space left on device\n").splitlines(keepends=True)
    taken = [json.dumps({key: line, "stream": "stderr", "time": "2024-09-09T09:09:40.001Z"}) for line in lines]
    found = first(tmp_path, "\n".join(taken) + "\n")
    assert (found.rule, found.frame and found.frame.line) == ("disk_full", 8)


def test_an_exception_in_a_field_of_a_logger(tmp_path: Path) -> None:
    line = '{"level":"fatal","msg":"unhandled","exc":"botocore.exceptions.EndpointConnectionError: Could not"}\n'
    assert first(tmp_path, line).category is Category.NETWORK


@pytest.mark.parametrize("known", ["", "rank=4 "])
def test_an_exception_in_a_group_is_found_behind_the_prefix_of_a_rank(known: str, tmp_path: Path) -> None:
    group = (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/app/main.py", line 40, in main\n'
        "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | Traceback (most recent call last):\n"
        '    |   File "/app/feed.py", line 13, in prefetch\n'
        "    | ZeroDivisionError: float division by zero\n"
        "    +------------------------------------"
    )
    assert first(tmp_path, prefixed(known, group)).rule == "division_by_zero"


RESTART = "I0302 08:00:00.1 4 api.py:914] [default] Worker group FAILED. 1/2 attempts left; will restart worker group\n"


@pytest.mark.parametrize(
    ("last", "rule", "rank"),
    [
        (prefixed("[rank0]: ", TRACE + "ZeroDivisionError: division by zero"), "division_by_zero", 0),
        (AGENT, "host_memory_refused", 3),
    ],
    ids=["the last attempt shows why", "it shows nothing"],
)
def test_an_attempt_that_was_started_anew_is_no_end(last: str, rule: str, rank: int, tmp_path: Path) -> None:
    found = first(tmp_path, prefixed("[rank3]: ", TRACE + "MemoryError") + RESTART + last)
    assert (found.rule, found.rank) == (rule, rank)


STALLED = (
    '[E stall_inspector.cc:81] One or more rank (marked by "!") are stalled for longer than 600 seconds. Will shutdown.'
)
CANCELLED = "slurmstepd: error: *** STEP 4.0 ON gpu-01 CANCELLED AT 2026-01-30T02:02:02 ***\n"
LEFT = "srun: error: gpu-02: task 2: Exited with exit code 1\n"


@pytest.mark.parametrize(
    ("text", "category"),
    [
        (LEFT + CANCELLED, Category.UNKNOWN),
        (CANCELLED + LEFT, Category.CANCELLED),
        (AGENT + "failed (exitcode: 1) local_rank: 6 (pid: 17) of binary: /usr/bin/python3\n", Category.UNKNOWN),
        (AGENT, Category.CANCELLED),
    ],
)
def test_a_launcher_that_ends_the_others_cancels_nothing(text: str, category: Category, tmp_path: Path) -> None:
    assert first(tmp_path, text).category is category


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("x.c:177  Transport retry count exceeded on mlx5_2:1/IB\nAborted (core dumped)\n", "nccl_ib"),
        (
            "NCCL WARN NET/IB : Got completion from peer 192.0.2.4<1> with status=12\n  exitcode  : -6 (pid: 1)\n",
            "nccl_ib",
        ),
        (f"{STALLED}\n{TRACE}RuntimeError: Horovod has been shut down.\n", "hang_watchdog"),
    ],
)
def test_a_hint_explains_more_than_an_end_without_a_cause(text: str, rule: str, tmp_path: Path) -> None:
    assert first(tmp_path, text).rule == rule


def test_the_main_thread_ends_with_the_one_that_pins_its_memory(tmp_path: Path) -> None:
    thread = f"Exception in thread Thread-4 (_pin_memory_loop):\n{TRACE}OSError: [Errno 12] Cannot allocate memory\n"
    text = f"{thread}{TRACE}RuntimeError: Pin memory thread exited unexpectedly\n"
    assert first(tmp_path, text).rule == "host_memory_refused"
