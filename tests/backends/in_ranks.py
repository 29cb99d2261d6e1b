"""Python that runs in each rank of a run from outside of its program: text for a `sitecustomize.py`.

A cold rank has it at its start. A warm one is forked from a process that has run it before, without the rank's
environment.
"""

from __future__ import annotations

IN_RANKS = """
import os, sys, threading, time

def in_ranks(work, *words):
    def wait_and_work():
        deadline = time.monotonic() + 5
        while "RANK" not in os.environ and time.monotonic() < deadline:  # torchrun is forked, too
            time.sleep(0.001)
        if "RANK" in os.environ:
            work(*words)

    def start():
        threading.Thread(target=wait_and_work, daemon=True).start()

    if "RANK" in os.environ:
        start()
    elif "fsdpctl.node.warm" in sys.orig_argv:
        # Not in the child that will import and serve: a thread of its own would keep it from being used.
        os.register_at_fork(after_in_child=lambda: "RANK" not in os.environ and "torch" in sys.modules and start())
"""
