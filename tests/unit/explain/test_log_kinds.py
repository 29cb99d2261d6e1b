"""Kinds of failures in the words of many programs: refused arguments, schedulers, clouds, monitors."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.explain.categories import Category
from tests.unit.explain.test_log_files import TIMEOUT, TRACE, diagnose, first, prefixed

FRAME = 'Traceback (most recent call last):\n  File "{}", line 8, in f\n    raise ValueError(x)\n'
GONE = f"{TRACE}torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error\n"


@pytest.mark.parametrize(
    "text",
    [
        "usage: train.py [-h]\ntrain.py: error: --lr must be positive",
        "accelerate <command> [<args>] launch: error: unrecognized arguments: --x",
        "Usage: train.py [OPTIONS]\nTry 'train.py --help' for help.\n\nError: Invalid value for '--lr': 'x'.",
        "╭─ Error ─────────────╮\n│ No such option: --x │\n╰─────────────────────╯",
        "ERROR: The function received no value for the required argument: config\nUsage: train.py CONFIG",
        "FATAL Flags parsing error:\n  Unknown command line flag 'x'\nPass --helpshort to see help on flags.",
        f"{TRACE}absl.flags._exceptions.UnrecognizedFlagError: Unknown command line flag 'x'",
        "In 'config': Could not find 'model/gpt3'\n\nAvailable options in 'model':\n\tgpt2",
        'error: Validation failed: No action for key "modell" to check its value.',
        'mpirun: Error: unknown option "--foo"',
        f"{TRACE}ValueError: You need to manually pass in `--num_processes` using this config yaml.",
        "Missing mandatory value: data.path\n    full_key: data.path\n    object_type=dict",
        f"{TRACE}omegaconf.errors.MissingMandatoryValue: Missing mandatory value: data.path",
        f"{TRACE}hydra.errors.InstantiationException: Error locating target 'a.B', set env var HYDRA_FULL_ERROR=1",
        f"{TRACE}jsonschema.exceptions.ValidationError: 'lr' is a required property",
        f"{TRACE}voluptuous.error.MultipleInvalid: extra keys not allowed @ data['lrr']",
        f"{TRACE}allennlp.common.checks.ConfigurationError: key 'model' is required",
        FRAME.format("/env/torch/distributed/run.py") + 'RuntimeError: nnodes=1:2:3 is not in "MIN:MAX" format',
        FRAME.format("/env/accelerate/commands/launch.py") + "ValueError: You need to use at least 2 processes",
        FRAME.format("/env/transformers/training_args.py") + "ValueError: `--fp16` needs another setup",
        FRAME.format("/home/ann/config.py") + "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        f"{TRACE}tomllib.TOMLDecodeError: Invalid value (at line 3, column 7)",
    ],
)
def test_what_a_user_wrote_is_refused(text: str, tmp_path: Path) -> None:
    assert first(tmp_path, f"{text}\n").category is Category.CONFIGURATION


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("ValueError: batch size must be positive", Category.EXCEPTION),
        ("AssertionError: lr must be positive", Category.ASSERTION),
        ("json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)", Category.EXCEPTION),
        ("hydra.errors.InstantiationException: Error in call to target 'a.B':\nTypeError('x')", Category.EXCEPTION),
    ],
)
def test_an_error_of_the_program_is_no_refusal(text: str, category: Category, tmp_path: Path) -> None:
    assert first(tmp_path, f"{TRACE}{text}\n").category is category


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("Events:\n  Warning  FailedScheduling  2m  default-scheduler  0/4 nodes are available: 4 Insufficient cpu.\n",
         Category.SCHEDULER),
        ("couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor a100\n",
         Category.SCHEDULER),
        ("srun: error: Task launch for StepId=7.0 failed on node a2: Invalid job credential\n"
         "srun: error: Timed out waiting for job step to complete\n", Category.SCHEDULER),
        ("   JobState=PENDING Reason=launch_failed_requeued_held\ncat: slurm-7.out: No such file or directory\n",
         Category.SCHEDULER),
        (f"{TRACE}submitit.core.utils.FailedJobError: sbatch: error: invalid partition specified: gpuu\n",
         Category.SCHEDULER),
        (f"{TRACE}subprocess.CalledProcessError: Command '['sbatch', 'run.sh']' returned non-zero exit status 1.\n",
         Category.SCHEDULER),
        ("  Warning  Evict  58s  volcano  Pod is evicted, because of preempt\n" + GONE, Category.PREEMPTION),
        ("WRN Spot ITN received. Instance will be interrupted at 2025-03-15T22:10:00Z\n" + GONE, Category.PREEMPTION),
        ("Completed <exit>; TERM_PREEMPT: job killed after preemption.\n" + GONE, Category.PREEMPTION),
        (GONE + "Tue Mar  4 05:11:07: Unknown; unable to reach the execution host;\n", Category.NODE_FAILURE),
        (GONE + "instance i-1: system status check failed (reachability)\n", Category.NODE_FAILURE),
        (GONE + "  1c | 08/14/2024 | 11:20:24 | Power Unit Pwr Unit Status | Power off/down | Asserted\n"
         "ssh: connect to host n05 port 22: No route to host\n", Category.NODE_FAILURE),
        ("The node with client ID 5 has been marked dead because the monitor has missed too many heartbeats from it.\n"
         f"{TRACE}ray.worker.RayGetError: Could not get objectid\n", Category.NODE_FAILURE),
        ("[RankMonitorServer:2] Section 'step' has been open for 600.41 seconds. Timeout is 600.00 seconds.\n"
         "srun: error: a3-2: task 2: Killed\n", Category.HANG),
        ("supervisor: training is not making progress, killing it\nworkers ended, exit status 137\n", Category.HANG),
        ("[launcher] heartbeat of rank 3 not updated since 1801 s; assuming a hang, sending SIGKILL\nexit status 137\n",
         Category.HANG),
        ("heartbeat ok 3 s ago\nsrun: error: n1: task 3: Killed\n", Category.OOM_KILLER),
        ("JOBID PARTITION NODELIST(REASON)\n71 gpu PD 0:00 8 (PartitionNodeLimit)\n", Category.SCHEDULER),
        ("queue_x: No such queue. Job not submitted.\n", Category.SCHEDULER),
        (f"slurmctld: error: Nodes gpu[03] not responding, setting DOWN\n{TIMEOUT.format(rank=0)}\n",
         Category.NODE_FAILURE),
        (f"gpu-3: rebooted unexpectedly at 03:10\n{TIMEOUT.format(rank=0)}\n", Category.NODE_FAILURE),
        ("Job 1234 requeued by higher priority job 999\n" + GONE, Category.PREEMPTION),
        ("+ timeout 4h torchrun train.py\nReceived Signals.SIGTERM death signal, shutting down workers\n"
         "ended with status 124\n", Category.TIME_LIMIT),
        ("WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('x')': /simple/deepspeed/\n"
         "ERROR: No matching distribution found for deepspeed\n", Category.NETWORK),
        (f"{TRACE}ValueError: DistributedDataParallel's input module must be on the same type of devices\n",
         Category.DEVICE_MISMATCH),
    ],
)  # fmt: skip
def test_what_ended_the_job(text: str, category: Category, tmp_path: Path) -> None:
    assert first(tmp_path, text).category is category


def test_a_rank_that_is_late_at_a_monitored_barrier_is_one_of_gloo(tmp_path: Path) -> None:
    text = f"{TRACE}RuntimeError: [Rank 0]: Rank 6 failed to pass monitoredBarrier in 600000 ms\n"
    assert first(tmp_path, text).category is Category.GLOO


def test_a_watchdog_of_nccl_is_no_monitor_of_ranks(tmp_path: Path) -> None:
    found = diagnose(tmp_path, TIMEOUT.format(rank=0) + "\nheartbeat of the agent is 2 s old\n").first
    assert found is not None and found.category is Category.NCCL


@pytest.mark.parametrize(
    ("text", "category"),
    [
        (f"{TRACE}OSError: [Errno 70] Communication error on send: '/beegfs/a.jpg'", Category.STORAGE),
        (f"{TRACE}OSError: [Errno 110] Connection timed out: '/nfs/a.bin'", Category.STORAGE),
        (
            f"{TRACE}google.api_core.exceptions.Forbidden: 403 POST https://storage.googleapis.com/a",
            Category.PERMISSION,
        ),
        (f"{TRACE}ray.train.WorkerHealthCheckTimeoutError: A worker health check has been hanging", Category.HANG),
        ("Received stop request for job raysubmit_7Qk\nJob 'raysubmit_7Qk' STOPPED", Category.CANCELLED),
        (
            prefixed("[rank: 3] ", f"{TRACE}ValueError: x") + "a.sh: line 15:  4390 Killed       a.py",
            Category.EXCEPTION,
        ),
        (
            "13: a:1:2 [5] transport/net_ib.cc:1698 NCCL WARN NET/IB: Got completion from peer 10.1.0.31<53110> with"
            " status=12 opcode=0 len=0 vendor err 129 (Recv)\nsrun: error: a: task 13: Aborted (core dumped)",
            Category.NCCL,
        ),
    ],
)
def test_what_ends_many_processes_explains_none_of_them(text: str, category: Category, tmp_path: Path) -> None:
    assert first(tmp_path, text).category is category
