"""Which layers multiply in float8, and how: decided from the configuration alone, refused before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from fsdpctl.contract.problems import Problem, RuleError, broken_rule
from fsdpctl.contract.trainer.model_config import ModelConfig
from fsdpctl.contract.trainer.strict import STRICT

Float8Recipe = Literal["tensorwise", "rowwise"]

MULTIPLE = 16
"""The sides of a matrix in float8, in elements: what tensor cores take."""


@dataclass(frozen=True, kw_only=True)
class Float8Config:
    """Matrix products in float8, for `precision: float8`. All other arithmetic is in bf16, and the weights in fp32."""

    __pydantic_config__ = STRICT

    recipe: Float8Recipe = "tensorwise"
    """One scale for each tensor, which is the fastest, or one for each row, which is nearer to bf16."""
    layers: tuple[str, ...] = (
        "blocks.*",
    )  # patterns of the names of linear layers, such as "blocks.*.mlp.*" or "head"
    gather: bool | None = None
    """Let FSDP gather these weights in float8, half the bytes of bf16; unset: for tensorwise, between nodes."""

    def __post_init__(self) -> None:
        if not self.layers:
            raise broken_rule("layers must hold at least one pattern; precision: bf16 has no float8 at all", "layers")
        if self.gather and self.recipe == "rowwise":
            raise broken_rule(
                "gather needs the recipe tensorwise: the scales of rows depend on the side from which it is multiplied",
                "gather",
                "recipe",
            )

    def gathers(self, shards: int, ranks_per_node: int) -> bool:
        """Return whether weights in `shards` parts are gathered in float8: over NVLink it costs more than it saves."""
        if shards == 1 or self.gather is not None:
            return shards > 1 and bool(self.gather)
        return self.recipe == "tensorwise" and ranks_per_node % shards != 0


def resolve_float8(config: Float8Config, model: ModelConfig) -> frozenset[str]:
    """Return the names of the layers in float8: * matches dots, so that `blocks.0.*` are all of a block.

    Raises ValueError for a pattern that matches no linear layer, and for a layer whose sides do not fit.
    """
    shapes: Mapping[str, tuple[int, int]] = model.linear_shapes()
    chosen: set[str] = set()
    for pattern in config.layers:
        found = {name for name in shapes if fnmatchcase(name, pattern)}
        if not found:
            last = f"blocks.{model.layers - 1}."
            known = ", ".join(name for name in shapes if not name.startswith("blocks.") or name.startswith(last))
            raise RuleError(Problem("float8.layers", f"no linear layer matches {pattern!r}; there are {known}"))
        chosen |= found
    for name in sorted(chosen):
        if any(side % MULTIPLE for side in shapes[name]):
            sides = " x ".join(map(str, shapes[name]))
            text = f"{name} is {sides}: both sides of a matrix in float8 must be multiples of {MULTIPLE}"
            raise RuleError(Problem("float8.layers", f"{text}; leave it out, or change the model"))
    return frozenset(chosen)
