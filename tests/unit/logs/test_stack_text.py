"""Stacks as text."""

from __future__ import annotations

from fsdpctl.contract.stack_dump import parse_stacks
from fsdpctl.logs.stack_text import describe_threads

TEXT = """Thread 0x2 (most recent call first):
  File "/run/saver.py", line 5 in write
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x3 (most recent call first):
  File "/run/train.py", line 9 in load
  File "<frozen importlib._bootstrap>", line 1176 in _find_and_load
  File "/run/train.py", line 2 in <module>
  File "<frozen runpy>", line 88 in _run_code
  File "/runs/r/code/fsdpctl/node/agent/rank.py", line 98 in _run
"""


def test_only_the_user_s_threads_and_frames_are_shown_and_the_main_thread_first() -> None:
    assert describe_threads(parse_stacks(TEXT)).splitlines() == [
        "main thread",
        "  /run/train.py:9 load",
        "  /run/train.py:2 <module>",
        "thread",
        "  /run/saver.py:5 write",
    ]
