"""What rules read: a job, a profile, the launch that both make, and which keys the user has written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from fsdpctl.backends.slurm.profile_keys import SlurmSection
from fsdpctl.backends.table import get_backend
from fsdpctl.contract.cards import Card
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.contract.trainer.mesh import split_batch
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.estimate.changes import Change
from fsdpctl.estimate.choices import WORTH, Planner
from fsdpctl.estimate.result import Cluster, Estimate, Fit, estimate
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.profile import ClusterProfile


@dataclass(frozen=True)
class Variable:
    """An environment variable that a job or a profile sets."""

    name: str
    value: str
    key: str  # that sets it, like `env.OMP_NUM_THREADS`


@dataclass(frozen=True)
class Comparison:
    """The estimate of a job as it is and after a change."""

    now: Estimate
    changed: Estimate

    @property
    def is_worth_it(self) -> bool:
        """Whether the changed job fits with memory to spare, and is faster."""
        return self.changed.fit is Fit.FITS and self.changed.time.total * (1 + WORTH) < self.now.time.total


@dataclass(frozen=True)
class Subject:
    """One job on one profile."""

    job: JobSpec
    profile: ClusterProfile
    plan: LaunchPlan
    written: frozenset[str]  # dotted keys of both files, and of options
    card: Card | None = None  # the kind of GPU, if it is known

    @property
    def trainer(self) -> TrainerConfig | None:
        return self.job.trainer

    @property
    def slurm(self) -> SlurmSection | None:
        return self.profile.backend if isinstance(self.profile.backend, SlurmSection) else None

    @property
    def nodes(self) -> int:
        return len(self.plan.nodes)

    @property
    def procs(self) -> int:
        """Ranks per node."""
        return self.plan.procs_per_node

    @property
    def world(self) -> int:
        return self.plan.world_size

    @property
    def has_gpus(self) -> bool:
        return self.plan.device == "cuda"

    @property
    def is_remote(self) -> bool:
        """Whether ranks run on other machines than this one."""
        return not get_backend(self.plan.backend).runs_here

    @property
    def has_network(self) -> bool:
        """Whether ranks on several machines take part."""
        return self.nodes > 1 and self.is_remote

    @property
    def gpus_of_node(self) -> int | None:
        """The GPUs that a run is given on each node, as far as the profile has it."""
        asked = self.slurm.gres_gpus if self.slurm is not None else None
        return asked if asked is not None else self.profile.gpus_per_node

    @property
    def cpus_of_node(self) -> int | None:
        """The processors that a run is given on each node, if the profile has it."""
        return self.slurm.cpus_per_task if self.slurm is not None else None

    @cached_property
    def micro_batch(self) -> tuple[int, int]:
        """Sequences of one forward pass of a rank, and how often it is repeated before a step; of the trainer."""
        assert self.trainer is not None
        return split_batch(self.trainer.batch, self.world)

    @cached_property
    def planner(self) -> Planner | None:
        """What the estimate finds for the trainer on this cluster; None where the kind of GPU is not known."""
        if self.trainer is None or self.card is None or not self.has_gpus:
            return None
        return Planner(self.trainer, Cluster(self.nodes, self.procs, self.profile.network.gbps), self.card)

    def compare(self, change: Change) -> Comparison | None:
        """Return what the estimate finds for the job and after a change; None where it does not know both."""
        if (planner := self.planner) is None:
            return None
        try:
            changed = change.apply(planner.config)
            both = (estimate(config, planner.cluster, planner.card) for config in (planner.config, changed))
            return Comparison(*both)
        except ValueError:
            return None

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """The variables of ranks by name, with what overrides the others: the job, then the profile."""
        return {variable.name: variable for variable in self._all_variables()}

    def _all_variables(self) -> Iterator[Variable]:
        for key, given in (
            ("network.nccl", self.profile.network.nccl),
            ("env", self.profile.env),
            ("env", self.job.env),
            *((f"nodes[{number}].env", node.env) for number, node in enumerate(self.profile.nodes[: self.nodes])),
        ):
            yield from (Variable(name, value, f"{key}.{name}") for name, value in given.items())

    def is_on(self, name: str) -> bool:
        """Return whether a variable is set to something else than 0 or nothing."""
        return name in self.variables and self.variables[name].value not in ("", "0")
