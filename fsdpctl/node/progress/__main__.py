"""Read the progress of a user's script, for its metrics.jsonl, until the agent closes this process's input.

python -m fsdpctl.node.progress --run-dir DIR --attempt N [--listen FILE-NUMBER]

A process of its own: a slow pattern, a slow disk or many posts must delay neither the agent nor the ranks. Twice a
second it prints the newest step, or an empty line, so that the agent sees that posts are answered.
"""

from __future__ import annotations

import argparse
import select
import socket
import sys
import threading
import time
from pathlib import Path

from fsdpctl.contract.codec import read_json
from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.node.os import signals
from fsdpctl.node.progress.sources import ProgressSources
from fsdpctl.node.progress.trainer_server import TrainerServer

EVERY_S = 0.5


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="fsdpctl.node.progress")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--attempt", type=int, required=True)
    parser.add_argument("--listen", type=int, metavar="FILE-NUMBER")
    words = parser.parse_args(argv)
    signals.ignore()  # the agent decides when the end has come
    run = RunPaths(words.run_dir)
    server = None
    if words.listen is not None:
        token = read_bytes(run.attempt(words.attempt).node(0).trainer_token).decode()
        server = TrainerServer(socket.socket(fileno=words.listen), token)
    sources = ProgressSources(read_json(LaunchPlan, run.plan), run.attempt(words.attempt), server)
    threading.Thread(target=_report, args=(sources,), daemon=True).start()
    has_ended = False
    while not has_ended:
        has_ended = bool(select.select([sys.stdin], [], [], EVERY_S)[0])
        sources.look(is_end=has_ended)
    return 0


def _report(sources: ProgressSources) -> None:
    """Print the newest step until the process ends, also while a file server does not answer."""
    while True:
        print(sources.step if sources.step is not None else "", flush=True)
        time.sleep(EVERY_S)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(0)
