"""Logs of whole jobs: which failure came first, which followed, and what looks like a failure and is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsdpctl.explain.categories import Category, Role
from fsdpctl.explain.logs.diagnosis import Failure, LogDiagnosis
from fsdpctl.explain.logs.files import explain_files
from fsdpctl.explain.logs.streams import MAX_BYTES
from fsdpctl.explain.rule import Strength
from fsdpctl.explain.rulebook import all_rules, rule_of
from tests.processor_time import done_within

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.15 GiB"
TRACE = 'Traceback (most recent call last):\n  File "/home/ann/train.py", line 8, in step\n    loss.backward()\n'
TIMEOUT = (
    "[E ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7753,"
    " OpType=_REDUCE_SCATTER_BASE, NumelIn=544997376, NumelOut=68124672, Timeout(ms)=600000) ran for 600061"
    " milliseconds before timing out."
)
STEPS = "".join(f"step {number} loss 2.{number} lr 1e-4\n" for number in range(9))
SUMMARY = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-03-01_10:00:03
  host      : gpu-01
  rank      : 0 (local_rank: 0)
  exitcode  : -6 (pid: 77)
  traceback : Signal 6 (SIGABRT) received by PID 77
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-03-01_10:00:01
  host      : gpu-02
  rank      : 9 (local_rank: 1)
  exitcode  : {code} (pid: 78)
  error_file: <N/A>
  traceback : {traceback}
============================================================
"""


