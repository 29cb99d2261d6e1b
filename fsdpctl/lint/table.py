"""All rules, in the order of docs/lint.md: those of each module in the order in which it defines them."""

from __future__ import annotations

from types import ModuleType

from fsdpctl.lint import (
    batch,
    hosts,
    leftovers,
    memory,
    model,
    network,
    numerics,
    restarts,
    saving,
    secrets,
    sharding,
    variables,
)
from fsdpctl.lint.rule import Rule

SECTIONS: dict[str, ModuleType] = {
    "Sharding": sharding,
    "Memory": memory,
    "Batch and evaluation": batch,
    "Sizes of the model": model,
    "Precision and speed": numerics,
    "Keys without effect, or left from a test": leftovers,
    "Checkpoints and disks": saving,
    "Time limits and restarts": restarts,
    "Network": network,
    "Secrets": secrets,
    "Environment variables": variables,
    "Nodes, processors and setup": hosts,
}


def rules_of(module: ModuleType) -> tuple[Rule, ...]:
    """Return the rules that a module defines."""
    return tuple(value for value in vars(module).values() if isinstance(value, Rule))


RULES = tuple(rule for module in SECTIONS.values() for rule in rules_of(module))
