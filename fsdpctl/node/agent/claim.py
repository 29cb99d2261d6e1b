"""One agent per node and attempt: a supervisor that is started again may start a second one before the first is up."""

from __future__ import annotations

import os
from contextlib import suppress

from fsdpctl.contract.codec import find_json, write_json
from fsdpctl.contract.paths import NodePaths
from fsdpctl.contract.records import ProcessIdentity
from fsdpctl.node.os import processes


def claim_node(paths: NodePaths) -> bool:
    """Record this process as the node's agent of the attempt; return False if another one is or was that."""
    own = processes.identify(os.getpid())
    temporary = paths.root / f".agent-{own.pid}"
    write_json(temporary, own)
    try:
        with suppress(FileExistsError):  # it may be this process's own: NFS can repeat a request that was carried out
            os.link(temporary, paths.agent)
    finally:
        temporary.unlink()
    return find_json(ProcessIdentity, paths.agent) == own
