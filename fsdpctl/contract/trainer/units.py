"""The modules that FSDP gathers together: decided from the configuration alone, and refused before anything starts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from fsdpctl.contract.problems import Problem, RuleError, broken_rule
from fsdpctl.contract.trainer.model_config import ModelConfig
from fsdpctl.contract.trainer.strict import STRICT, require_at_least

Unit = tuple[str, ...]
"""Names of the modules that are gathered together."""
ROOT: Unit = ()
"""The rest: what no unit holds."""


@dataclass(frozen=True, kw_only=True)
class UnitsConfig:
    """FSDP units, whose parameters are gathered together: by number of blocks, by size, or by module name."""

    __pydantic_config__ = STRICT

    blocks: int | None = None  # number of blocks in each unit; 0: the whole model is one unit; unset: 1
    parameters: int | None = None  # minimum number of parameters in each unit, in whole blocks
    names: tuple[str, ...] | None = None  # patterns of module names such as "blocks.*.mlp"; each match is one unit

    def __post_init__(self) -> None:
        if (self.blocks is not None) + (self.parameters is not None) + (self.names is not None) > 1:
            raise broken_rule(
                "give units by blocks, by parameters or by names, one of them", "blocks", "parameters", "names"
            )
        require_at_least(0, blocks=self.blocks)
        require_at_least(1, parameters=self.parameters)
        if self.names == ():
            raise broken_rule("names must hold at least one; blocks: 0 makes the whole model one unit", "names")

    @property
    def blocks_each(self) -> int:
        return 1 if self.blocks is None else self.blocks


def resolve_units(units: UnitsConfig, model: ModelConfig) -> tuple[Unit, ...]:
    """Return the units, in the order of the forward pass.

    What none of them holds belongs to the root; without units that is the whole model. Raises ValueError for a pattern
    that matches no module.
    """
    if units.names is not None:
        return tuple((name,) for name in _choose(units.names, model))
    size = math.ceil(units.parameters / model.block_parameters) if units.parameters else units.blocks_each
    blocks = [f"blocks.{number}" for number in range(model.layers)]
    return tuple(tuple(blocks[i : i + size]) for i in range(0, len(blocks), size)) if size else ()


def owning_units(parameters: Iterable[str], units: Iterable[Unit]) -> dict[str, Unit]:
    """Return the unit of each parameter, that of the smallest module with it that is in one; ROOT where none is."""
    unit_of = {name: unit for unit in units for name in unit}
    return {name: next((unit_of[m] for m in _modules_around(name) if m in unit_of), ROOT) for name in parameters}


def has_units_inside_blocks(units: tuple[Unit, ...]) -> bool:
    """Return whether some unit begins inside of a block."""
    return any(name.count(".") > 1 for unit in units for name in unit)


def _modules_around(parameter: str) -> Iterator[str]:
    """Yield the modules with a parameter, the smallest first."""
    while "." in parameter:
        parameter = parameter.rpartition(".")[0]
        yield parameter


def _choose(patterns: tuple[str, ...], model: ModelConfig) -> list[str]:
    names = model.module_names()
    for pattern in patterns:
        if not any(_matches(name, pattern) for name in names):
            if any(_matches(name, pattern) for name in model.shared_modules()):
                raise RuleError(Problem("units.names", _describe_shared(pattern, model)))
            top = ", ".join(name for name in names if not name.startswith("blocks."))
            known = f"{top}, blocks.N and, in each, {', '.join(model.BLOCK_PARTS)}"
            raise RuleError(Problem("units.names", f"no module is called {pattern!r}; there are {known}"))
    return [name for name in names if any(_matches(name, pattern) for pattern in patterns)]


def _describe_shared(pattern: str, model: ModelConfig) -> str:
    shared = " and ".join(model.shared_modules())
    return f"{pattern!r} cannot be a unit: {shared} share one weight (tie_embeddings), which stays with the whole model"


def _matches(name: str, pattern: str) -> bool:
    """Match as a shell does: * ends at a dot, so that `blocks.*` are the blocks, and not their parts."""
    parts, wanted = name.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))
