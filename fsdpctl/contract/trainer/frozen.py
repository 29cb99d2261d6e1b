"""The parameters that are not trained: decided from the configuration alone, and refused before anything starts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from fsdpctl.contract.problems import Problem, RuleError
from fsdpctl.contract.trainer.model_config import ModelConfig


def resolve_frozen(patterns: Sequence[str], model: ModelConfig) -> frozenset[str]:
    """Return the names of the parameters that match a pattern: * matches dots, so that `blocks.0.*` is all of a block.

    Raises ValueError for a pattern that matches nothing, and where nothing is left to train.
    """
    names = model.parameter_names() if patterns else []
    chosen: set[str] = set()
    for pattern in patterns:
        found = [name for name in names if fnmatchcase(name, pattern)]
        if not found:
            raise RuleError(Problem("optim.frozen", f"no parameter matches {pattern!r}{_did_you_mean(pattern, model)}"))
        chosen.update(found)
    if patterns and len(chosen) == len(names):
        raise RuleError(Problem("optim.frozen", "nothing is left to train; leave some parameters out"))
    return frozenset(chosen)


def _did_you_mean(pattern: str, model: ModelConfig) -> str:
    """Describe the name nearest to a pattern, and all names; those of one block represent those of the others."""
    import difflib  # takes 3 ms, and most patterns are right

    last = model.layers - 1
    number = min(int(found[0][:5]), last) if (found := re.search(r"\d+", pattern)) else last
    block = f"blocks.{number}."
    names = [name for name in model.parameter_names() if not name.startswith("blocks.") or name.startswith(block)]
    groups = [part for part in model.BLOCK_PARTS if any(name.startswith(f"{part}.") for name in model.BLOCK_PARTS)]
    known = [f"{block}*", *(f"{block}{group}.*" for group in groups), *names]
    near = difflib.get_close_matches(pattern[:64], known, n=1, cutoff=0.5)
    top = ", ".join(name for name in names if not name.startswith(block))
    inside = ", ".join(name.removeprefix(block) for name in names if name.startswith(block))
    blocks = f"each of blocks.0 to blocks.{last}" if last else "blocks.0"
    return f"{f'; did you mean {near[0]}?' if near else ';'} there are {top} and, in {blocks}, {inside}"
