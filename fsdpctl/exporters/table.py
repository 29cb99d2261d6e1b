"""The targets of `jobs export`: one row each, in a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fsdpctl.exporters import accelerate, jobset, sbatch, torchrun, trainjob
from fsdpctl.exporters.exportable import Exportable, Exported
from fsdpctl.exporters.hide import without_secrets

TARGETS: dict[str, Callable[[Exportable], Exported]] = {
    "accelerate": accelerate.write,
    "sbatch": sbatch.write,
    "torchrun": torchrun.write,
    "trainjob": trainjob.write,
    "jobset": jobset.write,
}


def write(target: str, export: Exportable) -> Exported:
    """Return the file of a target, without secrets."""
    hidden, notes = without_secrets(export)
    exported = TARGETS[target](hidden)
    return replace(exported, notes=(*exported.notes, *notes))
