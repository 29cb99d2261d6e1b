"""Store unknown host keys on request. OpenSSH asks each host and writes the lines, hashed or not as configured.

A host with any line in known_hosts is skipped: a changed key is never replaced, and the connection that follows is
refused with file and line. A host that gave no key is also reported by that connection.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.backends.fanout import HostError, fan_out
from fsdpctl.backends.ssh.transport.known_hosts import KnownKey, find_known, fingerprint, read_known
from fsdpctl.backends.ssh.transport.ssh_config import NO_PROMPT, Route, Target, destination, find_route, jump_arguments

MAX_JUMPS = 16

_OPTIONS = (
    "-oBatchMode=yes",
    "-oStrictHostKeyChecking=accept-new",
    "-oPreferredAuthentications=none",  # the key comes before, and nothing more is needed
    "-oCheckHostIP=no",
    "-oControlPath=none",  # a reused connection shows no key
    "-oClearAllForwardings=yes",
)


@dataclass(frozen=True)
class Hop:
    """A host whose key must be known, and the jump hosts before it."""

    target: Target
    route: Route
    via: tuple[str, ...]


@dataclass(frozen=True)
class NewKey:
    """The key that a host has shown, and its line for known_hosts."""

    hop: Hop
    key: KnownKey
    line: str
    file: Path


def accept_new(targets: Sequence[Target], report: Callable[[str], None]) -> None:
    """Report each unknown key, then store it; jump hosts first: the next host is reached only through a known one."""
    paths = [result.value or () for result in fan_out(targets, find_hops)]
    for depth in range(max(map(len, paths), default=0)):
        hops = {path[depth].route.key_name: path[depth] for path in paths if depth < len(path)}
        for result in fan_out(list(hops.values()), learn):
            if (new := result.value) is not None:
                report(
                    f"{new.hop.target}: new host key {new.key.kind} {fingerprint(new.key.blob)}, stored in {new.file}"
                )
                _store(new.file, new.line)


def find_hops(target: Target, via: tuple[str, ...] = (), after: int = 0) -> tuple[Hop, ...]:
    """Return the jump hosts to a host in ssh's order, then the host itself."""
    if after > MAX_JUMPS:
        raise HostError(f"{target}: ProxyJump goes in a circle")
    route = find_route(target)
    chain = via or route.jumps
    if not chain:
        return (Hop(target, route, ()),)
    *before, last = chain
    jump = Target(last, last, connect_timeout_s=target.connect_timeout_s)
    return (*find_hops(jump, tuple(before), after + 1), Hop(target, route, chain))


def learn(hop: Hop) -> NewKey | None:
    """Return the key of a host that is not in known_hosts; None if it is, or the host shows no key."""
    file, name = hop.route.own_known_hosts, hop.route.key_name
    if file is None or any(not known.revoked for known in read_known(hop.route.known_hosts, name)):
        return None
    with tempfile.TemporaryDirectory(prefix="fsdpctl-") as directory:
        new = Path(directory) / "known_hosts"
        limit_s = hop.target.connect_timeout_s
        files = " ".join(f'"{path}"' for path in (new, *hop.route.known_hosts))  # ssh writes into the first
        options = [*_OPTIONS, f"-oUserKnownHostsFile={files}", f"-oConnectTimeout={limit_s}"]
        argv = ["ssh", *options, *jump_arguments(hop.via), *destination(hop.target), "true"]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                argv,
                env={**os.environ, **NO_PROMPT},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                timeout=limit_s * (len(hop.via) + 1),
            )
        line = new.read_text(encoding="utf-8") if new.exists() else ""
    key = next(find_known(line, str(file), name), None)
    return NewKey(hop, key, line, file) if key is not None else None


def _store(file: Path, line: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    with open(descriptor, "r+b", buffering=0) as known:
        size = os.fstat(descriptor).st_size
        is_cut = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        known.write(b"\n" * is_cut + line.encode())
