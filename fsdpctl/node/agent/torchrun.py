"""torchrun, with a quicker start and end: what the agent starts for the ranks of its node.

python -m fsdpctl.node.agent.torchrun OPTIONS OF TORCHRUN
"""

from __future__ import annotations

import importlib
import sys

from fsdpctl.node.os.quick_imports import without_collector


def main(argv: list[str]) -> None:
    with without_collector():
        run = importlib.import_module("torch.distributed.run")
    run.main(argv)


if __name__ == "__main__":
    main(sys.argv[1:])
