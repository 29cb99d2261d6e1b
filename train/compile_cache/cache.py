"""The cache of one attempt: agreed on before anything is compiled, and saved with the run beside its steps.

A run that no launcher has started, or whose nodes cannot agree, uses the compiler's own directory, as torch does.
"""

from __future__ import annotations

import logging
import os
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Thread

from train.compile_cache.agree import Agreement
from train.compile_cache.archive import find_files, names_in, pack
from train.compile_cache.node_caches import NodeCaches
from train.compile_cache.stored import Stored, write_stored
from train.compile_cache.tuned_kernels import keep_choices
from train.context import RankContext
from train.parallel.parallelize import uses_compiler
from train.parallel.saved_graph import CACHE_DIR

log = logging.getLogger(__name__)


class CompileCache:
    """Made by all ranks together, before the first graph."""

    def __init__(self, context: RankContext) -> None:
        self._path, self._is_writer = context.paths.compile_cache, context.world.is_writer
        self._leads = context.world.rank_info.local_rank == 0  # acts for its node
        self._stored: Stored | None = None
        self._saved: set[str] = set()
        self._has_new = False
        self._save: Thread | None = None
        self.directory: Path | None = None  # that all nodes agreed on, and that is saved with the run
        if context.launch.node_dir and uses_compiler(context.config, context.world.device):
            self._node = NodeCaches(_compiler_dir())
            agreement = Agreement(context, self._node)
            self._name, self._stored = agreement.name, agreement.stored
            self._use()
            if self.directory and context.world.device.type == "cuda":
                keep_choices(self.directory)
        context.cleanup.callback(self.close)

    def settle(self) -> None:
        """Save what was compiled since the last call. All ranks have finished the steps before."""
        if not self._has_new or (self._save and self._save.is_alive()):
            return
        self._has_new = False
        if self._leads:
            with suppress(OSError):
                self._node.mark_ready(self._name)
                self._node.remove_unused(self._name)
        if self._is_writer:
            self._save = Thread(target=self._write, daemon=True)
            self._save.start()

    def close(self) -> None:
        """Let a save in flight end."""
        if self._save:
            self._save.join()

    def _use(self) -> None:
        if not self._name:
            return
        try:
            self.directory = self._node.use(self._name)
        except OSError as error:
            log.warning("compile cache: not on this rank: %s", error)
            return
        os.environ[CACHE_DIR] = str(self.directory)
        from torch._dynamo.callback import callback_handler

        callback_handler.register_end_callback(lambda *_: self._note())

    def _note(self) -> None:
        self._has_new = True

    def _write(self) -> None:
        """Save the directory with the run, unless all of it is saved. Runs beside training."""
        directory, stored, self._stored = self._node.directory(self._name), self._stored, None
        try:
            if stored and stored.name == self._name:
                self._saved = names_in(stored.payload)
            if (files := set(find_files(directory))) != self._saved:
                write_stored(self._path, Stored(self._node.key, self._name, pack(directory)))
                self._saved = files
        except (OSError, tarfile.TarError) as error:
            log.warning("compile cache not saved: %s", error)


def _compiler_dir() -> Path:
    """Return where torch's compiler keeps its cache."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    if given := os.environ.get(CACHE_DIR):
        return Path(given).absolute()
    try:
        return Path(default_cache_dir())
    except (KeyError, OSError):  # of a user without a name, as in some containers
        return Path(tempfile.gettempdir(), f"torchinductor_{os.geteuid()}")
