"""The program of a run. It has a module of its own because each rank needs it, and nothing else of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fsdpctl.contract import BENCHMARKS, BUNDLED_TRAINER


@dataclass(frozen=True)
class Entry:
    """The program that each rank runs."""

    kind: Literal["module", "script"]
    target: str
    args: tuple[str, ...] = ()

    @property
    def is_bundled_trainer(self) -> bool:
        """False for a user's own program, about whose checkpoints nothing is known."""
        return self.kind == "module" and self.target == BUNDLED_TRAINER

    @property
    def is_bundled(self) -> bool:
        """True for the bundled trainer and the benchmarks: no project of a user is copied."""
        return self.is_bundled_trainer or (self.kind == "module" and self.target.startswith(f"{BENCHMARKS}."))
