"""The configurations chosen for Triton kernels to which torch adds one when it loads them.

torch halves the reduction block of a kernel that needs many registers, and keeps no choice between the two: each
process times them again (pytorch #189121, and before 2.13 also #181789). That is seconds of a start, since what a
kernel overwrites is copied; and of two that are nearly as fast a resumed run may take the other, which adds up in
another order. Here the first choice on a node is kept beside what was compiled.
"""

from __future__ import annotations

import copy
import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

log = logging.getLogger(__name__)

_DIRECTORY = "tuned"


def keep_choices(directory: Path) -> None:
    """Let this process choose as an earlier one did, for kernels of a cache in `directory`. Call it once."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    kernels: Any = CachingAutotuner
    add, tune = kernels._dynamic_scale_rblock, kernels.autotune_to_one_config
    added: WeakSet[Any] = WeakSet()

    def add_unless_chosen(kernel: Any) -> None:
        chosen = _read(_path(directory, kernel))
        if chosen and _take(kernel, chosen):
            return
        known = len(kernel.compile_results)
        add(kernel)
        if len(kernel.compile_results) > known:
            added.add(kernel)

    def tune_and_keep(kernel: Any, *args: Any, **kwargs: Any) -> None:
        launchers = kernel.launchers
        tune(kernel, *args, **kwargs)
        if kernel in added and (path := _path(directory, kernel)):
            chosen = _keep_first(path, _describe(kernel.launchers[0].config))
            kernel.launchers = [one for one in launchers if _describe(one.config) == chosen][:1] or kernel.launchers

    kernels._dynamic_scale_rblock, kernels.autotune_to_one_config = add_unless_chosen, tune_and_keep


def _path(directory: Path, kernel: Any) -> Path | None:
    """Return the file of a kernel: its source, whose digest is its name, has the shapes and the card in it."""
    return directory / _DIRECTORY / f"{Path(kernel.filename).stem}.json" if kernel.filename else None


def _describe(config: Any) -> dict[str, Any]:
    return {"kwargs": config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}


def _read(path: Path | None) -> dict[str, Any] | None:
    """Return the choice in a file; None if there is none, or nothing that describes one."""
    if path is None:
        return None
    with suppress(OSError, ValueError):
        chosen = json.loads(path.read_text())
        if isinstance(chosen, dict) and chosen.keys() == {"kwargs", "num_warps", "num_stages"}:
            return chosen
    return None


def _keep_first(path: Path, chosen: dict[str, Any]) -> dict[str, Any]:
    """Write a choice unless another rank was faster, and return the one that is kept."""
    written = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        written.write_text(json.dumps(chosen))
        try:
            os.link(written, path)
        except FileExistsError:
            return _read(path) or chosen
        finally:
            written.unlink()
    except OSError as error:
        log.warning("choice of a kernel not kept: %s", error)
    return chosen


def _take(kernel: Any, chosen: dict[str, Any]) -> bool:
    """Leave a kernel only the configuration that was chosen, compiled if it is none of its own; or return False."""
    before = kernel.compile_results, kernel.launchers
    try:
        kernel.compile_results, kernel.launchers = [_compiled(kernel, chosen)], []
        kernel._make_launchers()
    except Exception as error:  # the compiler's: whatever it is, torch can choose again
        log.info("choice of a kernel not taken: %s: %s", type(error).__name__, error)
        kernel.compile_results, kernel.launchers = before
        return False
    return True


def _compiled(kernel: Any, chosen: dict[str, Any]) -> Any:
    for result in kernel.compile_results:
        if _describe(result.config) == chosen:
            return result
    config = copy.deepcopy(kernel.compile_results[0].config)
    config.kwargs, config.num_warps, config.num_stages = chosen["kwargs"], chosen["num_warps"], chosen["num_stages"]
    if kernel.fn.fn is None:  # it was loaded without its source
        kernel.fn = kernel._reload_kernel().fn
    return kernel._precompile_config(config)
