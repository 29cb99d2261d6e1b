"""Print the state of this node's GPUs as one line of JSON, once or every few seconds.

python -m fsdpctl.node.gpus [--every SECONDS]

A process of its own: a driver that hangs must stop neither the agent's heartbeat nor its end.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

from fsdpctl.contract.codec import encode
from fsdpctl.node.gpus.nvml import Nvml, NvmlError


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="fsdpctl.node.gpus")
    parser.add_argument("--every", type=float, metavar="SECONDS")
    every_s = parser.parse_args(argv).every
    try:
        nvml = Nvml(os.environ)
    except NvmlError as error:
        print(error, file=sys.stderr)
        return 1
    time.sleep(every_s or 1.0)  # activity is measured between two samples
    while True:
        print(json.dumps(encode(nvml.sample())), flush=True)
        if every_s is None:
            return 0
        time.sleep(every_s)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(0)
