"""Options by which launchers find each other: fsdpctl decides them. A command has them refused, or left out."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from fsdpctl.other_launchers.draft import Draft
from fsdpctl.other_launchers.shell.options import Parsed
from fsdpctl.other_launchers.shell.statements import plain
from fsdpctl.other_launchers.shell.variables import is_resolved
from fsdpctl.schema.problems import Location, shorten

_HEAD = "fsdpctl finds the address of the head when the run starts"
_PORT = "fsdpctl chooses a free port; `ports` of the profile limits which"
_RANK = "fsdpctl numbers the nodes"
_OF_ACCELERATE = ("main-process-ip", "main-process-port", "machine-rank")
_BACKENDS = ("static", "c10d")


def check_rendezvous(draft: Draft, parsed: Parsed, location: Location) -> None:
    """Note each such option; one that would be another run without it must be removed by the user."""
    for name, value in parsed.options:
        if (check := _CHECKS.get(name)) is not None:
            text, is_refused = check(value or "")
            option = name.replace("-", "_") if name in _OF_ACCELERATE else name
            draft.note(location, f"--{option}", text, must_change=is_refused)


def _address(value: str) -> tuple[str, bool]:
    host = plain(value).rpartition(":")[0] or plain(value) if value.count(":") == 1 else plain(value)
    if not is_resolved(value) or _is_own(host):
        return _HEAD, False
    text = f"{_HEAD}: remove {shorten(host)}, or write it as `master_address` of the profile"
    return text, True


def _is_own(host: str) -> bool:
    """Return whether an address is of the machine itself, which names no other one."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host in ("localhost", "")


def _rank(value: str) -> tuple[str, bool]:
    if not is_resolved(value) or plain(value) == "0":
        return _RANK, False
    return f"{_RANK}, and one command is for all: remove {shorten(plain(value))}, the number of one node", True


def _backend(value: str) -> tuple[str, bool]:
    if plain(value) in _BACKENDS:
        return f"`rendezvous: {plain(value)}` in the profile chooses it", False
    return f"{shorten(plain(value))}: there are {' and '.join(_BACKENDS)}, by `rendezvous` of the profile", True


def _left_out(text: str) -> Callable[[str], tuple[str, bool]]:
    return lambda value: (text, False)


_CHECKS: dict[str, Callable[[str], tuple[str, bool]]] = {
    "master-addr": _address,
    "main-process-ip": _address,
    "rdzv-endpoint": _address,
    "master-port": _left_out(_PORT),
    "main-process-port": _left_out(_PORT),
    "node-rank": _rank,
    "machine-rank": _rank,
    "rdzv-backend": _backend,
    "rdzv-id": _left_out("it is the id of the run"),
    "rdzv-conf": _left_out("`join_timeout` of the profile is how long nodes wait for each other"),
    "local-addr": _left_out("`network.interface` of the profile chooses the address of a node"),
    "standalone": _left_out("fsdpctl starts torchrun, on one node too"),
    "ssh-port": _left_out("`ssh` of the profile reaches the nodes"),
}
