"""Import torch without the garbage collector, which would search the growing heap over and over.

It takes a quarter of the time of the import, and at the end of a process as long again for objects that live as long as
the process.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


@contextmanager
def without_collector() -> Iterator[None]:
    """Collect nothing during the imports of the block, and never search for garbage what they have made."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def import_torch_quickly() -> None:
    """Do so at the first import of torch in this process, by whatever module."""
    if "torch" not in sys.modules:
        sys.meta_path.insert(0, _TorchFinder())


class _TorchFinder:
    """Finds torch as Python does, once."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_quickly(module: ModuleType) -> None:
            with without_collector():
                run(module)

        spec.loader.exec_module = run_quickly  # type: ignore[method-assign]
        return spec
