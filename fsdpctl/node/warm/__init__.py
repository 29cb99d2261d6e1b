"""Warm starts: one fork server of a node imports torch once, and torchrun and the ranks are forked from it.

A cold node imports torch in torchrun and then again in each rank: seconds one after the other, and processor time for
each rank. The fork server begins to import while nodes are checked and join. It has no thread and has not touched
CUDA, so a child can use both.

torchrun itself initializes CUDA in its own process, after which its children could not. So what it starts as a worker
is a small program (`worker.py`) that asks the fork server over a Unix socket for the rank, relays signals to it, and
ends as it ends.
"""
