"""The program that torchrun starts for a rank of a warm node: ask the fork server for the rank, and end as it ends.

python -S -m fsdpctl.node.warm.worker WORDS...

It imports little, for each rank starts one.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from fsdpctl.contract import RANK_PROGRAM
from fsdpctl.node.warm.messages import Request, receive_value, send_request

SOCKET = "FSDPCTL_WARM_SOCKET"
"""Environment variable of torchrun and its workers: the abstract address of the fork server, without its NUL."""
_RELAYED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


def main(argv: list[str]) -> NoReturn:
    address = os.environ.pop(SOCKET)
    title = [sys.executable, "-u", "-m", RANK_PROGRAM, *argv]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"\0{address}")
        send_request(connection, Request(RANK_PROGRAM, argv, dict(os.environ), str(Path.cwd()), title), (0, 1, 2))
        try:
            _relay_signals(receive_value(connection))
            status = receive_value(connection)
        except (EOFError, ConnectionError):
            sys.exit("the fork server has ended")
    _end_like(status)


def _relay_signals(rank: int) -> None:
    def relay(number: int, _frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(rank, number)

    for number in _RELAYED:
        signal.signal(number, relay)


def _end_like(status: int) -> NoReturn:
    """End with the wait status of the rank, by its signal if one has ended it; without a second core file."""
    if os.WIFSIGNALED(status):
        import resource  # of a failure only

        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(sys.argv[1:])
