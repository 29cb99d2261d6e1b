"""Agreement of all ranks on one cache, before anything is compiled. Nodes without it get it over gloo."""

from __future__ import annotations

import logging
import secrets
import tarfile
import time

from fsdpctl.contract.rank_progress import Section
from train.compile_cache.archive import pack
from train.compile_cache.choose import Choice, Offer, choose
from train.compile_cache.key import compute_key
from train.compile_cache.node_caches import NodeCaches
from train.compile_cache.stored import Stored, Unusable, read_stored
from train.context import RankContext

log = logging.getLogger(__name__)


class Agreement:
    """Made by all ranks together. `name`: the cache that all nodes have now, perhaps an empty one; empty: none."""

    def __init__(self, context: RankContext, node: NodeCaches) -> None:
        self._context, self._world, self._node = context, context.world, node
        self.stored: Stored | None = None  # what this rank has read from the run
        info = context.world.rank_info
        self._leads = info.local_rank == 0  # acts for its node
        context.progress.mark(Section.START, 0, "compile cache")
        given = self._world.gather((self._offer() if self._leads else Offer(""), secrets.token_hex(8)))
        new_name = given[0][1]
        choice = choose([offer for offer, _ in given[:: info.local_world_size]], new_name)
        self.name = choice.name
        if not choice.name:
            log.info("compile cache: none, since %s", choice.problem)
        elif choice.giver is None:
            log.info("compile cache: empty on all nodes")
        elif not choice.takers:
            log.info("compile cache: the same one on all nodes")
        elif not self._hand_over(choice, choice.giver):
            self.name = new_name

    def _offer(self) -> Offer:
        config, path = self._context.config, self._context.paths.compile_cache
        try:
            key = compute_key(config, self._context.layout.micro_batch, self._world.size, self._world.device)
            self._node.open(key)
            if self._world.is_writer:
                self.stored = read_stored(path, key)
            return Offer(key, self._node.ready(), self.stored.name if self.stored else "")
        except Unusable as error:
            log.warning("compile cache dropped: %s: %s", path, error)
            return Offer(key, self._node.ready())
        except OSError as error:
            return Offer("", problem=str(error))

    def _hand_over(self, choice: Choice, giver: int) -> bool:
        """Give the cache to the nodes that do not have it; return whether all could take it. Collective."""
        world, info, work_log = self._world, self._world.rank_info, self._context.progress.work_log
        began = time.perf_counter()
        work_log.begin_compiling()
        source = info.ranks_of(giver)[0]
        payload = world.broadcast(self._payload(choice.name) if world.rank == source else b"", source)
        takes = self._leads and info.node in choice.takers
        problems = world.gather(self._take(choice.name, payload) if takes else "")
        work_log.end_compiling()
        for rank, problem in enumerate(problems):
            if problem:
                log.info("compile cache: empty on all nodes, since on rank %d: %s", rank, problem)
                return False
        nodes, size, seconds = ", ".join(map(str, choice.takers)), len(payload) / 1e6, time.perf_counter() - began
        log.info("compile cache: node %s got it from node %d (%.1f MB in %.2f s)", nodes, giver, size, seconds)
        return True

    def _payload(self, name: str) -> bytes:
        """Return the cache as this node has it, else as it was saved; empty, which no node can take, if that fails."""
        if self.stored and name not in self._node.ready():
            return self.stored.payload
        try:
            return pack(self._node.directory(name))
        except (OSError, tarfile.TarError):
            return b""

    def _take(self, name: str, payload: bytes) -> str:
        """Return why this node cannot have the cache; empty if it has it now."""
        try:
            self._node.take(name, payload)
        except (OSError, tarfile.TarError) as error:
            self._node.drop(name)  # it may be what has filled the disk
            return str(error) or type(error).__name__
        return ""
