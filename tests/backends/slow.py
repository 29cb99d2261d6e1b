"""Lets methods of the trainer pause before they begin, from outside of it: Python runs `sitecustomize` first.

Whatever happens to a run then happens while it trains, on a machine of any speed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.in_ranks import IN_RANKS

STEP = ("train.loop", "Trainer", "_train_step")
SAVE = ("train.checkpoint.dcp_io", "FileSystemWriter", "write_data")

_SLOW = """
def slow(module, owner, method, pause_s):
    while not hasattr(sys.modules.get(module), owner):
        time.sleep(0.01)
    owner = getattr(sys.modules[module], owner)
    original = getattr(owner, method)
    setattr(owner, method, lambda *words: (time.sleep(pause_s), original(*words))[1])
def slow_early(*words):
    if int(os.environ["FSDPCTL_ATTEMPT"]) <= {attempts}:
        slow(*words)
for words in {what}:
    in_ranks(slow_early, *words)
"""


class Brake:
    """What slows down the runs that are submitted from now on."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        directory.mkdir()
        monkeypatch.setenv("PYTHONPATH", str(directory))
        self._path = directory / "sitecustomize.py"

    def set(self, *what: tuple[str, str, str, float], attempts: int = 1) -> None:
        """In the first attempts. Each is a module, a class, a method and the seconds."""
        self._path.write_text(IN_RANKS + _SLOW.format(what=what, attempts=attempts))
