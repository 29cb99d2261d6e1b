"""What torchrun starts for each rank: set up the rank's own log and error file, then run the entrypoint here.

One file takes both streams in the order they were written, output of C libraries included; torchrun's own
redirection makes two files per local rank under a random name. A traceback, hard to find in 64 logs, is also
written as a record with its time, so that the first failure can be distinguished apart from those that followed.
"""

from __future__ import annotations

import faulthandler
import os
import runpy
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

from fsdpctl.contract import GOOD_ENDS, Env
from fsdpctl.contract.codec import find_json, write_json
from fsdpctl.contract.entry import Entry
from fsdpctl.contract.files import open_log
from fsdpctl.contract.first_failure import (
    classify,
    find_errno,
    find_variable,
    is_hardware_fault,
    name_error,
    name_kinds,
)
from fsdpctl.contract.paths import NodePaths, RunPaths
from fsdpctl.contract.records import ForkServerRecord, ProcessIdentity, RankEnd, RankError
from fsdpctl.contract.source_files import is_users
from fsdpctl.contract.trainer_server import drop_trainer_server
from fsdpctl.node.agent.after_import import attach_integrations
from fsdpctl.node.agent.flight import FlightRecorder
from fsdpctl.node.agent.import_path import use_copy
from fsdpctl.node.agent.stack_writer import StackWriter
from fsdpctl.node.os import processes, signals
from fsdpctl.node.os.quick_imports import import_torch_quickly


def main(argv: list[str]) -> None:
    """Run `-m MODULE ARGS...` or `SCRIPT ARGS...` as this rank."""
    rank = int(os.environ["RANK"])
    paths = NodePaths(Path(os.environ[Env.NODE_DIR]))
    _die_with_torchrun(paths)
    _redirect_output(paths.rank_log(rank))
    faulthandler.enable()
    StackWriter(paths.rank_stacks(rank)).start()
    recorder = FlightRecorder(paths.rank_flight(rank))
    recorder.start()
    signals.handle_as_rank()
    import_torch_quickly()
    if rank != 0:
        drop_trainer_server(os.environ, paths.trainer_token)
    try:
        _run(argv)
    except SystemExit as leave:
        if leave.code in (None, *GOOD_ENDS):
            _record_end(rank, paths)
        elif not paths.rank_error(rank).exists():  # the trainer's own record has more
            _report(leave, rank, paths)
        recorder.hold_exit()
        raise
    except BaseException as error:
        _report(error, rank, paths)
        recorder.write_at_failure()
        recorder.hold_exit()
        raise
    _record_end(rank, paths)


def _die_with_torchrun(paths: NodePaths) -> None:
    """End with torchrun, which ends with its agent: no rank may train on where nothing can end it.

    A rank whose torchrun has died before this has another parent: the agent, which sweeps, or any other process.
    torchrun has the tag; where its variables cannot be read, as for a Python with capabilities, it descends from the
    agent. The parent of a warm rank is the fork server, which ends it when torchrun ends.
    """
    tag = processes.Tag(os.environ[Env.RUN_ID], int(os.environ[Env.NODE_RANK]))
    agent = find_json(ProcessIdentity, paths.agent)
    fork_server = find_json(ForkServerRecord, RunPaths.of(os.environ[Env.RUN_DIR]).fork_server(int(tag.node_rank or 0)))
    above = [process.pid for process in (agent, fork_server.process if fork_server else None) if process is not None]

    def is_torchrun(parent: int) -> bool:
        return processes.has_tag(parent, tag) or any(pid in processes.ancestors(parent) for pid in above)

    processes.die_with_parent(is_torchrun)


def _redirect_output(log: Path) -> None:
    descriptor = open_log(log)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def _run(argv: list[str]) -> None:
    if argv[0] == "-m" and Entry("module", argv[1]).is_bundled:  # which the user's own packages must not shadow
        sys.argv = argv[1:]
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        return
    copy = RunPaths(Path(os.environ[Env.RUN_DIR])).source  # also if the profile's `workdir` is another directory
    use_copy(Path(os.environ[Env.SUBMIT_DIR]), copy)
    if os.environ.get(Env.INTEGRATIONS) != "0":
        attach_integrations()
    if argv[0] == "-m":
        sys.argv = argv[1:]
        sys.path.insert(0, str(copy))
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    else:
        script = copy / argv[0]
        sys.argv = list(argv)
        sys.path.insert(0, str(script.parent))
        runpy.run_path(str(script), run_name="__main__")


def _record_end(rank: int, paths: NodePaths) -> None:
    with suppress(OSError):  # a full disk must not turn success into failure
        write_json(paths.rank_end(rank), RankEnd(rank, time.time()))


def _report(error: BaseException, rank: int, paths: NodePaths) -> None:
    record = RankError(
        rank=rank,
        node_rank=int(os.environ[Env.NODE_RANK]),
        time=time.time(),
        message=name_error(error),
        traceback=traceback.format_exc(),
        place=find_place(error),
        failure=classify(error),
        kinds=name_kinds(error),
        errno=find_errno(error),
        is_hardware=is_hardware_fault(error),
        variable=find_variable(error, os.environ),
    )
    write_json(paths.rank_error(rank), record)


def find_place(error: BaseException) -> str:
    """Return the innermost frame of the user's code: two errors of the same place are one failure."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_users(frame.filename)]
    innermost = (own or frames)[-1:]
    return "".join(f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in innermost)


if __name__ == "__main__":
    main(sys.argv[1:])
