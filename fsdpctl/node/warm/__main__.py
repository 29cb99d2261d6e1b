"""The fork server of a node.

python -u -m fsdpctl.node.warm SET... RECORD LINGER DESCRIPTOR PAD

SET names modules to import. RECORD is the file by which the process is found: it ends without it, and LINGER seconds
after the last connection. DESCRIPTOR is a listening Unix socket. PAD is room for the command line of a child.

The process that was started only adopts orphans, so that what ranks leave behind can be found below it whatever ends;
its child imports and serves.
"""

from __future__ import annotations

import gc
import importlib
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from fsdpctl.contract import Env
from fsdpctl.contract.codec import find_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.records import ForkServerRecord
from fsdpctl.node.os import process_memory, processes
from fsdpctl.node.os.quick_imports import without_collector
from fsdpctl.node.warm.imports import find_fork_hazard, import_all
from fsdpctl.node.warm.messages import Request
from fsdpctl.node.warm.move_code import import_from
from fsdpctl.node.warm.server import Server


def main(argv: list[str]) -> None:
    """Import, serve, and become what a request asks for, in the child that was forked for it."""
    processes.adopt_orphans()
    process_memory.free_environment()
    *sets, record, linger_s, descriptor, _pad = argv
    process_memory.show_command(sys.orig_argv[:-4])
    keeper = os.getpid()
    if os.fork():
        os.close(int(descriptor))
        _reap_all()
    processes.die_with_parent(lambda parent: parent == keeper)
    listener = socket.socket(fileno=int(descriptor))
    with without_collector():
        import_all(sets)
    if (hazard := find_fork_hazard()) is not None:
        sys.exit(f"no warm start: an import has {hazard}")
    gc.collect()
    gc.freeze()  # children would copy each page of which a collector changes a header

    def is_recorded() -> bool:
        found = find_json(ForkServerRecord, Path(record))
        return found is not None and found.process.pid == keeper

    request, streams = Server(listener, float(linger_s), is_recorded).serve()
    del listener
    _become(request, streams)


def _reap_all() -> NoReturn:
    """Wait until no child and no adopted orphan is left."""
    with suppress(ChildProcessError):
        while True:
            os.wait()
    sys.exit()


def _become(request: Request, streams: list[int]) -> None:
    """Run the program that the request is for, as if this process had just been started."""
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    os.chdir(request.directory)
    if run_dir := request.env.get(Env.RUN_DIR):
        import_from(str(RunPaths.of(run_dir).code))
    process_memory.replace_environment(request.env)
    process_memory.show_command(request.title)
    _draw_new_numbers()
    module = importlib.import_module(request.module)
    sys.argv = [str(module.__file__), *request.argv]
    module.main(request.argv)


def _draw_new_numbers() -> None:
    """Seed numpy's global generator, as a new process does; Python's own does so at a fork, torch's seed is fixed."""
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()


if __name__ == "__main__":
    main(sys.argv[1:])
