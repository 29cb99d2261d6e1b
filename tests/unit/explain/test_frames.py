"""The frames of the user's code: those of libraries and of fsdpctl are left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.contract.paths import RunPaths
from fsdpctl.explain.frames import Frames, user_frames

RUN = RunPaths(Path("/runs/r-aaaa"))

EXCEPTION = """\
Traceback (most recent call last):
  File "/runs/r-aaaa/code/fsdpctl/node/agent/rank.py", line 40, in main
    _run(argv)
  File "<frozen runpy>", line 88, in _run_code
  File "/runs/r-aaaa/code/src/fit.py", line 21, in <module>
    main()
  File "/runs/r-aaaa/code/src/fit.py", line 9, in main
    loss.backward()
    ~~~~~~~~~~~~~^^
  File "/env/lib/python3.11/site-packages/torch/_tensor.py", line 630, in backward
    torch.autograd.backward(self)
RuntimeError: x
"""
CHAIN = """\
Traceback (most recent call last):
  File "/home/me/lib/shards.py", line 3, in read
    open(path)
FileNotFoundError: x

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/runs/r-aaaa/code/src/fit.py", line 5, in load
    raise DataError from error
DataError: y
"""
FAULT = """\
step 3
Fatal Python error: Segmentation fault

Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait

Current thread 0x00007f00 (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/runs/r-aaaa/code/src/kernels.py", line 4 in fused
  File "/runs/r-aaaa/code/src/fit.py", line 8 in <module>
  File "<frozen runpy>", line 88 in _run_code

Extension modules: torch._C (total: 20)
"""
TRAINER = """\
Traceback (most recent call last):
  File "/runs/r-aaaa/code/fsdpctl/node/agent/rank.py", line 40, in main
    _run(argv)
  File "/runs/r-aaaa/code/train/loop.py", line 7, in run
    step()
ValueError: x
"""


@pytest.mark.parametrize(
    ("text", "frames"),
    [
        (EXCEPTION, Frames(("fit.py:21 in <module>: main()", "fit.py:9 in main: loss.backward()"), 3)),
        (CHAIN, Frames(("/home/me/lib/shards.py:3 in read: open(path)",), 0)),
        (FAULT, Frames(("fit.py:8 in <module>", "kernels.py:4 in fused"), 2)),
        (TRAINER, Frames(("train/loop.py:7 in run: step()",), 1)),
        ("no traceback\n", Frames()),
    ],
    ids=["exception", "chain", "fault handler", "trainer", "none"],
)
def test_frames(text: str, frames: Frames) -> None:
    assert user_frames(text, RUN) == frames


def test_only_the_last_frames_are_shown() -> None:
    calls = "".join(f'  File "/runs/r-aaaa/code/src/fit.py", line {n}, in call\n    call()\n' for n in range(500))
    found = user_frames(f"Traceback (most recent call last):\n{calls}RecursionError: x\n", RUN)
    assert [frame.partition(" ")[0] for frame in found.shown] == ["fit.py:497", "fit.py:498", "fit.py:499"]
    assert found.folded == 497
