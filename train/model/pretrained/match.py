"""Which tensors to start from belong to which of a run: named as in the trainer, or as in transformers.

A file may have them at its top or under a key such as `model`, beside the optimizer's. A run's tensors are `model.NAME`
and `optimizer.NAME.KEY`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fsdpctl.contract.trainer.hugging_face import hf_rows
from fsdpctl.contract.trainer.model_config import ModelConfig
from train.model.pretrained.sources import Shapes

_OPTIMIZERS = ("optimizer.state.", "optimizer.", "optim.state.", "optim.", "optimizer_state_dict.state.")
_BUFFERS = ("rotary_emb.inv_freq",)
"""Saved by older versions of transformers; computed from the configuration."""
_SHOWN = 3


@dataclass(frozen=True)
class Part:
    """A tensor there, which is one of the trainer, or rows of a fused one."""

    name: str
    shape: tuple[int, ...]


Naming = Callable[[str, tuple[int, ...]], list[Part]]
"""Return the parts of a parameter of the trainer, given its name and shape, from its first row to its last."""


@dataclass(frozen=True)
class Match:
    """Where each tensor of a run is, and pairs that must be equal, for the run has one tensor for both."""

    parts: dict[str, list[Part]]
    tied: list[tuple[str, str]]


def match(found: Shapes, wanted: Shapes, model: ModelConfig) -> Match:
    """Find each wanted tensor. Raise ValueError with all that are missing, unknown or of another shape."""
    naming, prefix = _find_names(found, model)
    optimizer = next((top for top in _OPTIMIZERS if any(name.startswith(top) for name in found)), _OPTIMIZERS[0])

    def parts_of(name: str, shape: tuple[int, ...]) -> list[Part]:
        kind, _, parameter = name.partition(".")
        if kind == "model":
            return [Part(prefix + part.name, part.shape) for part in naming(parameter, shape)]
        parameter, _, key = parameter.rpartition(".")
        return [Part(f"{optimizer}{part.name}.{key}", part.shape) for part in naming(parameter, shape)]

    parts = {name: parts_of(name, shape) for name, shape in wanted.items()}
    tied = [tuple(parts_of(f"model.{module}.weight", ())[0].name for module in model.shared_modules())]
    pairs = [(pair[0], pair[1]) for pair in tied if len(pair) == 2 and pair[1] in found]
    known = {part.name for several in parts.values() for part in several} | {name for pair in pairs for name in pair}
    others = [name for name in found if name.startswith(prefix) and not name.startswith(_OPTIMIZERS)]
    unknown = [name for name in others if name not in known and not name.endswith(_BUFFERS)]
    _raise_all(found, [part for several in parts.values() for part in several], unknown)
    return Match(parts, pairs)


def _find_names(found: Shapes, model: ModelConfig) -> tuple[Naming, str]:
    """Return how the tensors are named, and what is before each name."""

    def own(name: str, shape: tuple[int, ...]) -> list[Part]:
        return [Part(name, shape)]

    def transformers(name: str, shape: tuple[int, ...]) -> list[Part]:
        parts = []
        for rows in hf_rows(name, model):
            height = shape and ((shape[0] if rows.end is None else rows.end) - rows.begin,)
            parts.append(Part(rows.name, (*height, *shape[1:])))
        return parts

    first = model.parameter_names()[0]
    for naming in (transformers, own):
        ((anchor),) = (part.name for part in naming(first, ()))
        prefixes = [name.removesuffix(anchor) for name in found if name == anchor or name.endswith(f".{anchor}")]
        if len(prefixes) == 1 or "model." in prefixes:
            return naming, prefixes[0] if len(prefixes) == 1 else "model."
        if prefixes:
            raise ValueError(f"it has several models, under {_some(prefixes)}; wanted: one, or one under model.")
    anchors = " or ".join(naming(first, ())[0].name for naming in (own, transformers))
    raise ValueError(f"no tensor there is named {anchors}; it has {_some(found) or 'none'}")


def _raise_all(found: Shapes, parts: list[Part], unknown: list[str]) -> None:
    missing = [part.name for part in parts if part.name not in found]
    wrong = [part for part in parts if part.name in found and found[part.name] != part.shape]
    shapes = [f"{part.name} has {list(found[part.name])}, wanted {list(part.shape)}" for part in wrong]
    problems = {"missing": missing, "not of this model": unknown, "of another shape": shapes}
    if any(problems.values()):
        texts = [f"{len(names)} tensors are {kind}: {_some(names)}" for kind, names in problems.items() if names]
        raise ValueError(f"they do not fit to trainer.model: {'; '.join(texts)}")


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f", ... ({len(listed) - _SHOWN} more)" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more
