"""torchrun, with a third of its start: what the agent starts for the ranks of its node.

python -m fsdpctl.node.agent.torchrun OPTIONS OF TORCHRUN

It computes nothing, so it gets only what it needs of torch (`minimal_torch.py`). Where a version of torch cannot be
imported without the rest, torchrun starts as usual.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

from fsdpctl.node.agent import minimal_torch
from fsdpctl.node.os.quick_imports import without_collector

PLAIN = "torch.distributed.run"


def main(argv: list[str]) -> None:
    try:
        run = _import_torchrun()
    except Exception as error:
        print(f"torchrun starts with all of torch: {error!r}", file=sys.stderr, flush=True)
        os.execv(sys.executable, [sys.executable, "-m", PLAIN, *argv])
    run.main(argv)


def _import_torchrun() -> ModuleType:
    with without_collector():
        if "torch" not in sys.modules:  # as a fork server has it
            minimal_torch.install()
        return importlib.import_module(PLAIN)


if __name__ == "__main__":
    main(sys.argv[1:])
