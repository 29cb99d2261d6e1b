"""What is found in logs: apart from what finds it, because every `--json` command needs the shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fsdpctl.contract.stack_dump import Frame
from fsdpctl.explain.categories import Category, Domain, Role


@dataclass(frozen=True)
class Failure:
    """How one rank ended, or a whole log without ranks."""

    rank: int | None
    host: str | None
    role: Role
    rule: str
    category: Category
    domain: Domain
    retry: bool
    confidence: float
    sentence: str
    remedy: tuple[str, ...]
    docs: str
    file: str
    number: int  # of the line; with `is_cut` in the end of the file, of which more was not read
    is_cut: bool
    line: str
    fields: Mapping[str, str]
    frame: Frame | None  # the innermost one that is of no package


@dataclass(frozen=True)
class LogDiagnosis:
    """The failures of some logs, the initiating one first; none if no failure was found."""

    failures: tuple[Failure, ...]

    @property
    def first(self) -> Failure | None:
        return self.failures[0] if self.failures else None
