"""trust: take the host keys of a profile's hosts for the right ones, once and on purpose."""

from __future__ import annotations

from collections.abc import Callable

from fsdpctl.backends.ssh.transport.accept_keys import accept_new
from fsdpctl.backends.ssh.transport.ssh_config import Target
from fsdpctl.errors import UsageError
from fsdpctl.specs.profile import ClusterProfile, SshBackend


def trust_hosts(profile: ClusterProfile, tell: Callable[[str], None]) -> None:
    """Store the keys of hosts that known_hosts does not know yet, spares too; `tell` gets each one beforehand."""
    backend = profile.backend
    if not isinstance(backend, SshBackend):
        raise UsageError(f"profile {profile.name} reaches its nodes through {backend.kind}, which has no host keys")
    hosts = (*profile.nodes, *profile.spares)
    accept_new([Target(h.id, h.address, h.port, backend.user, backend.connect_timeout) for h in hosts], tell)
