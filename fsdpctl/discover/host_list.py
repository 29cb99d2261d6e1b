"""Read the hosts that a user gives: `a,b,node[01-04],10.0.0.7:2222`, or the lines of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from fsdpctl.contract.files import read_bytes
from fsdpctl.errors import UsageError
from fsdpctl.schema.types import check_host, check_word
from fsdpctl.specs.profile import Node

MAX_HOSTS = 4096
_HOST = re.compile(r"(?:([^@\s]+)@)?(\[[0-9A-Fa-f:]+\]|[^:\s]+|[0-9A-Fa-f:]{3,})(?::([0-9]{1,5}))?")
_RANGE = re.compile(r"(.*?)\[([0-9,-]+)\](.*)")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def read_host_list(hosts: str | None, hostfile: Path | None) -> tuple[str | None, tuple[Node, ...]]:
    """Return the user, if one is given, and the hosts as nodes of a profile. Raise UsageError."""
    words = list(_split(hosts)) if hosts is not None else []
    if hostfile is not None:
        words += _read_file(hostfile)
    nodes: list[Node] = []
    users: set[str | None] = set()
    for word in (one for given in words for one in expand(given)):
        if len(nodes) == MAX_HOSTS:
            raise UsageError(f"more than {MAX_HOSTS} hosts were given")
        user, node = _parse(word)
        users.add(user)
        nodes.append(node)
    if not nodes:
        raise UsageError("no host was given", hint="--hosts a,b,node[01-04] or --hostfile FILE, a host a line")
    if len(users) > 1:
        raise UsageError("hosts with different users were given", hint="set users for hosts in ~/.ssh/config")
    return users.pop(), _with_own_names(nodes)


def expand(word: str) -> Iterator[str]:
    """Yield the hosts of `node[01-03,7]`. Raise UsageError for a range that is none."""
    found = _RANGE.fullmatch(word)
    if found is None or ":" in found[2]:
        yield word
        return
    for part in found[2].split(","):
        first, is_range, last = part.partition("-")
        if not first.isdecimal() or (is_range and not last.isdecimal()):
            raise UsageError(f"{word!r:.80} is no range of hosts", hint="ranges are written node[01-04,7]")
        end = int(last or first)
        if end - int(first) >= MAX_HOSTS or end < int(first):
            raise UsageError(f"{word!r:.80} is no range of at most {MAX_HOSTS} hosts")
        for number in range(int(first), end + 1):
            yield from expand(f"{found[1]}{number:0{len(first)}d}{found[3]}")


def _split(text: str) -> Iterator[str]:
    """Yield the parts between commas that are in no brackets."""
    for part in re.split(r",(?![^\[]*\])", text):
        if part.strip():
            yield part.strip()


def _read_file(path: Path) -> list[str]:
    """Return the first word of each line: MPI's files have `slots=8` behind it."""
    try:
        text = read_bytes(path).decode()
    except OSError as error:
        raise UsageError(f"{path}: cannot read the hosts: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: cannot read the hosts: it is no UTF-8 text") from None
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return [words[0] for words in lines if words]


def _parse(word: str) -> tuple[str | None, Node]:
    found = _HOST.fullmatch(word)
    try:
        if found is None:
            raise ValueError("a host is written HOST, USER@HOST or HOST:PORT")
        address = check_host(found[2].strip("[]"))
        user = check_word(found[1]) if found[1] else None
        port = int(found[3] or 22)
        if not 1 <= port <= 65535:
            raise ValueError(f"{port} is no port")
    except ValueError as error:
        raise UsageError(f"host {word!r:.80}: {error}") from None
    return user, Node(id=_NOT_IN_NAMES.sub("-", address).strip("-.")[:64] or "node", address=address, port=port)


def _with_own_names(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes with a name each. Raise UsageError for a host that was given twice."""
    seen: set[tuple[str, int]] = set()
    for node in nodes:
        if (node.address, node.port) in seen:
            raise UsageError(f"host {node.address} was given twice")
        seen.add((node.address, node.port))
    ids = [node.id for node in nodes]
    if len(set(ids)) == len(ids):
        return tuple(nodes)
    return tuple(node.model_copy(update={"id": f"node-{rank}"}) for rank, node in enumerate(nodes))
