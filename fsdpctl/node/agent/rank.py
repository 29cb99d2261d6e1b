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

from fsdpctl.contract import BUNDLED_TRAINER, GOOD_ENDS, Env
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.files import open_log
from fsdpctl.contract.first_failure import classify
from fsdpctl.contract.paths import NodePaths
from fsdpctl.contract.records import RankEnd, RankError
from fsdpctl.node.os import signals


def main(argv: list[str]) -> None:
    """Run `-m MODULE ARGS...` or `SCRIPT ARGS...` as this rank."""
    rank = int(os.environ["RANK"])
    paths = NodePaths(Path(os.environ[Env.NODE_DIR]))
    _redirect_output(paths.rank_log(rank))
    faulthandler.enable()
    _dump_stacks_on_demand(paths.rank_stacks(rank))
    signals.handle_as_rank()
    try:
        _run(argv)
    except SystemExit as leave:
        if leave.code in (None, *GOOD_ENDS):
            _record_end(rank, paths)
        elif not paths.rank_error(rank).exists():  # the trainer's own record has more
            _report(leave, rank, paths)
        raise
    except BaseException as error:
        _report(error, rank, paths)
        raise
    _record_end(rank, paths)


def _redirect_output(log: Path) -> None:
    descriptor = open_log(log)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def _dump_stacks_on_demand(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    faulthandler.register(signals.DUMP_SIGNAL, file=descriptor, all_threads=True)


def _run(argv: list[str]) -> None:
    if argv[0] == "-m":
        module, sys.argv = argv[1], argv[1:]
        if module != BUNDLED_TRAINER:
            sys.path.insert(0, str(Path.cwd()))  # the user's own package; the bundled trainer must not be shadowed
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        script = Path(argv[0]).absolute()
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
        message=f"{type(error).__name__}: {error}",
        traceback=traceback.format_exc(),
        failure=classify(error),
    )
    write_json(paths.rank_error(rank), record)


if __name__ == "__main__":
    main(sys.argv[1:])
