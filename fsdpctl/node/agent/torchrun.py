"""torchrun, with half of its start and end: what the agent starts for the ranks of its node.

python -m fsdpctl.node.agent.torchrun OPTIONS OF TORCHRUN

It computes nothing, so it leaves out what `import torch` prepares for tracing and export. Where a version of torch, or
a plug-in of it, cannot be imported without, torchrun starts as usual.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

from fsdpctl.node.os.quick_imports import without_collector

PLAIN = "torch.distributed.run"
_LEFT_OUT = ("torch._meta_registrations", "torch.export")


def main(argv: list[str]) -> None:
    try:
        run = _import_torchrun()
    except Exception as error:
        print(f"torchrun starts with all of torch: {error!r}", file=sys.stderr, flush=True)
        os.execv(sys.executable, [sys.executable, "-m", PLAIN, *argv])
    run.main(argv)


def _import_torchrun() -> ModuleType:
    if "torch" not in sys.modules:  # as a fork server has it
        sys.modules.update((name, ModuleType(name)) for name in _LEFT_OUT)
    with without_collector():
        return importlib.import_module(PLAIN)


if __name__ == "__main__":
    main(sys.argv[1:])
