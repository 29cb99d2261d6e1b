"""The base class of all backends' sections in a profile."""

from __future__ import annotations

from collections.abc import Iterator

from fsdpctl.contract.problems import Problem
from fsdpctl.schema.spec import Spec


class BackendSection(Spec):
    """The section `backend` of a profile."""

    def find_problems(self, num_nodes: int, gpus_per_node: int | None, runs_root: str | None) -> Iterator[Problem]:
        """Yield what is wrong with other keys of the profile for this backend. `num_nodes`: how many nodes it lists."""
        yield from ()