def diagnose(tmp_path: Path, *texts: str) -> LogDiagnosis:
    paths = [tmp_path / f"{number}.log" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return explain_files(paths)


def first(tmp_path: Path, *texts: str) -> Failure:
    found = diagnose(tmp_path, *texts).first
    assert found is not None
    return found


def test_a_launcher_that_repeats_the_error_of_a_rank_is_no_second_failure(tmp_path: Path) -> None:
    text = "KeyError: 'labels'\n"
    found = diagnose(tmp_path, f"[rank1]: {TRACE.splitlines()[0]}\n[rank1]: {text}", f"rank 1 failed:\n{TRACE}{text}")
    assert [failure.rank for failure in found.failures] == [1]


def prefixed(prefix: str, text: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


def roles(diagnosis: LogDiagnosis) -> list[tuple[int | None, Role, str]]:
    return [(failure.rank, failure.role, failure.rule) for failure in diagnosis.failures]


# --- many ranks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["[rank{}]: ", "[default{}]:[rank{}]: ", "{}: ", "[1,{}]<stderr>:", "rank{} | "])
def test_the_rank_without_memory_is_first_and_those_that_waited_for_it_follow(prefix: str, tmp_path: Path) -> None:
    def of(rank: int) -> str:
        return prefix.replace("{}", str(rank))

    text = (
        STEPS + prefixed(of(3), TRACE + OOM) + "".join(of(rank) + TIMEOUT.format(rank=rank) + "\n" for rank in (0, 1))
    )
    assert roles(diagnose(tmp_path, text)) == [
        (3, Role.INITIATING, "cuda_oom_allocated"),
        (0, Role.CASCADE, "nccl_timeout"),
        (1, Role.CASCADE, "nccl_timeout"),
    ]


def test_waiting_ranks_that_report_earlier_are_not_blamed(tmp_path: Path) -> None:
    text = prefixed("[rank0]: ", TIMEOUT.format(rank=0)) + prefixed("[rank5]: ", TRACE + "KeyError: 'input_ids'")
    assert first(tmp_path, text).rank == 5


def test_the_summary_of_torchrun_names_rank_and_host_of_a_killed_process(tmp_path: Path) -> None:
    summary = SUMMARY.format(code=-9, traceback="Signal 9 (SIGKILL) received by PID 78")
    found = first(
        tmp_path, STEPS + prefixed("[rank0]: ", TRACE + "RuntimeError: NCCL communicator was aborted") + summary
    )
    assert (found.category, found.rank, found.host) == (Category.OOM_KILLER, 9, "gpu-02")


def test_the_summary_of_torchrun_names_the_rank_of_a_traceback_without_prefix(tmp_path: Path) -> None:
    text = TRACE + "ZeroDivisionError: division by zero\n" + TRACE + SUMMARY.format(code=1, traceback="To enable")
    found = first(tmp_path, text)
    assert (found.rule, found.rank, found.host) == ("division_by_zero", 9, "gpu-02")


def test_what_torchrun_lists_after_the_first_failure_is_no_cause(tmp_path: Path) -> None:
    text = (
        TRACE
        + "KeyError: 'a'\n"
        + SUMMARY.format(code=1, traceback="To enable")
        .replace("-6", "-9")
        .replace("Signal 6 (SIGABRT)", "Signal 9 (SIGKILL)")
    )
    assert first(tmp_path, text).rule == "key_error"
    only = first(tmp_path, text.removeprefix(TRACE + "KeyError: 'a'\n"))
    assert (only.rule, only.rank) == ("child_failed", 9)


@pytest.mark.parametrize(
    ("text", "rank", "host"),
    [
        ("srun: error: gpu-03: task 4: Segmentation fault (core dumped)", 4, "gpu-03"),
        ("srun: error: gpu-01: task 2: Terminated\nsrun: error: gpu-03: task 5: Out Of Memory", 5, "gpu-03"),
        ("mpirun noticed that process rank 3 with PID 7 on node gpu-02 exited on signal 9 (Killed).", 3, "gpu-02"),
    ],
)
def test_launchers_name_the_rank_that_ended(text: str, rank: int, host: str, tmp_path: Path) -> None:
    found = first(tmp_path, STEPS + text + "\n")
    assert (found.rank, found.host) == (rank, host)


def test_without_prefixes_the_first_of_several_exceptions_counts(tmp_path: Path) -> None:
    lost = (
        "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a network error"
    )
    text = TRACE + lost + "\n" + TRACE + OOM + "\n" + TRACE + "RuntimeError: torch.distributed is not ready\n" + TIMEOUT
    assert first(tmp_path, text).category is Category.CUDA_OOM


def test_one_file_per_rank_is_ordered_by_time(tmp_path: Path) -> None:
    def log(clock: str, error: str) -> str:
        return f"2026-03-01 {clock} step 4 loss 2.1\n{TRACE}{error}\n"

    found = diagnose(
        tmp_path, log("10:00:09", "ValueError: shapes"), log("10:00:02", "KeyError: 'a'"), TIMEOUT.format(rank=2)
    )
    assert [Path(failure.file).name for failure in found.failures] == ["1.log", "0.log", "2.log"]


def test_ranks_with_the_same_failure_are_all_initiating(tmp_path: Path) -> None:
    text = "".join(prefixed(f"[rank{rank}]: ", TRACE + "FileNotFoundError: /data") for rank in range(4))
    assert {role for _, role, _ in roles(diagnose(tmp_path, text))} == {Role.INITIATING}


def test_ranks_of_a_second_node_have_their_global_numbers(tmp_path: Path) -> None:
    text = "[default1]:step 1\n" + prefixed("[default1]:[rank9]: ", TRACE + "KeyError: 'a'")
    text += "[default2]:" + TIMEOUT.format(rank=10) + "\n"
    assert [failure.rank for failure in diagnose(tmp_path, text).failures] == [9, 10]


def test_a_rank_that_waited_is_not_blamed_where_no_other_is_known(tmp_path: Path) -> None:
    found = first(tmp_path, prefixed("[rank0]: ", TIMEOUT.format(rank=0)))
    assert (found.role, found.rule) == (Role.CASCADE, "nccl_timeout")


def test_what_ended_on_request_is_teardown(tmp_path: Path) -> None:
    text = prefixed("[rank1]: ", TRACE + "KeyError: 'a'") + prefixed("[rank0]: ", "Terminated")
    assert roles(diagnose(tmp_path, text))[1] == (0, Role.TEARDOWN, "terminated")


# --- what ended a process --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (
            TRACE + "KeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\n" + TRACE
            + "ValueError: bad batch",
            "exception",
        ),
        (
            TRACE + OOM + "\n\nDuring handling of the above exception, another exception occurred:\n\n" + TRACE
            + "RuntimeError: could not save",
            "cuda_oom_allocated",
        ),
        (
            TRACE + "FileNotFoundError: [Errno 2] No such file or directory: 'x'\n\nThe above exception was the direct"
            " cause of the following exception:\n\n" + TRACE + "RuntimeError: cannot start",
            "file_not_found",
        ),
        (
            TRACE + "ModuleNotFoundError: No module named 'apex'\n\nDuring handling of the above exception, another"
            " exception occurred:\n\n" + TRACE + "ValueError: bad argument",
            "exception",
        ),
        (
            TRACE + "RuntimeError: Caught KeyError in DataLoader worker process 0.\nOriginal " + TRACE
            + "KeyError: 'label'",
            "key_error",
        ),
        (STEPS + "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.0\n" + TRACE
         + "BrokenPipeError: [Errno 32]", "slurm_oom_kill"),
        (TRACE + "KeyboardInterrupt\nslurmstepd: error: *** JOB 1 ON n CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME"
         " LIMIT ***", "slurm_time_limit"),
        (TRACE + "AssertionError\nslurmstepd: error: *** JOB 1 ON n CANCELLED AT 2026-01-01T00:00:00 ***", "assertion"),
        (TRACE + "RuntimeError: x\nSegmentation fault (core dumped)", "runtime_error"),
        ("Fatal Python error: Segmentation fault\n" + TIMEOUT + "\nAborted (core dumped)", "segfault_traced"),
        ("  0%|       | 0/123 [00:00<?, ?img/s]" + TRACE + "ZeroDivisionError: division by zero", "division_by_zero"),
        (" 46%|####      | 31/67 [29:02<35:12, 58.67s/it]Killed", "sigkill"),
        ("2026-03-01 10:00:00,1 ERROR train: loss is nan at step 5, aborting\n" + prefixed("[rank0]: ", TRACE
         + "RuntimeError: [pair.cc:534] Connection closed by peer [192.0.2.4]:29999"), "nan_line"),
        (prefixed("[rank1]: ", "  + Exception Group " + TRACE.replace("\n  ", "\n  |   ")
         + "  | ExceptionGroup: workers (1 sub-exception)\n  +-+--------------- 1 ----------\n    | KeyError: 'a'")
         + prefixed("[rank0]: ", TRACE + "RuntimeError: Connection closed by peer [192.0.2.4]:29999"), "key_error"),
        (TRACE + "RuntimeError: PytorchStreamWriter failed: file write failed. No space left on device", "disk_full"),
        (TRACE + "NotADirectoryError: [Errno 20] Not a directory: '/data/train.tar/0'", "file_not_found"),
        (TRACE + "RuntimeError: Failed to recv, got 0 bytes. Connection was likely closed.", "store_lost"),
        (TRACE + "torch.cuda.DeferredCudaCallError: CUDA call failed lazily at initialization with error: device >= 0"
         " && device < num_gpus INTERNAL ASSERT FAILED", "cuda_invalid_device"),
        ("Memory access fault by GPU node-2 (Agent handle: 0x5) on address 0x7f. Reason: Page not present.\nAborted"
         " (core dumped)", "cuda_illegal_access"),
        ("mpirun noticed that process rank 2 with PID 4412 on node n4 exited on signal 11 (Segmentation fault).",
         "segfault"),
        ("99|gpt|TIMEOUT|1-00:00:12|0:0\n99.batch|batch|CANCELLED|1-00:00:13|0:15", "slurm_time_limit"),
        ("99|gpt|PREEMPTED|05:00:12|0:0", "slurm_preemption"),
        ("Terminated: job exceeded the maximum wallclock time (h_rt=86400)", "slurm_time_limit"),
        ("ERROR deadlock detected: ranks [0, 1, 2] wait in barrier", "hang_watchdog"),
        ("Job hung: GPU utilization 0% for 45 min", "hang_reported"),
        ("training appears to hang: last log line 3600 s ago, sending SIGKILL", "hang_reported"),
        ("Got preemption signal (SIGTERM), checkpointing at step 5 and exiting", "slurm_preemption"),
        ("Instance is being reclaimed by the cloud provider (spot), shutting down in 120 s", "slurm_preemption"),
        (TRACE + "OSError: Incorrect path_or_model_id: '/llama'. Please provide the path to a local folder",
         "file_not_found"),
        (json.dumps({"level": "error", "msg": TRACE + "PermissionError: [Errno 13] Permission denied: '/c'"})
         + "\n" + prefixed("[rank0]: ", TRACE + "RuntimeError: Connection closed by peer [192.0.2.4]:1"), "permission"),
        ("step 12 loss nan\nNaN loss for 2 steps, stopping\n" + prefixed("[rank2]: ", TRACE + "RuntimeError: Connection"
         " closed by peer [192.0.2.4]:1"), "nan_line"),
        ("fatal: training loop has been idle for 30m0s (threshold 20m), killing", "hang_reported"),
        ('ErrorMessage "ValueError: num_samples should be a positive integer value\nCommand "train.py"', "exception"),
        ("Last Error: USER::Pod failed. terminated with exit code (137). Reason [OOMKilled].", "host_oom_kill"),
        ("docker: Got permission denied while trying to connect to the Docker daemon socket", "permission_line"),
        (TRACE + "ValueError: Can't find a valid checkpoint at /out/checkpoint-500", "file_not_found"),
        ("ERROR: unable to open config file: No such file or directory: conf/a.yaml\nsrun: error: c4: task 0: Exited"
         " with exit code 2", "file_not_found_line"),
        (TRACE + "RuntimeError: Store timeout: waited 1800 s for rank 3 to join the rendezvous", "rendezvous_timeout"),
        ("Warning  Preempting  2m  kueue  Preempted to accommodate a higher priority Workload", "slurm_preemption"),
        ("SIGTERM received. Preemption imminent. Saving last checkpoint at step 3.", "slurm_preemption"),
        ("SageMaker: training job stopped: MaxRuntimeExceeded", "slurm_time_limit"),
        (TRACE + "subprocess.CalledProcessError: Command '['false']' returned non-zero exit status 1.\n"
         + TRACE.replace("/home/ann/train.py", "/env/lib/python3.11/site-packages/accelerate/commands/launch.py")
         + "subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 1.", "command_failed"),
        ("ERROR 03-02 19:49:00 [multiproc_executor.py:783] RuntimeError: CUDA error: out of memory", "cuda_oom"),
        ("[rank0]: " + OOM, "cuda_oom_allocated"),
        ("(RayTrainWorker pid=12, ip=10.0.0.2) ValueError: x", "exception"),
        ("\x1b[31mRuntimeError\x1b[0m: \x1b[31mCUDA error: device-side assert triggered\x1b[0m", "cuda_device_assert"),
        ("step 1 loss 2.0\nstep 2 loss nan\nstep 3 loss nan\nstep 4 loss nan\nstep 5 loss nan", "nan_line"),
        ("WARNING: config not found: [Errno 2] No such file or directory: 'x', using defaults\n" + TRACE
         + "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", "shape_mismatch"),
        ("n1:1:1 [0] misc/socket.cc:1 NCCL WARN socketStartConnect: Connect to 10.0.0.4<5> failed : No route to host\n"
         + TRACE + "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled system error",
         "nccl_no_route"),
        ("mkdir: cannot create directory '/out': Permission denied\n" + STEPS + TRACE + "IndexError: list index out of"
         " range", "index_error"),
        (STEPS + TRACE + "ValueError: bad\nwandb: Run summary:\nwandb: epoch 3\nwandb: loss 2.1\nwandb: step 100\n"
         "wandb: batch 7", "exception"),
        (TRACE + "KeyError: 'a'\nJob finished at Mon Mar 2 10:00:00\ndone", "key_error"),
        (TRACE + OOM + "\nterminate called after throwing an instance of 'c10::CUDAError'\n"
         "  what():  CUDA error: unspecified launch failure\nAborted (core dumped)", "cuda_oom_allocated"),
        ('{"level": "error", "msg": "RuntimeError: CUDA error: invalid device ordinal"}', "cuda_invalid_device"),
        ("2026-03-01T10:00:00.1Z stderr F ValueError: x", "exception"),
        ("Apr 14 21:52:20 gpu-01 train.py[1145]: ZeroDivisionError: division by zero", "division_by_zero"),
        ("10:00:00 ERROR: KeyError: 'a'", "key_error"),
        ("step 1 loss 2.0\nstep 2 loss nan\n" + TRACE + "RuntimeError: stopped", "nan_line"),
        (TRACE + OOM + "\n\nDuring handling of the above exception, another exception occurred:\n\n" + TRACE
         + "FileNotFoundError: [Errno 2] No such file or directory: 'crash.txt'", "cuda_oom_allocated"),
        (TRACE + "KeyError: 'NCCL error'", "key_error"),
        (TRACE + "RuntimeError: [/pytorch/gloo/transport/tcp/unbound_buffer.cc:84] Timed out waiting 1800000ms for recv"
         " operation to complete\n\nDuring handling of the above exception, another exception occurred:\n\n" + TRACE
         + "lib.MisconfigurationException: ModelCheckpoint(monitor='x') not found in the returned metrics: ['y']",
         "gloo_timeout"),
        (TIMEOUT + "\n[rank: 1] Child process with PID 7 terminated with code -6. Forcefully terminating all other"
         " processes to avoid zombies\nKilled", "nccl_timeout"),
        ("[rank: 1] Child process with PID 7 terminated with code -9. Forcefully terminating all other processes to"
         " avoid zombies\nKilled", "sigkill"),
        ("[ft] Did not get subsequent heartbeat. Waited 180.12 seconds.", "hang_watchdog"),
        ("[2026-03-01 10:00:15 TP4] Watchdog timeout (self.watchdog_timeout=300)\n[2026-03-01 10:00:20] Received"
         " sigquit from a child proces. It usually means the child failed.\nKilled", "hang_watchdog"),
        ("Step 4410 has not completed in 1800s; aborting\nAborted (core dumped)", "hang_watchdog"),
        ("[rank0]:[E1 ProcessGroupNCCL.cpp:1413] [PG 3 Rank 0] Heartbeat monitor timed out! Process will be terminated",
         "nccl_timeout"),
        ("[rank: 3] Child process with PID 5 terminated with code -11. Forcefully terminating all other processes to"
         " avoid zombies\nKilled", "segfault"),
        (TRACE + "RuntimeError: NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_() INTERNAL ASSERT FAILED", "no_gpu"),
        ('{"status":"exited","OOMKilled":true,"ExitCode":137}', "host_oom_kill"),
        ("May 01 10:00:00 n1 systemd[1]: x.service: A process of this unit has been killed by the OOM killer.",
         "host_oom_kill"),
        ("Error: write /root/wandb/run.wandb: no space left on device", "disk_full"),
        (TRACE + "ConnectionError: Tried to launch distributed communication on port `29500`, but another process is"
         " utilizing it.", "address_in_use"),
        ("slurmstepd: error: *** JOB 1 ON n CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***\n" + TRACE
         + "RuntimeError: Timed out initializing process group in store based barrier on rank: 0", "slurm_preemption"),
        (TRACE + OOM + "\nslurmstepd: error: *** JOB 1 ON n CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***",
         "cuda_oom_allocated"),
        (prefixed("ERROR 03-02 19:49:00 [core.py:708] ", TRACE + "ValueError: too long") + TRACE
         + "RuntimeError: Engine core initialization failed. See root cause above.",
         "exception"),
        (prefixed("2026-03-01 10:10:10,111 ERROR trainer: ", TRACE + "acme.train.BudgetExceeded: spent all"),
         "exception"),
        (prefixed("704.7s\t1455\t", TRACE + "ValueError: bad\nwandb: \n[rank0]:[W1 ProcessGroupNCCL.cpp:1250] Warning:"
         " process group has NOT been destroyed, so NCCL operations may be pending"), "exception"),
        (prefixed("<13:00:01> worker: ", TRACE + "KeyError: 'a'\nNCCL operation skipped"), "key_error"),
        ("WARNING: non-finite loss, ending training  tensor([nan, nan])", "nan_line"),
        ("JobID  JobName  State ExitCode\n12345  train  OUT_OF_ME+  0:125", "slurm_oom_kill"),
        ("JobID  JobName  State ExitCode\n12345_7  train  TIMEOUT  0:0", "slurm_time_limit"),
        ("=>> PBS: job killed: mem 67183112kb exceeded limit 67108864kb", "slurm_oom_kill"),
        ('earlyoom[811]: sending SIGTERM to process 4412 uid 1000 "python": badness 911, VmRSS 60222 MiB',
         "host_oom_kill"),
        ("Normal   Preempted  pod/train-worker-3  Preempted by default/higher-prio on node a100-1", "slurm_preemption"),
        ("2026-03-01 INFO: preemption signal received; saving checkpoint and exiting", "slurm_preemption"),
        ("Could not override 'model.foo'.\nTo append to your config use +model.foo=1", "override_refused"),
        ("Hang detected on rank 12: last step 1803 s ago\nFatal Python error: Aborted", "hang_watchdog"),
        ("Watchdog: no activity detected for 3600 seconds, killing PID 4412\nKilled", "hang_watchdog"),
        ("Spot interruption notice: instance i-0abc will be terminated\n" + TRACE
         + "torch.distributed.elastic.multiprocessing.api.SignalException: Process 3 got signal: 15",
         "slurm_preemption"),
        (TRACE + "OSError: Not enough disk space. Needed: 120.1 GiB", "disk_full"),
        (TRACE + "RuntimeError: The specified device cuda:1 does not match the tensor's device cuda:0",
         "device_mismatch"),
        ("[n1:5283 :0:5704] Caught signal 7 (Bus error: nonexistent physical address)", "shared_memory_bus_error"),
        ("[INFO] [launch.py:315:sigkill_handler] Killing subprocess 39\n[ERROR] [launch.py:321:sigkill_handler]"
         " ['python', 'main.py'] exits with return code = -7", "shared_memory_bus_error"),
        ("memory allocation of 17179869184 bytes failed\nAborted (core dumped)", "host_memory_refused"),
        ("Job exceeded its walltime limit (24:00:00). Terminating.", "slurm_time_limit"),
        (TRACE + "submitit.core.utils.UncompletedJobError: Job not requeued because: timed-out too many times.",
         "slurm_time_limit"),
        ("[rank2]:[E ProcessGroupNCCL.cpp:1895] [Rank 2] Exception (either an error or timeout) detected by watchdog at"
         " work: 9, last enqueued NCCL work: 9", "nccl_timeout"),
        (TRACE + "RuntimeError: cuDNN Frontend error: No execution plans support the graph.", "cuda_library"),
        ("Unable to determine the device handle for GPU0000:4E:00.0: Unknown Error", "no_gpu"),
        (TRACE + "cv2.error: OpenCV(4.8.0) color.cpp:182: error: (-215:Assertion failed) !_src.empty()", "exception"),
        (TRACE + "decimal.DivisionByZero: [<class 'decimal.DivisionByZero'>]", "division_by_zero"),
        ("  + Exception Group " + TRACE.replace("  File", "  |   File").replace("    loss", "  |     loss")
         + "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n"
         + prefixed("    | ", TRACE + "ValueError: bad shard"), "exception"),
        (TRACE + "RuntimeError: Unhandled FakeTensor Device Propagation for aten.add.Tensor, found two different"
         " devices cuda:0, cpu", "device_mismatch"),
        ("  0%|     | 0/2 [00:00<?, ?it/s]WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 899505"
         " closing signal SIGTERM      ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9)"
         " local_rank: 4 (pid: 899509) of binary: /env/bin/python", "sigkill"),
        ('ERROR:torch.distributed.elastic.multiprocessing.errors.error_handler:{\n  "message": {\n    "message":'
         ' "RuntimeError: Permission denied",\n    "extraInfo": {', "permission"),
        ("_**RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and"
         " cpu!**_", "device_mismatch"),
        ("docker: Error response from daemon: OCI runtime create failed: runc create failed: exec: \"torchrun\":"
         " executable file not found in $PATH: unknown", "file_not_found"),
        (TRACE + "requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: https://huggingface.co",
         "permission"),
        (TRACE + "OSError: Unable to open file (unable to lock file, errno = 11, error message = 'Resource temporarily"
         " unavailable')", "exception"),
        ("12345  train  gpu  acme  64  NODE_FAIL  1:0", "slurm_node_failure"),
        (TRACE + OOM + "\n" + "Loading modules: 100%|##########| 4/4 [00:15<00:00,  3.85s/it]\n" * 4
         + "srun: error: n2: tasks 0-1: Exited with exit code 1", "cuda_oom_allocated"),
        (TRACE + "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nRuntimeError: Triton Error"
         " [CUDA]: device kernel image is invalid", "cuda_no_kernel_image"),
        (TRACE + "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nAttributeError: 'float' object"
         " has no attribute 'meta'", "compile_failed"),
        ("Error: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container"
         " process", "container_start"),
        ("FATAL:   could not open image /data/train.sif: failed to retrieve path for /data/train.sif: lstat"
         " /data/train.sif: no such file or directory", "file_not_found_line"),
        ("Error: dial tcp: lookup registry.example.com: no such host", "name_resolution"),
        ("NVRM: The NVIDIA GPU 0000:b3:00.0\n   NVRM: fallen off the bus and is not responding to commands.",
         "xid_fallen_off_the_bus"),
        ("eta 28:34:54\n04/18/2016 22:55:25;0008;PBS_Server.1;Job;7.sched1;Job deleted at request of root@sched1",
         "job_cancelled"),
        ("PBS Job Id: 26066307\nJob deleted at request of root@sched\nMOAB_INFO:  job exceeded wallclock limit",
         "slurm_time_limit"),
        ("[rank1]:    size mismatch for head.bias: copying a param with shape torch.Size([9]) from checkpoint, the"
         " shape in current model is torch.Size([4]).", "checkpoint_shapes"),
        (TRACE + "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tpid: 3\nThe"
         " actor is dead because its worker process has died. Worker exits with an exit code None. The worker may have"
         " exceeded K8s pod memory limits.", "host_oom_kill"),
        ("Detected KeyboardInterrupt, attempting graceful shutdown ...", "interrupted"),
        ("F1030 00:01:42.205154   604 device_context.cc:318] cudaStreamSynchronize an illegal memory access was"
         " encountered errno: 77\n*** Check failure stack trace: ***", "cuda_illegal_access"),
        (TRACE + "TimeoutError: The read operation timed out", "download_failed"),
        ("# [rank1]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled cuda error\n"
         "    [rank1]: ncclUnhandledCudaError: Call to CUDA function failed.\n    [rank1]: Last error:\n"
         "    [rank1]: Cuda failure 2 'out of memory'", "cuda_oom"),
        ("srun: forcing job termination\nslurmstepd: error: *** STEP 4.0 ON n3 CANCELLED AT 2025-04-15T19:07:03 ***\n"
         "srun: error: n3: task 0: Killed", "job_cancelled"),
        ("slurmstepd: error: pyxis:     [ERROR] URL https://ghcr.io/v2/x returned error code: 404 Not Found",
         "container_start"),
        ("slurmstepd: error: pyxis: [ERROR] URL https://ghcr.io/v2/x returned error code: 401 Unauthorized",
         "permission_line"),
        ("sbatch: error: A Quality of Service (QoS) has not been provided", "slurm_launch_failure"),
        ("sbatch: error: Unable to open file train.sh", "file_not_found_line"),
        ("/var/spool/slurmd/job8759973/slurm_script: line 166: syntax error: unexpected end of file", "setup_line"),
        (TRACE + "RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for"
         " send/recv from rank 0.", "gloo_lost_peer"),
        (TRACE + "RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:547] Connection closed by peer\n" + TRACE
         + "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.", "gloo_lost_peer"),
        ("python: can't open file 'x.py': [Errno 2] No such file or directory\n" + TRACE
         + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", "file_not_found_line"),
    ],
    ids=lambda value: value[-40:],
)  # fmt: skip
def test_what_ended_a_process(text: str, rule: str, tmp_path: Path) -> None:
    assert first(tmp_path, text + "\n").rule == rule


