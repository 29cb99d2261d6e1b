from __future__ import annotations

import pytest

from fsdpctl.contract.node_report import Activity
from fsdpctl.node.agent.stacks import classify

THREAD = 'Thread 0x1 (most recent call first):\n  File "{}", line 3 in {}\n  File "train/x.py", line 9 in save\n\n'
MAIN = 'Current thread 0x2 (most recent call first):\n  File "{}", line 7 in {}\n  File "train/loop.py", line 5 in s\n'
C10D, JOIN = ("/env/torch/distributed/c10d.py", "all_reduce"), ("/usr/lib/python3.11/threading.py", "join")


@pytest.mark.parametrize(
    ("thread", "main", "activity", "where"),
    [
        (("user.py", "f"), C10D, Activity.PEERS, "train/loop.py:5 s (all_reduce)"),
        (C10D, ("user.py", "tokenize"), Activity.WORKING, "user.py:7 tokenize"),
        (
            ("user.py", "f"),
            ("/env/torch/autograd/graph.py", "_engine_run_backward"),
            Activity.PEERS,
            "loop.py:5 s (_eng",
        ),
        (("user.py", "f"), ("/env/torch/cuda/streams.py", "synchronize"), Activity.PEERS, "loop.py:5 s (synchronize)"),
        (
            ("user.py", "f"),
            ("/env/torch/_dynamo/convert_frame.py", "compile"),
            Activity.COMPILING,
            "loop.py:5 s (compile)",
        ),
        (("user.py", "f"), ("/env/torch/distributed/fsdp.py", "<module>"), Activity.WORKING, "loop.py:5 s (<module>)"),
        # The backward pass of a GPU is compiled in a thread of autograd.
        (
            ("/env/torch/_inductor/compile_fx.py", "fx_codegen_and_compile"),
            ("/env/torch/autograd/graph.py", "_engine_run_backward"),
            Activity.COMPILING,
            "train/x.py:9 save (fx_codegen_and_compile)",
        ),
        (
            ("/env/torch/_inductor/runtime/triton_heuristics.py", "benchmark_all_configs"),
            ("/env/torch/autograd/graph.py", "_engine_run_backward"),
            Activity.COMPILING,
            "train/x.py:9 save (benchmark_all_configs)",
        ),
        (
            ("/env/torch/_inductor/runtime/triton_heuristics.py", "run"),
            ("/env/torch/autograd/graph.py", "_engine_run_backward"),
            Activity.PEERS,
            "loop.py:5 s (_eng",
        ),
        # A compiled function that runs is no compiler.
        (
            ("user.py", "f"),
            ("/env/torch/_inductor/output_code.py", "__call__"),
            Activity.WORKING,
            "loop.py:5 s (__call__)",
        ),
        # A checkpoint that is read is no collective; what its readers agree on is.
        (
            ("/env/torch/distributed/checkpoint/filesystem.py", "read_data"),
            JOIN,
            Activity.WORKING,
            "train/x.py:9 save (read_data)",
        ),
        # The main thread waits for another one: what that one does counts.
        (C10D, JOIN, Activity.PEERS, "train/x.py:9 save (all_reduce)"),
        (("train/dcp_io.py", "write"), JOIN, Activity.WORKING, "train/dcp_io.py:3 write"),
        (JOIN, JOIN, Activity.WORKING, "train/loop.py:5 s (join)"),
    ],
)
def test_a_stack_shows_what_a_rank_does(
    thread: tuple[str, str], main: tuple[str, str], activity: Activity, where: str
) -> None:
    found, place = classify(THREAD.format(*thread) + MAIN.format(*main))
    assert found is activity
    assert where in place


def test_threads_that_a_library_runs_for_itself_are_not_awaited() -> None:
    timer = (
        "Thread 0x3 [subproc_worker_ti] (most recent call first):\n"
        '  File "/env/site-packages/torch/_inductor/compile_worker/timer.py", line 43 in check\n'
        '  File "/usr/lib/python3.12/threading.py", line 1010 in run\n\n'
    )
    main = MAIN.format(*JOIN)
    assert classify(timer + main) == (Activity.WORKING, "train/loop.py:5 s (join)")
    found, place = classify(timer + THREAD.format(*C10D) + main)
    assert found is Activity.PEERS and place == "train/x.py:9 save (all_reduce)"


def test_a_main_thread_that_waits_for_one_that_is_not_in_the_dump_shows_nothing() -> None:
    """FORCED_DUMP_SIGNAL writes the main thread only."""
    alone = MAIN.replace("Current thread 0x2", "Stack")
    assert classify(alone.format(*JOIN)) == (Activity.UNKNOWN, "")
    assert classify(alone.format("user.py", "f"))[0] is Activity.WORKING


LIBRARY = "/env/lib/python3.11/site-packages/torch/distributed/c10d.py"


@pytest.mark.parametrize(
    ("frames", "where"),
    [
        (
            [(LIBRARY, "all_reduce"), ("/run/code/src/fit.py", "log"), (LIBRARY, "x")],
            "/run/code/src/fit.py:2 log (all_reduce)",
        ),
        ([("/run/code/src/fit.py", "read"), (LIBRARY, "fit")], "/run/code/src/fit.py:1 read"),
        ([(LIBRARY, "init"), ("/run/code/fsdpctl/node/agent/rank.py", "_run")], f"{LIBRARY}:1 init"),
        (
            [
                ("<frozen genericpath>", "exists"),
                ("/run/code/fsdpctl/node/os/quick_imports.py", "run_quickly"),
                ("/run/code/src/fit.py", "<module>"),
            ],
            "/run/code/src/fit.py:3 <module> (exists)",
        ),
    ],
)
def test_the_place_is_of_the_users_code_with_what_it_called(frames: list[tuple[str, str]], where: str) -> None:
    lines = [f'  File "{file}", line {number} in {name}' for number, (file, name) in enumerate(frames, 1)]
    stacks = "\n".join(["Current thread 0x2 (most recent call first):", *lines])
    assert classify(stacks)[1] == where


@pytest.mark.parametrize("stacks", ["", "Current thread", 'Thread 0x1:\n  File "x.py", line 1 in f'])
def test_half_a_stack_shows_nothing(stacks: str) -> None:
    assert classify(stacks) == (Activity.UNKNOWN, "")
