"""fsdpctl as a process of its own, forked from one that has imported it: imports are most of what a command costs.

python -m tests.backends.cli_server DESCRIPTOR
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Timer

import fsdpctl
from fsdpctl.contract import RANK_PROGRAM
from fsdpctl.node.warm.messages import Request, receive_value, send_request
from fsdpctl.node.warm.server import Server

_NOT_OF_COMMANDS = ("benchmarks", "integrations", "trackers")


class CliServer:
    """Runs commands as `subprocess.run` does. It ends with this process."""

    def __init__(self) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("")  # the kernel chooses an abstract address (unix(7))
            listener.listen()
            self._address = listener.getsockname()
            argv = [sys.executable, "-m", "tests.backends.cli_server", str(listener.fileno())]
            root = Path(__file__).parents[2]
            process = subprocess.Popen(argv, pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL, cwd=root)
        self._presence = self._connect()
        atexit.register(process.wait)
        atexit.register(process.kill)

    def run(
        self, words: list[str], cwd: Path, env: Mapping[str, str], stdin: str, timeout: float, init: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """Return the exit code and the output, of a command in the namespaces of the process `init` if it is given.

        The command is killed after `timeout`.
        """
        # As ranks are asked for, since all children of a server end with its torchrun.
        argv = [json.dumps([_umask(), init]), *words]
        request = Request(RANK_PROGRAM, argv, dict(env), str(cwd), words)
        with ExitStack() as stack:
            connection = stack.enter_context(self._connect())
            given, typed = os.pipe()
            output, printed = os.pipe()
            errors, logged = os.pipe()
            send_request(connection, request, (given, printed, logged))
            for descriptor in (given, printed, logged):
                os.close(descriptor)
            readers = stack.enter_context(ThreadPoolExecutor(2))
            texts = readers.map(_read_all, (output, errors))
            with os.fdopen(typed, "w") as file:
                file.write(stdin)
            timer = Timer(timeout, connection.shutdown, [socket.SHUT_RDWR])
            timer.start()
            stack.callback(timer.cancel)
            try:
                receive_value(connection)  # its pid
                code = os.waitstatus_to_exitcode(receive_value(connection))
            except EOFError:
                raise subprocess.TimeoutExpired(words, timeout) from None
            return subprocess.CompletedProcess(words, code, *texts)

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._address)
        return connection


def _umask() -> int:
    """Return it without setting it, for other threads create files meanwhile."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Umask:")]
    return int(line.split()[1], 8)


def _read_all(descriptor: int) -> str:
    """Return what comes until the last process has closed the pipe."""
    with os.fdopen(descriptor) as pipe:
        return pipe.read()


def main(descriptor: int) -> None:
    """Serve, and be the command in a process that was forked for it."""
    for found in pkgutil.walk_packages(fsdpctl.__path__, "fsdpctl."):
        if found.name.split(".")[1] not in _NOT_OF_COMMANDS:
            importlib.import_module(found.name)
    importlib.import_module("typer._adapters")
    gc.freeze()
    request, streams = Server(socket.socket(fileno=descriptor)).serve()
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    given, *argv = request.argv
    umask, init = json.loads(given)
    if init:
        _enter(init)
    os.chdir(request.directory)
    os.umask(umask)
    os.environ.clear()
    os.environ.update(request.env)
    time.tzset()
    sys.argv = argv
    try:
        importlib.import_module("fsdpctl.__main__").main()
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code)  # to take down all that was imported would cost more than most commands


def _enter(init: int) -> None:
    """Return in a child only, which is in the namespaces of a process."""
    spaces = [os.open(f"/proc/{init}/ns/{kind}", os.O_RDONLY) for kind in ("net", "uts", "pid", "mnt")]
    for space in spaces:
        if ctypes.CDLL(None, use_errno=True).setns(space, 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        os.close(space)
    if pid := os.fork():
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main(int(sys.argv[1]))