@pytest.mark.parametrize(
    "text",
    [
        STEPS,
        "NCCL version 2.27.5\nn1:1:1 [0] NCCL WARN Call to ibv_reg_mr failed, falling back\n" + STEPS,
        TRACE + OOM + "\nretrying with half the batch\n" + STEPS,
        TRACE + "ConnectionResetError: [Errno 104] Connection reset by peer\n" + STEPS + "Training finished.\n",
        "sample 3: the user wrote RuntimeError: CUDA out of memory in the forum\nquestion: why Segmentation fault?\n",
        "{'text': 'ModuleNotFoundError: No module named x', 'label': 1}\n",
        "Exception ignored in: <function C.__del__ at 0x7f>\n" + TRACE + "OSError: [Errno 9] Bad file\n" + STEPS,
        "/env/lib/x.py:80: UserWarning: CUDA initialization: The NVIDIA driver on your system is too old\n" + STEPS,
        "SIGTERM will be handled: preemption saves a checkpoint; time limit 24h, exits before it is reached\n" + STEPS,
        "watchdog: a rank that is idle for 1800 s is stuck, aborting is on\n" + STEPS,
        "x.py:1: RuntimeWarning: divide by zero encountered in log\n" + STEPS,
        "[W socket.cpp:601] [c10d] The client socket has failed to connect to [n]:29500 (errno: 97).\n" + STEPS,
        "WARNING: RuntimeError: CUDA out of memory, skipped this batch\n" + STEPS,
        "heartbeat timeout: 600 s, watchdog timeout = 300, hang detection on\n",
        "WARNING scheduler.py:1: Sequence group 0 is preempted by PreemptionMode.RECOMPUTE mode because there is not"
        " enough KV cache space.\n",
        "2026-03-01 10:00:00 TIMEOUT set to 30:00\n",
        "Added key: store_based_barrier_key:1 to store for rank: 0\n",
        "",
        "\n\n",
    ],
    ids=lambda value: value[:40],
)  # fmt: skip
def test_what_is_no_failure(text: str, tmp_path: Path) -> None:
    assert diagnose(tmp_path, text).first is None


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (
            "ValueError: Must flatten tensors with uniform dtype but got torch.bfloat16 and torch.float32",
            Category.EXCEPTION,
        ),
        ("RuntimeError: expected scalar type Half but found Float", Category.RUNTIME_ERROR),
        ("RuntimeError: received 0 items of ancdata", Category.RUNTIME_ERROR),
        ("torch._dynamo.exc.TorchRuntimeError: Failed running call_function", Category.RUNTIME_ERROR),
        ("OSError: [Errno 24] Too many open files: '/data/1.bin'", Category.EXCEPTION),
        ("socket.timeout: timed out", Category.EXCEPTION),
    ],
)
def test_an_error_of_no_other_category_has_that_of_its_class(error: str, category: Category, tmp_path: Path) -> None:
    assert first(tmp_path, TRACE + error + "\n").category is category


