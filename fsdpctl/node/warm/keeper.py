"""Start the fork servers of a hold outside of the steps of its runs: Slurm ends all processes of a step with it, where
it tracks them by cgroup.

python -m fsdpctl.node.warm.keeper HOLD_DIR

It serves until it is killed, with the job of the hold.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fsdpctl.contract.codec import CodecError, find_json, write_json
from fsdpctl.contract.paths import HoldPaths
from fsdpctl.contract.records import KeeperRecord
from fsdpctl.node.os import processes, signals
from fsdpctl.node.warm.messages import Request, is_own, receive_request, receive_value, send_request, send_value

LISTENER = "{listener}"
"""Stands for the descriptor of the socket in the command of a fork server."""
_ANSWER_S = 10.0


def main(record: Path) -> None:
    """Serve one request after the other."""
    started: list[subprocess.Popen[bytes]] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("")  # the kernel chooses an abstract address (unix(7))
        listener.listen()
        address = listener.getsockname()[1:].decode()
        write_json(record, KeeperRecord(processes.identify(os.getpid()), address))
        while True:
            client, _address = listener.accept()
            started = [server for server in started if server.poll() is None]  # and reap the others
            with client, suppress(OSError, EOFError, ValueError, TypeError):
                client.settimeout(_ANSWER_S)
                if is_own(client) and (found := receive_request(client)) is not None:
                    started.append(_start(*found))
                    send_value(client, started[-1].pid)


def _start(request: Request, descriptors: Sequence[int]) -> subprocess.Popen[bytes]:
    try:
        listener, log = descriptors
        return start_server(request.argv, request.env, request.directory, listener, log)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def start_server(
    command: Sequence[str], env: Mapping[str, str], directory: str, listener: int, log: int
) -> subprocess.Popen[bytes]:
    """Start a fork server in a session of its own; `{listener}` in its command is the descriptor. Raise OSError."""
    return subprocess.Popen(
        [word.replace(LISTENER, str(listener)) for word in command],
        env=env,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        pass_fds=[listener],
        preexec_fn=signals.ignore,
    )


def ask_keeper(
    record: Path, command: list[str], env: Mapping[str, str], directory: str, listener: int, log: int
) -> int | None:
    """Have the keeper of this node start a fork server; return its pid, or None where there is no keeper."""
    with suppress(CodecError, OSError, EOFError):
        keeper = find_json(KeeperRecord, record)
        if keeper is None or not processes.is_alive(keeper.process):
            return None
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_S)
            connection.connect(f"\0{keeper.address}")
            if is_own(connection):
                send_request(connection, Request("", command, dict(env), directory, []), (listener, log))
                return int(receive_value(connection))
    return None


if __name__ == "__main__":
    os.umask(0o077)
    main(HoldPaths(Path(sys.argv[1])).keeper(int(os.environ["SLURM_NODEID"])))
