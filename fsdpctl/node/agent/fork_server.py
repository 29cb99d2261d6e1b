"""The agent's side of a warm start: find or start the fork server of this node, and have it start torchrun."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fsdpctl.contract.codec import CodecError, find_json, write_json
from fsdpctl.contract.records import ForkServerRecord
from fsdpctl.node.agent.warm_torchrun import WarmTorchrun
from fsdpctl.node.os import processes
from fsdpctl.node.warm.keeper import LISTENER, ask_keeper, start_server
from fsdpctl.node.warm.messages import Request, is_own, send_request
from fsdpctl.node.warm.server import LINGER_S

IMPORT_S = 120.0
"""How long the fork server may import; then the node starts cold, where a rank that hangs at an import is named."""
_POLL_S = 0.02
_TITLE_ROOM = 2048


class ForkServer:
    """The fork server of this node. It ends some seconds after the last connection to it, or with `end`."""

    def __init__(self, record: ForkServerRecord, path: Path, started: subprocess.Popen[bytes] | None = None) -> None:
        self.record, self.pid = record, record.process.pid
        self._path, self._started = path, started
        self._presence = self._connect()  # keeps it alive

    @classmethod
    def find(cls, path: Path, key: str) -> ForkServer | None:
        """Return the one that an earlier attempt has left, if all that it has read is still the same."""
        with suppress(CodecError, OSError):
            record = find_json(ForkServerRecord, path)
            if record is not None and record.key == key and processes.is_alive(record.process):
                return cls(record, path)
        return None

    @classmethod
    def start(
        cls,
        path: Path,
        key: str,
        command: Sequence[str],
        env: Mapping[str, str],
        directory: str,
        log: int,
        linger_s: float = LINGER_S,
        keeper: Path | None = None,
    ) -> ForkServer:
        """Start one, which imports while the agent does other things: by the keeper whose record is `keeper`, if it is
        alive. Raise OSError.
        """
        words = [*command, str(path), str(linger_s), LISTENER, "-" * _TITLE_ROOM]
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("")  # the kernel chooses an abstract address (unix(7))
            listener.listen()
            how = (words, env, directory, listener.fileno(), log)
            kept = ask_keeper(keeper, *how) if keeper is not None else None
            started = start_server(*how) if kept is None else None
            pid = kept if started is None else started.pid
            assert pid is not None
            address = listener.getsockname()[1:].decode()
            try:
                record = ForkServerRecord(processes.identify(pid), address, key)
                write_json(path, record)
                return cls(record, path, started)
            except BaseException:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                if started is not None:
                    started.wait()
                raise

    def start_torchrun(self, request: Request, log: int, beat: Callable[[], Any]) -> WarmTorchrun | None:
        """Return torchrun once the imports are complete; None if this process cannot be used."""
        try:
            connection = self._connect()
            with open(os.devnull, "rb") as no_input:
                send_request(connection, request, (no_input.fileno(), log, log))
        except OSError:
            return None
        torchrun = WarmTorchrun(connection)
        deadline = time.monotonic() + IMPORT_S
        while torchrun.poll() is None and time.monotonic() < deadline:
            if torchrun.pid:
                return torchrun
            beat()
            time.sleep(_POLL_S)
        self.end()  # or it would still do what was requested
        return None

    def detach(self) -> None:
        """Leave it to the next attempt."""
        self._presence.close()

    def end(self) -> None:
        """End it, and with it what is left of its children."""
        self._path.unlink(missing_ok=True)
        self._presence.close()
        while processes.is_alive(self.record.process):
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.001)
        if self._started is not None:
            self._started.wait()

    def _connect(self) -> socket.socket:
        """Connect; an address that another user has now is refused. Raise OSError."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(f"\0{self.record.address}")
            if not is_own(connection):
                raise PermissionError("the address belongs to another user")
        except BaseException:
            connection.close()
            raise
        return connection
