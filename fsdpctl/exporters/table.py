"""The targets of `jobs export`: one row each, in a file of its own."""

from __future__ import annotations

from collections.abc import Callable

from fsdpctl.exporters import accelerate, jobset, sbatch, torchrun, trainjob
from fsdpctl.exporters.exportable import Exportable, Exported

TARGETS: dict[str, Callable[[Exportable], Exported]] = {
    "accelerate": accelerate.write,
    "sbatch": sbatch.write,
    "torchrun": torchrun.write,
    "trainjob": trainjob.write,
    "jobset": jobset.write,
}