def test_fields_fill_the_sentence(tmp_path: Path) -> None:
    found = first(tmp_path, TIMEOUT.format(rank=1))
    assert found.fields == {"seq": "7753", "collective": "_REDUCE_SCATTER_BASE", "ms": "600061"}
    assert "(_REDUCE_SCATTER_BASE, number 7753)" in found.sentence


@pytest.mark.slow
def test_a_failure_at_the_end_of_a_long_log_is_found_in_bounded_time(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    block = "".join(f"[rank{rank}]: step 12 loss 2.31 tokens/s 81234 lr 3e-4\n" for rank in range(64)).encode()
    with path.open("wb") as file:
        file.seek(100 * 2**20)
        file.write(block * (MAX_BYTES // len(block)))
        file.write(prefixed("[rank7]: ", TRACE + OOM).encode())
    found = done_within(3, lambda: explain_files([path])).first
    assert found is not None and found.rank == 7 and found.is_cut


BEFORE = (
    "/env/x.py:1: UserWarning: CUDA initialization: CUDA unknown error\n  warnings.warn(\n"
    "WARNING: apex is not installed (No module named 'apex')\n"
    "[W socket.cpp:601] [c10d] The client socket has failed to connect to [n]:29500 (errno: 97).\n"
    "n1:1:1 [0] NCCL WARN Failed to open libibverbs.so[.1]\n"
    "cat: /proc/x: No such file or directory\n"
    f"{TRACE}ModuleNotFoundError: No module named 'apex'\nusing the slow path\n{STEPS}"
)
AFTER = {
    "peers that waited": prefixed("[rank1]: ", TIMEOUT.format(rank=1)),
    "peers that lost it": prefixed(
        "[rank1]: ", TRACE + "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed"
    ),
    "torchrun": SUMMARY.format(code=1, traceback="To enable traceback see: https://pytorch.org"),
    "Slurm": "srun: error: n1: task 0: Exited with exit code 1\n"
    "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***\nsrun: error: n2: task 1: Terminated\n",
    "W&B": "wandb: Run summary:\nwandb: loss 2.1\nwandb: step 100\nwandb: epoch 3\nwandb: batch 4\n",
    "an abort": "terminate called after throwing 'c10::Error'\n  what():  NCCL communicator was aborted\n"
    "Aborted (core dumped)\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("after", AFTER)
def test_noise_before_and_after_a_failure_changes_nothing(after: str, tmp_path: Path) -> None:
    certain = [rule for rule in all_rules() if rule.strength is Strength.CERTAIN and rule.role is Role.INITIATING]
    wrong = {}
    for rule in certain:
        for number, text in enumerate(rule.shows):
            path = tmp_path / f"{rule.id}{number}.log"
            path.write_text(f"{BEFORE}{text}\n{AFTER[after]}", encoding="utf-8")
            found = explain_files([path]).first
            if found is None or rule_of(found.rule).category is not rule.category:
                wrong[text] = found and found.rule
    assert not wrong


@pytest.mark.parametrize(
    ("name", "rank"),
    [("rank-3.log", 3), ("job_rank3.err", 3), ("node_rank3.log", None), ("noderank3.log", None), ("franks.log", None)],
)
def test_the_name_of_a_file_has_the_rank_of_lines_without_a_prefix(name: str, rank: int | None, tmp_path: Path) -> None:
    (tmp_path / name).write_text("Fatal Python error: Segmentation fault\n")
    found = explain_files([tmp_path / name]).first
    assert found is not None and found.rank == rank


def test_a_file_that_can_be_opened_but_not_read_is_named() -> None:
    with pytest.raises(OSError) as raised:
        explain_files([Path("/proc/self/mem")])
    assert raised.value.filename == "/proc/self/mem"


FAULT = """\
Fatal Python error: Segmentation fault

Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait

Current thread 0x00007f00 (most recent call first):
  File "/env/lib/python3.11/site-packages/triton/compiler.py", line 20 in compile
  File "/home/ann/kernels.py", line 4 in fused
  File "/home/ann/train.py", line 8 in main

Extension modules: torch._C (total: 20)
"""


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        (FAULT, ("/home/ann/kernels.py", 4, "fused")),
        (prefixed("[default1]:", FAULT), ("/home/ann/kernels.py", 4, "fused")),
        (
            "Timeout (0:30:00)!\n" + "\n\n".join(FAULT.replace("Current t", "T").split("\n\n")[1:]),
            ("/home/ann/kernels.py", 4, "fused"),
        ),
        (
            "step 5 loss 0.41[rank1]: " + prefixed("[rank1]: ", TRACE + "KeyError: 'a'")[9:],
            ("/home/ann/train.py", 8, "step"),
        ),
    ],
    ids=["fault", "torchrun", "timeout", "after a progress bar"],
)
def test_the_line_of_code_is_that_of_the_user(text: str, frame: tuple[str, int, str], tmp_path: Path) -> None:
    found = first(tmp_path, text)
    assert found.frame is not None
    assert (found.frame.file, found.frame.line, found.frame.function) == frame


@pytest.mark.parametrize("before", ["2026-03-01T10:00:00.1Z ", "gpu-03: ", "step 5 loss 0.41"])
def test_the_rank_of_a_line_may_come_after_a_time_a_host_or_a_progress_bar(before: str, tmp_path: Path) -> None:
    found = first(tmp_path, f"{before}[rank3]: KeyError: 'a'\n")
    assert (found.rank, found.host) == (3, "gpu-03" if before.startswith("gpu-03") else None)
