"""JobSpec: frozen, strict, unknown keys refused. The sentence under a key is its documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from fsdpctl.contract import BUNDLED_TRAINER
from fsdpctl.contract.causes import RESTART_ON
from fsdpctl.contract.plan import Debug, StopSignal, TrackerName
from fsdpctl.contract.problems import Problem, RuleError, refuse
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.schema.spec import Spec
from fsdpctl.schema.types import (
    Argument,
    Duration,
    EnvMap,
    FailureCause,
    Module,
    Name,
    ProgressRegex,
    RanksPerNode,
    Word,
    format_duration,
)
from fsdpctl.specs.entrypoint_text import explain_script, explain_text
from fsdpctl.specs.lint import LintKeys
from fsdpctl.specs.other_names import OTHER_NAMES


class Entrypoint(Spec):
    """The program that each rank runs: a module or a script, not both."""

    module: Module | None = None
    """Python module of your project; `train` is the bundled trainer."""
    script: Word | None = None
    """Python file, relative to the directory where you run `submit`."""

    @model_validator(mode="before")
    @classmethod
    def _mapping(cls, given: Any) -> Any:
        if isinstance(given, str | list):
            raise RuleError(Problem("", explain_text(given)))
        script = given.get("script") if isinstance(given, dict) else None
        if isinstance(script, str) and (text := explain_script(script)) is not None:
            raise RuleError(Problem("script", f"it is one file; {text}", ("script",)))
        return given

    @model_validator(mode="after")
    def _one(self) -> Entrypoint:
        if (self.module is None) == (self.script is None):
            raise RuleError(Problem("", "give either `module` or `script`", ("module", "script")))
        return self

    @property
    def is_bundled_trainer(self) -> bool:
        return self.module == BUNDLED_TRAINER


class Hang(Spec):
    """How long ranks may make no progress before the attempt is ended."""

    after: Duration | None = None
    """In a step, and wherever nothing longer is usual; at least three times what a slow step takes. Default: 10s; your
    own script has no limit but those that are sure: a stopped process, or 10 minutes in which no rank does anything."""
    data: Duration = 600
    """While a rank reads its training data."""
    start: Duration = 1800
    """While a rank compiles, or works on something that takes an unknown time, as at the start."""
    disk: Duration = 60
    """While a disk or a file server does not answer."""
    leave_after: Duration = 300
    """After some ranks of your own script have ended well, while others do nothing more."""


class JobSpec(Spec):
    """One training job, for any cluster."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = OTHER_NAMES

    name: Name
    """Name of the job; run ids begin with it."""
    profile: Word | None = None
    """Name or path of the cluster profile to use without `--profile`; default: see `fsdpctl profiles default`."""
    entrypoint: Entrypoint = Entrypoint(module=BUNDLED_TRAINER)
    """Program that each rank runs; default: the bundled trainer."""
    command: str | tuple[Argument, ...] | None = None
    """Command line of another launcher, in place of `entrypoint`, `args`, and its numbers of nodes and ranks."""
    nodes: Annotated[int, Field(ge=1, le=1024)] = 1
    """Number of nodes; the option `--nodes` overrides it."""
    procs_per_node: RanksPerNode | None = None
    """Ranks per node; default: the value of the profile."""
    args: tuple[Argument, ...] = ()
    """Command-line arguments of your own entrypoint, passed on as they are written."""
    env: EnvMap = {}
    """Environment variables of all ranks; they override those of the profile."""
    time_limit: Duration | None = None
    """Maximum wall time of one attempt; the run is asked to save and stop `grace` before it."""
    grace: Duration = 60
    """Time from a stop request until ranks that still run get TERM, and KILL 5 seconds later; with a `stop_signal`,
    until KILL."""
    stop_signal: StopSignal = "none"
    """Signal that all ranks of your own entrypoint get at a stop; `none`: they have to read the stop file before
    `grace` is over."""
    warm: bool | None = None
    """Fork ranks from a process of the node that has imported torch; default: those of the bundled trainer, and of a
    job with `warm_imports`. Never in a container."""
    warm_imports: tuple[Module, ...] = ()
    """Modules that this process imports beside torch, for your own entrypoint; they must start no thread and not touch
    a GPU."""
    restarts: Annotated[int, Field(ge=0, le=1000)] = 0
    """Maximum number of automatic restarts after failures."""
    progress_regex: ProgressRegex | None = None
    """Regular expression of Python that finds steps in the log of rank 0 of your own entrypoint, with named groups:
    `step`, and `total`, `loss` or other values if printed; [own-scripts.md](own-scripts.md#progress) has examples."""
    hang: Hang = Hang()
    """Limits after which a run that makes no progress is ended."""
    restart_on: tuple[FailureCause, ...] = RESTART_ON
    """Causes of a failure after which the run restarts; [restarts.md](restarts.md) lists them."""
    debug: Debug | None = None
    """Verbosity of the NCCL and torch logs in the run directory; default: the value of the profile."""
    report_to: tuple[TrackerName, ...] = ()
    """Services that get the metrics of each step; [metrics.md](metrics.md) has the variables of each."""
    lint: LintKeys = LintKeys()
    """Rules of `jobs check` that this job ignores."""
    trainer: TrainerConfig | None = None
    """Configuration of the bundled trainer."""

    @model_validator(mode="after")
    def _fits_together(self) -> JobSpec:
        refuse([*self._misplaced_trainer(), *self._short_time()])
        return self

    def _misplaced_trainer(self) -> Iterator[Problem]:
        if not self.entrypoint.is_bundled_trainer:
            if self.trainer is not None:
                yield Problem("trainer", "it configures the bundled trainer, but the entrypoint is your own")
            return
        if self.trainer is None:
            yield Problem("", "the bundled trainer needs a `trainer` section")
        if self.stop_signal != "none":
            yield Problem("stop_signal", "the bundled trainer takes none; it reads the stop file")
        if self.progress_regex is not None:
            yield Problem("progress_regex", "the bundled trainer takes none; it records every step itself")
        if self.warm_imports:
            yield Problem("warm_imports", "the bundled trainer has its own")
        if self.args:
            yield Problem("args", "the bundled trainer takes none; its settings belong under `trainer`")

    def _short_time(self) -> Iterator[Problem]:
        if self.time_limit is not None and self.time_limit <= self.grace:
            limit, grace = format_duration(self.time_limit), format_duration(self.grace)
            yield Problem("time_limit", f"{limit} must exceed grace ({grace})", ("grace",))
