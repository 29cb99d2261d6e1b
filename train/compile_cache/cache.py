"""The cache of one attempt: agreed on before anything is compiled, and saved with the run beside its steps.

A run that no launcher has started, or whose nodes cannot agree, uses the compiler's own directory, as torch does.
"""

from __future__ import annotations

import logging
import os
import secrets
import tarfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fsdpctl.contract.rank_progress import Section
from train.checkpoint.threads import start_in_thread
from train.compile_cache.agree import Choice, Offer, choose
from train.compile_cache.key import compute_key
from train.compile_cache.node_caches import NodeCaches
from train.compile_cache.packed import Stored, Unusable, find_files, names_in, pack, read_stored, write_stored
from train.context import RankContext
from train.parallel.parallelize import uses_compiler

log = logging.getLogger(__name__)

CACHE_DIR = "TORCHINDUCTOR_CACHE_DIR"


class CompileCache:
    """Made by all ranks together, before the first graph."""

    def __init__(self, context: RankContext) -> None:
        self._context, self._world = context, context.world
        self._leads = context.world.rank_info.local_rank == 0  # acts for its node
        self._path = context.paths.compile_cache
        self._stored: Stored | None = None
        self._saved: set[str] = set()
        self._has_new = False
        self._save: Callable[[], None] = lambda: None
        self.name = ""
        if context.launch.node_dir and uses_compiler(context.config, self._world.device):
            self._node = NodeCaches(_compiler_dir())
            self._use(self._agree())
        context.cleanup.callback(self.close)

    def settle(self) -> None:
        """Save what was compiled since the last call. All ranks have finished the steps before."""
        if not self._has_new:
            return
        self._has_new = False
        if self._leads:
            with suppress(OSError):
                self._node.mark_ready(self.name)
                self._node.remove_others(self.name)
        if self._world.is_writer:
            self.close()
            self._save = start_in_thread(self._write)

    def close(self) -> None:
        """Let a save in flight end."""
        self._save()
        self._save = lambda: None

    def _agree(self) -> str:
        """Return the name of the cache that all nodes have, perhaps an empty one. Collective."""
        world, info = self._world, self._world.rank_info
        self._context.progress.mark(Section.START, 0, "compile cache")
        given = world.gather((self._offer() if self._leads else Offer(""), secrets.token_hex(8)))
        new_name = given[0][1]
        choice = choose([offer for offer, _ in given[:: info.local_world_size]], new_name)
        if not choice.name:
            log.info("compile cache: none, since %s", choice.problem)
        elif choice.giver is None:
            log.info("compile cache: empty on all nodes")
        elif not choice.takers:
            log.info("compile cache: the same one on all nodes")
        elif not self._hand_over(choice):
            return new_name
        return choice.name

    def _offer(self) -> Offer:
        context = self._context
        try:
            key = compute_key(context.config, context.layout.micro_batch, self._world.size, self._world.device)
            self._node.open(key)
            if self._world.is_writer:
                self._stored = read_stored(self._path, key)
            return Offer(key, self._node.ready(), self._stored.name if self._stored else "")
        except Unusable as error:
            log.warning("compile cache dropped: %s: %s", self._path, error)
            return Offer(key, self._node.ready())
        except OSError as error:
            return Offer("", problem=str(error))

    def _hand_over(self, choice: Choice) -> bool:
        """Give the cache to the nodes that do not have it; return whether all could take it. Collective."""
        world, info, giver = self._world, self._world.rank_info, choice.giver or 0
        began = time.perf_counter()
        self._context.progress.work_log.begin_compiling()
        source = info.ranks_of(giver)[0]
        payload = world.broadcast(self._payload(choice.name) if world.rank == source else b"", source)
        takes = self._leads and info.node in choice.takers
        problems = world.gather(self._take(choice.name, payload) if takes else "")
        self._context.progress.work_log.end_compiling()
        for rank, problem in enumerate(problems):
            if problem:
                log.info("compile cache: empty on all nodes, since on rank %d: %s", rank, problem)
                return False
        nodes, size, seconds = ", ".join(map(str, choice.takers)), len(payload) / 1e6, time.perf_counter() - began
        log.info("compile cache: node %s got it from node %d (%.1f MB in %.2f s)", nodes, giver, size, seconds)
        return True

    def _payload(self, name: str) -> bytes:
        if self._stored and self._stored.name == name:
            return self._stored.payload
        try:
            return pack(self._node.directory(name))
        except OSError:
            return b""

    def _take(self, name: str, payload: bytes) -> str:
        """Return why this node cannot have the cache; empty if it has it now."""
        try:
            self._node.take(name, payload)
        except (OSError, EOFError, tarfile.TarError) as error:
            return str(error) or type(error).__name__
        return ""

    def _use(self, name: str) -> None:
        if not name:
            return
        try:
            os.environ[CACHE_DIR] = str(self._node.use(name))
        except OSError as error:
            log.warning("compile cache: not on this rank: %s", error)
            return
        self.name = name
        from torch._dynamo.callback import callback_handler

        callback_handler.register_end_callback(lambda *_: self._note())

    def _note(self) -> None:
        self._has_new = True

    def _write(self) -> None:
        """Save the directory with the run, unless all of it is saved. Runs beside training."""
        directory, stored, self._stored = self._node.directory(self.name), self._stored, None
        try:
            if stored and stored.name == self.name:
                self._saved = names_in(stored.payload)
            if (files := set(find_files(directory))) != self._saved:
                payload = pack(directory)
                write_stored(self._path, Stored(self._node.key, self.name, payload))
                self._saved = files
        except OSError as error:
            log.warning("compile cache not saved: %s", error)


def _compiler_dir() -> Path:
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    return Path(os.environ.get(CACHE_DIR) or default_cache_dir()).absolute()
