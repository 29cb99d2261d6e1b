"""Unknown host keys, taken on purpose. OpenSSH asks each host and spells the lines, hashed or not as configured.

A host of which known_hosts says anything at all is passed over: a changed key is never replaced, and the connection
that follows refuses it by file and line, as it names a host that gave no key.
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
from fsdpctl.backends.ssh.transport.ssh_config import NO_PROMPT, Route, Target, destination, find_route, jump_words

MAX_JUMPS = 16

_OPTIONS = (
    "-oBatchMode=yes",
    "-oStrictHostKeyChecking=accept-new",
    "-oPreferredAuthentications=none",  # the key is shown before, and nothing more is wanted
    "-oCheckHostIP=no",
    "-oControlPath=none",  # an open connection shows no key
    "-oClearAllForwardings=yes",
)


@dataclass(frozen=True)
class Hop:
    """A host whose key must be known, and the jumps before it."""

    target: Target
    route: Route
    via: tuple[str, ...]


@dataclass(frozen=True)
class NewKey:
    """What a host has shown, and the line that known_hosts gets."""

    hop: Hop
    key: KnownKey
    line: str
    file: Path


def accept_new(targets: Sequence[Target], tell: Callable[[str], None]) -> None:
    """Tell each unknown key, then store it; jumps first, because the next host is seen only through a known one."""
    paths = [result.value or () for result in fan_out(targets, find_hops)]
    for depth in range(max(map(len, paths), default=0)):
        hops = {path[depth].route.key_name: path[depth] for path in paths if depth < len(path)}
        for result in fan_out(list(hops.values()), learn):
            if (new := result.value) is not None:
                tell(f"{new.hop.target}: new host key {new.key.kind} {fingerprint(new.key.blob)}, stored in {new.file}")
                _store(new.file, new.line)


def find_hops(target: Target, via: tuple[str, ...] = (), after: int = 0) -> tuple[Hop, ...]:
    """The jumps to a host as ssh makes them, then the host itself."""
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
    """The key of a host that known_hosts does not name yet; None where it does, or the host shows none."""
    file, name = hop.route.own_known_hosts, hop.route.key_name
    if file is None or any(not known.revoked for known in read_known(hop.route.known_hosts, name)):
        return None
    with tempfile.TemporaryDirectory(prefix="fsdpctl-") as directory:
        new = Path(directory) / "known_hosts"
        limit_s = hop.target.connect_timeout_s
        files = " ".join(f'"{path}"' for path in (new, *hop.route.known_hosts))  # ssh writes into the first
        options = [*_OPTIONS, f"-oUserKnownHostsFile={files}", f"-oConnectTimeout={limit_s}"]
        argv = ["ssh", *options, *jump_words(hop.via), *destination(hop.target), "true"]
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
