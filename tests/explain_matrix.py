"""Sixty failures of real runs on this machine, explained: `python -m tests.explain_matrix [NAME...]`.

Prints what is wrong and the score. It takes a quarter of an hour, so CI has ten of them (`test_explain.py`).
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fsdpctl.explain.categories import Category
from tests.backends.explain_cases import Case, Result, finish, request, signal_agent, start

AT_ONCE = 3
HANG = "hang: {after: 4s}"
SETUP = 'name: own\nbackend: local\nprocs_per_node: 2\nsetup: ["test $FSDPCTL_NODE_RANK = 0"]\n'

CASES = [
    Case("value", Category.EXCEPTION, "0"),
    Case("value", Category.EXCEPTION, "3", "end"),
    Case("key", Category.EXCEPTION, "1", nodes=1),
    Case("runtime", Category.RUNTIME_ERROR, "3", "start"),
    Case("runtime", Category.RUNTIME_ERROR, "0", "end", nodes=1),
    Case("cause", Category.FILE_NOT_FOUND, "2", "start"),
    Case("cause", Category.FILE_NOT_FOUND, "0", nodes=1),
    Case("exit", Category.EXIT_CODE, "0"),
    Case("exit", Category.EXIT_CODE, "3", "end"),
    Case("exit", Category.EXIT_CODE, "1", "start", nodes=1),
    Case("os_exit", Category.EXIT_CODE, "0"),
    Case("os_exit", Category.EXIT_CODE, "3", "end"),
    Case("os_exit", Category.EXIT_CODE, "1", nodes=1),
    Case("kill", Category.SIGNAL, "0"),
    Case("kill", Category.SIGNAL, "3", "start"),
    Case("kill", Category.SIGNAL, "1", "end", nodes=1),
    Case("term", Category.SIGNAL, "2"),
    Case("segv", Category.SEGFAULT, "0", "end"),
    Case("segv", Category.SEGFAULT, "3"),
    Case("segv", Category.SEGFAULT, "0", "start", nodes=1),
    Case("shm", Category.RAM_OOM, "1"),
    Case("abort", Category.SIGNAL, "3"),
    Case("memory", Category.RAM_OOM, "0", "end"),
    Case("memory", Category.RAM_OOM, "3", "start"),
    Case("oom", Category.OOM_KILLER, "2"),
    Case("oom", Category.OOM_KILLER, "0", nodes=1),
    Case("file", Category.FILE_NOT_FOUND, "0"),
    Case("file", Category.FILE_NOT_FOUND, "3", "end"),
    Case("file", Category.FILE_NOT_FOUND, "all", "start"),
    Case("permission", Category.PERMISSION, "1"),
    Case("permission", Category.PERMISSION, "2", "end"),
    Case("module", Category.MISSING_MODULE, "all", "start"),
    Case("module", Category.MISSING_MODULE, "3", "start"),
    Case("module", Category.MISSING_MODULE, "1", nodes=1),
    Case("zero", Category.DIVISION_BY_ZERO, "0", "end"),
    Case("zero", Category.DIVISION_BY_ZERO, "3"),
    Case("assert", Category.ASSERTION, "0", "start"),
    Case("assert", Category.ASSERTION, "2", "end"),
    Case("nan", Category.NAN, "all"),
    Case("nan", Category.NAN, "0"),
    Case("dtype", Category.RUNTIME_ERROR, "3"),
    Case("dtype", Category.RUNTIME_ERROR, "0", nodes=1),
    Case("shape", Category.RUNTIME_ERROR, "2"),
    Case("full", Category.DISK_FULL, "0", "end"),
    Case("full", Category.DISK_FULL, "3"),
    Case("worker", Category.SIGNAL, "1"),
    Case("rendezvous", Category.RENDEZVOUS, "3", "start"),
    Case("rendezvous", Category.RENDEZVOUS, "1", "start", nodes=1),
    Case("stopped", Category.HANG, "1", extra=HANG),
    Case("stopped", Category.HANG, "2", "end", extra=HANG),
    Case("sleep", Category.HANG, "0", extra=HANG),
    Case("sleep", Category.HANG, "3", timeout_s=4),
    Case("sleep", Category.HANG, "1", timeout_s=4, nodes=1),
    Case("leave", Category.RUNTIME_ERROR, "2"),
    Case("leave", Category.RUNTIME_ERROR, "1", nodes=1),
    Case("mismatch", Category.RUNTIME_ERROR, "3", timeout_s=4),
    Case("os_exit_0", Category.HANG, "3"),
    Case("none", Category.CANCELLED, "stop", act=request("stop"), first_rank=None),
    Case("none", Category.CANCELLED, "cancel", act=request("cancel"), first_rank=None),
    Case("none", Category.PREEMPTION, "preempt", act=signal_agent(signal.SIGTERM, 1), first_rank=None),
    Case("none", Category.TIME_LIMIT, "limit", extra="time_limit: 20s\ngrace: 5s\n", first_rank=None),
    Case("none", Category.NODE_FAILURE, "agent", act=signal_agent(signal.SIGKILL, 1), first_node=1),
    Case("none", Category.CONFIGURATION, "setup", profile=SETUP, first_node=1),
]


def main(names: list[str]) -> int:
    cases = [case for case in CASES if not names or any(case.name.startswith(name) for name in names)]
    with tempfile.TemporaryDirectory(prefix="fsdpctl-explain-") as directory:
        os.environ |= {"FSDPCTL_HOME": f"{directory}/home", "OMP_NUM_THREADS": "1"}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            results = list(pool.map(lambda case: _run(case, Path(directory)), cases))
    right = [result for result in results if result is not None and not result.wrong]
    blamed = [result.case.name for result in results if result is not None and result.blamed]
    confident = [result.case.name for result in results if result is not None and result.is_wrong_with_confidence]
    print(f"{len(right)} of {len(cases)} right; victims blamed: {blamed}; wrong and certain: {confident}")
    return int(len(right) < len(cases))


def _run(case: Case, directory: Path) -> Result | None:
    try:
        result = finish(start(case, directory))
    except Exception as error:
        print(f"{case.name}: not run: {error}"[:2000], flush=True)
        return None
    found = result.found.diagnosis
    text = f"{found.category}, {found.confidence}, rule {found.rule}" if found is not None else "nothing"
    print(f"{case.name}: {'; '.join(result.wrong) or 'right'} ({text})", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
