"""Read OpenSSH's configuration of a host from `ssh -G`: Include, Match, aliases and tokens all count.

Only OpenSSH reads ssh_config correctly: fabric ignores Include and takes `ProxyJump none` for a host called none
(fabric #2354).
"""

from __future__ import annotations

import os
import pwd
import shlex
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.backends.fanout import HostError
from fsdpctl.contract.plan import LaunchPlan, PlannedNode

DEFAULT_PORT = 22
NO_PROMPT = {"SSH_ASKPASS_REQUIRE": "never"}
"""For every ssh that is started: BatchMode does not apply to jump hosts, and a window on a desktop waits forever."""
_LIMIT_S = 10


@dataclass(frozen=True)
class Target:
    """A host as the profile names it."""

    name: str
    address: str
    port: int = DEFAULT_PORT
    user: str | None = None
    connect_timeout_s: int = 10

    def __str__(self) -> str:
        port = f":{self.port}" if self.port != DEFAULT_PORT else ""
        return f"{self.name} ({self.address}{port})" if self.name != self.address else f"{self.address}{port}"


def target_of(node: PlannedNode, plan: LaunchPlan) -> Target:
    assert plan.ssh is not None
    return Target(node.id, node.address or "", node.ssh_port, plan.ssh.user, plan.ssh.connect_timeout_s)


@dataclass(frozen=True)
class Route:
    """How to connect to a host, log in, and verify its key."""

    host: str
    port: int
    user: str
    key_name: str  # the name under which known_hosts lists the host
    known_hosts: tuple[Path, ...]
    own_known_hosts: Path | None  # the one of them that new keys go into
    identities: tuple[Path, ...]
    use_agent: bool
    jumps: tuple[str, ...]  # what ProxyJump names, the nearest first, as ssh:// URLs
    proxy: tuple[str, ...]  # command whose standard input and output are the connection; empty: connect directly


def find_route(target: Target) -> Route:
    """Ask `ssh -G` for the route to a host. Raise HostError if the user's configuration is broken."""
    argv = ["ssh", "-G", *destination(target)]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LIMIT_S)
    except FileNotFoundError:
        raise HostError("no ssh on this machine: install OpenSSH's client") from None
    except subprocess.TimeoutExpired:
        raise HostError(f"`{shlex.join(argv)}` gave no answer within {_LIMIT_S} s") from None
    if done.returncode != 0:
        raise HostError(f"ssh refuses its configuration: {done.stderr.strip()}")
    return parse_route(done.stdout, target.connect_timeout_s)


def destination(target: Target) -> list[str]:
    """Return the arguments of ssh for a host: port and user of the profile if set there, else ssh_config decides."""
    port = ["-p", str(target.port)] if target.port != DEFAULT_PORT else []
    user = ["-l", target.user] if target.user else []
    return [*port, *user, "--", target.address]


def parse_route(text: str, connect_timeout_s: int) -> Route:
    """Turn the output of `ssh -G` into a Route."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        found[key].append(value)

    def one(key: str, default: str = "") -> str:
        return found[key][0] if found[key] else default

    host, port, user = one("hostname"), int(one("port")), one("user")
    name = one("hostkeyalias") or (host if port == DEFAULT_PORT else f"[{host}]:{port}")
    own = _files(one("userknownhostsfile"))
    jumps = _urls(one("proxyjump"))
    return Route(
        host=host,
        port=port,
        user=user,
        key_name=name,
        known_hosts=(*own, *_files(one("globalknownhostsfile"))),
        own_known_hosts=own[0] if own else None,
        identities=tuple(_expand(file) for file in found["identityfile"] if file != "none"),
        use_agent=one("identityagent") != "none" and one("identitiesonly") != "yes",
        jumps=jumps,
        proxy=_proxy(one("proxycommand"), jumps, host, port, user, connect_timeout_s),
    )


def _files(value: str) -> tuple[Path, ...]:
    return tuple(_expand(file) for file in shlex.split(value) if file != "none")


def _urls(jumps: str) -> tuple[str, ...]:
    """Return jump hosts as URLs, which have one form for port and user; `-J` and a bare host differ in that."""
    hops = jumps.split(",") if jumps not in ("", "none") else []
    return tuple(hop if hop.startswith("ssh://") else f"ssh://{hop}" for hop in hops)


def _expand(file: str) -> Path:
    """Expand `~` like ssh: to the home directory in the password database, not to $HOME."""
    if file != "~" and not file.startswith("~/"):
        return Path(file)
    return Path(pwd.getpwuid(os.getuid()).pw_dir) / file[2:]


def _proxy(
    command: str, jumps: tuple[str, ...], host: str, port: int, user: str, connect_timeout_s: int
) -> tuple[str, ...]:
    """Return the proxy command. Jumps use OpenSSH, which verifies each hop by the user's own configuration."""
    if jumps:
        *chain, last = jumps
        options = ["-oBatchMode=yes", f"-oConnectTimeout={connect_timeout_s}", "-oForwardAgent=no"]
        return ("ssh", *options, *jump_arguments(chain), "-W", f"[{host}]:{port}", last)
    if command and command != "none":
        filled = command
        for token, value in (("%h", host), ("%p", str(port)), ("%r", user), ("%%", "%")):
            filled = filled.replace(token, value)
        return ("sh", "-c", f"exec {filled}")
    return ()


def jump_arguments(chain: Sequence[str]) -> list[str]:
    return ["-J", ",".join(chain)] if chain else []
