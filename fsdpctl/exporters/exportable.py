"""A job on a cluster as any launcher has to start it. Commands are lists of words, quoted where a text is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from pathlib import PurePath
from typing import Any

from fsdpctl.backends.table import get_backend
from fsdpctl.contract.codec import encode
from fsdpctl.contract.plan import ContainerPlan, Head, LaunchPlan
from fsdpctl.specs import bundled
from fsdpctl.specs.job import JobSpec

NODE_RANK = "PET_NODE_RANK"
"""The variable that torchrun reads in place of --node-rank."""
CONFIG = "trainer.json"
"""The file with the configuration of the bundled trainer, in the directory of the run."""


@dataclass(frozen=True)
class Exported:
    """The text of a file, and what of the job is not in it, or needs an edit."""

    text: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Exportable:
    """What an exporter reads."""

    job: JobSpec
    plan: LaunchPlan

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def num_nodes(self) -> int:
        return len(self.plan.nodes)

    @property
    def has_gpus(self) -> bool:
        return self.plan.device == "cuda"

    @property
    def gpus_per_node(self) -> int:
        """One for each rank: what a node has besides is not known to a plan."""
        return self.plan.procs_per_node if self.has_gpus else 0

    @property
    def container(self) -> ContainerPlan | None:
        """The container of the profile, in its present or its older form."""
        return self.plan.container or (self.plan.slurm.container if self.plan.slurm is not None else None)

    @property
    def trainer_config(self) -> str | None:
        """The configuration of the bundled trainer as JSON, without defaults; None for a script of the user."""
        return json.dumps(_changed(self.job.trainer)) if self.job.trainer is not None else None

    def program(self, config: str) -> list[str]:
        """Return the words behind torchrun's options. `config`: the path of the bundled trainer's configuration."""
        entry = self.plan.entry
        target = ["-m", entry.target] if entry.kind == "module" else [entry.target]
        return [*target, *(("--config", config) if entry.is_bundled_trainer else entry.args)]

    def env(self) -> dict[str, str]:
        """Return the variables of all ranks, without secrets."""
        plan = self.plan
        interface = plan.interface if plan.interface != "auto" else None
        chosen = dict.fromkeys(("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"), interface) if interface else {}
        threads = {} if self.has_gpus else {"OMP_NUM_THREADS": "1"}
        return {**threads, **chosen, **self._code(), **plan.env}

    def _code(self) -> Mapping[str, str]:
        """Return where Python finds the bundled trainer and the part of fsdpctl that it imports."""
        if not self.plan.entry.is_bundled_trainer:
            return {}
        folders = dict.fromkeys((str(bundled.train_dir().parent), str(PurePath(__file__).parents[2])))
        # A train.py where the script is started must not take its place.
        return {"PYTHONPATH": ":".join(folders), "PYTHONSAFEPATH": "1"}

    def notes(self) -> list[str]:
        """Return what every launcher but fsdpctl has to do without."""
        plan, notes = self.plan, []
        if plan.entry.is_bundled_trainer:
            notes.append("the bundled trainer is imported from this installation: nodes must see PYTHONPATH")
        if plan.pass_env:
            notes.append(f"secrets are not written: {', '.join(plan.pass_env)} must be in the environment")
        if plan.interface == "auto" and self.num_nodes > 1:
            notes.append("the network interface is left to NCCL and gloo; NCCL_SOCKET_IFNAME sets it")
        return notes


def elsewhere(export: Exportable) -> Exportable:
    """Return the same job without the addresses of this machine, on which a local profile runs everything."""
    plan = export.plan
    if not get_backend(plan.backend).runs_here:
        return export
    nodes = tuple(replace(node, address=None) for node in plan.nodes)
    return replace(export, plan=replace(plan, interface="auto", head=Head(None, ""), nodes=nodes))


def _changed(value: Any) -> Any:
    """Return a dataclass as JSON values, without the keys that have their defaults."""
    if not is_dataclass(value):
        return encode(value)
    given = {field.name: getattr(value, field.name) for field in fields(value)}
    return {field.name: _changed(given[field.name]) for field in fields(value) if given[field.name] != _default(field)}


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def torchrun_options(export: Exportable) -> Sequence[str]:
    """Return torchrun's options that do not differ between nodes."""
    return (f"--nnodes={export.num_nodes}", f"--nproc-per-node={export.plan.procs_per_node}")
