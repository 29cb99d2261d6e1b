"""What each command prints with `--json`: one shape per command, from which docs/json.md is written.

A key is never removed or given another meaning within a version of fsdpctl; new ones may come. A value that is not
known or does not apply is null. Those that need more than the contract are where their command reads them: `ls` would
import it all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fsdpctl.contract import Cause, Phase, State
from fsdpctl.contract.benchmarks import DiskReport, NetworkReport
from fsdpctl.contract.events import Event
from fsdpctl.contract.records import RankError


@dataclass(frozen=True)
class Started:
    """A run that was submitted."""

    run_id: str
    run_dir: str


@dataclass(frozen=True)
class Resumed:
    """A run that was resumed."""

    run_id: str
    run_dir: str
    has_new_fsdpctl: bool  # its nodes ran an older version before
    code_dir: str | None  # the directory whose code was copied again
    kept: tuple[str, ...]  # files that were not replaced, because ranks have changed them


@dataclass(frozen=True)
class Ended:
    """A run after `stop`, `cancel` or `supervise`."""

    run_id: str
    acted: bool  # false: there was nothing to do
    state: State
    phase: Phase
    cause: Cause | None
    reason: str


@dataclass(frozen=True)
class ListedRun:
    """One run. `BROKEN`: its record cannot be read, and `reason` is why."""

    run_id: str
    job: str | None
    state: State | Literal["BROKEN"]
    phase: Phase | None
    cause: Cause | None  # of its end, or of its restart
    reason: str
    attempt: int | None  # 0: before the first
    step: int | None
    total_steps: int | None
    loss: float | None
    tokens_per_s: float | None  # over the last 20 steps
    eta_s: float | None  # seconds until the last step
    last_progress_s: float | None  # seconds since any rank showed progress, while it runs
    nodes: int | None
    hosts: tuple[str, ...]  # of the newest attempt, by node rank
    job_id: str | None  # of Slurm, also after the end
    created: float | None  # seconds since the epoch
    run_dir: str


@dataclass(frozen=True)
class ShownRun(ListedRun):
    """One run with its details."""

    last_step_s: float | None  # seconds since its newest step, while it runs
    mfu: float | None  # model FLOPs utilization of the newest step, if the metrics have it
    gpu_memory_used: int | None  # bytes, of the GPU with the least free memory
    gpu_memory_total: int | None  # bytes of the same GPU
    checkpoint: str | None  # name of the newest one
    checkpoint_age_s: float | None  # seconds; of your own script: since its checkpoint directory was changed
    progress_share: float | None  # of `elapsed_s`: from the first to the last step of each attempt
    elapsed_s: float | None  # seconds since its first start, without the time between two submissions
    ends_at: float | None  # when its last step is expected, in seconds since the epoch
    effective: float | None  # share of its time, without queue and idle, in steps and evaluations not done again
    ledger: Mapping[str, float]  # seconds of each [use of its time](restarts.md#where-the-time-was) that has any
    working_directory: str | None
    events: tuple[Event, ...]  # the newest of its supervisor
    unsent_notice: str | None  # of the newest attempt, and why


@dataclass(frozen=True)
class UsedAmount:
    """What runs have taken since the time of `--since`."""

    hours: float  # of their attempts, without the time between them
    process_hours: float  # the same, times the ranks
    gpu_hours: float | None  # the same on GPUs, one for each rank
    energy_kwh: float | None  # of these GPUs, as far as their counters were read
    cost: float | None  # with `price_per_gpu_hour` of the profile


@dataclass(frozen=True)
class UsedRun(UsedAmount):
    """What one run has taken."""

    run_id: str
    job: str
    user: str  # the owner of the run directory
    attempts: int  # that ran since then
    slurm_hours: float | None  # elapsed time of all of its jobs, by Slurm's accounts
    cpu_efficiency: float | None  # share of the CPU time that Slurm gave these jobs


@dataclass(frozen=True)
class ShownUsage:
    """What all runs have taken."""

    since: float
    runs: tuple[UsedRun, ...]  # the oldest first
    users: Mapping[str, UsedAmount]
    total: UsedAmount


@dataclass(frozen=True)
class Pinned:
    """A run after `runs pin` or `runs unpin`."""

    run_id: str
    pinned: bool
    acted: bool  # false: it was so before


@dataclass(frozen=True)
class CollectedRun:
    """A run that `gc` has removed, in whole or in part, or would remove."""

    run_id: str
    action: Literal["remove", "prune"]  # `prune`: all but its newest complete checkpoint
    bytes: int  # that this frees, or would free
    ended: float  # seconds since the epoch, when it last did anything
    checkpoints: tuple[str, ...]  # that were removed
    problem: str | None  # why nothing was removed after all


@dataclass(frozen=True)
class Collected:
    """What `gc` has removed, or with `dry_run` would remove."""

    dry_run: bool
    runs: tuple[CollectedRun, ...]  # the oldest first
    kept: Mapping[str, str]  # run id and why nothing of it is removed


@dataclass(frozen=True)
class TriedTarget:
    """A target of `notify` that was sent a test notice."""

    name: str
    ok: bool
    problem: str | None


@dataclass(frozen=True)
class LogLine:
    """One line of a log."""

    time: float | None  # when it was written, in seconds since the epoch
    attempt: int
    source: Literal["supervisor", "agent", "torchrun", "rank", "state"]
    node: int | None  # node rank
    rank: int | None  # global rank
    text: str  # as it was written, without its newline


@dataclass(frozen=True)
class Failures:
    """Why an attempt failed. If no rank failed first, `first` is null and `text` has what the supervisor recorded."""

    run_id: str
    attempt: int
    text: str
    first: RankError | None
    followers: tuple[RankError, ...]  # those that failed after it


@dataclass(frozen=True)
class Shell:
    """The command that opens the shell."""

    argv: tuple[str, ...]


@dataclass(frozen=True)
class TensorBoard:
    """The command that starts TensorBoard."""

    argv: tuple[str, ...]


@dataclass(frozen=True)
class ListedCheckpoint:
    """One checkpoint."""

    name: str
    path: str
    step: int | None
    bytes: int | None
    time: float | None  # seconds since the epoch
    world: int | None  # ranks that wrote it
    mesh: tuple[int, ...] | None  # replicate, shard
    broken: str | None  # why it cannot be used
    copies: Mapping[str, str]  # without a shared disk: host and what is wrong with its copy, or nothing


@dataclass(frozen=True)
class Verified:
    """One checkpoint whose bytes were read."""

    name: str
    ok: bool
    hosts: tuple[str, ...]  # with a whole copy, without a shared disk
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Pruned:
    """The checkpoints that were removed, and those that were left because they are damaged."""

    removed: tuple[str, ...]
    broken: tuple[str, ...]


@dataclass(frozen=True)
class Created:
    """A file or directory that was created."""

    path: str


@dataclass(frozen=True)
class Exported:
    """A model that was exported."""

    path: str
    step: int


@dataclass(frozen=True)
class ListedFile:
    """A job or a profile."""

    name: str
    summary: str
    path: str
    error: str | None  # why it does not load


@dataclass(frozen=True)
class Checked:
    """A profile or prepared data that was checked."""

    name: str
    ok: bool
    problems: tuple[str, ...]


@dataclass(frozen=True)
class LintFinding:
    """A rule that applies to a job on a profile."""

    rule: str  # its id, in [lint.md](lint.md)
    severity: Literal["warning", "advice"]
    location: str  # file and line of its key, or the option that set it
    key: str
    text: str
    why: str
    change: str
    source: str  # the page that has more


@dataclass(frozen=True)
class CheckedJob(Checked):
    """A job that was checked, and what the rules of [lint.md](lint.md) find in it."""

    summary: str | None  # the job in a few words
    profile: str | None  # that the rules were applied with; null if the job does not fit the default one
    findings: tuple[LintFinding, ...]


@dataclass(frozen=True)
class LintRule:
    """One rule of `jobs check`."""

    id: str
    severity: Literal["warning", "advice"]
    what: str
    why: str
    change: str
    source: str


@dataclass(frozen=True)
class ImportNote:
    """A key of an imported file that does not carry over, or that was decided by the import."""

    file: str
    line: int | None
    key: str
    text: str
    must_change: bool  # the job needs an edit before it can run


@dataclass(frozen=True)
class ImportedJob:
    """A job that was made of a file of another program."""

    kind: str
    job: Mapping[str, Any]
    profile: Mapping[str, Any] | None  # null: the file describes no cluster
    notes: tuple[ImportNote, ...]
    path: str | None  # the file that was created; null: none
    profile_path: str | None


@dataclass(frozen=True)
class ExportedJob:
    """A job as the file of another launcher."""

    target: str
    text: str
    notes: tuple[str, ...]  # what of the job is not in it, or needs an edit
    path: str | None  # the file that was created; null: none


@dataclass(frozen=True)
class DefaultProfile:
    """The profile that `submit` uses where none is given."""

    profile: str
    source: str


@dataclass(frozen=True)
class ListedData:
    """One prepared directory."""

    path: str
    index: Mapping[str, Any] | None  # as in index.json
    broken: str | None  # why it cannot be used


@dataclass(frozen=True)
class BenchedNetwork:
    """What `bench nccl` has measured."""

    run_id: str
    run_dir: str
    state: State  # of the run
    members: tuple[str, ...]  # the names of the members of pairs, which the report has by their numbers
    report: NetworkReport | None  # null: the run failed before anything was measured


@dataclass(frozen=True)
class BenchedDisk:
    """What `bench io` has measured."""

    run_id: str
    run_dir: str
    state: State  # of the run
    names: tuple[str, ...]  # of the nodes, by node rank
    checkpoint_bytes: int | None  # of the job of `--job`
    report: DiskReport | None  # null: the run failed before everything was measured


@dataclass(frozen=True)
class Doctored:
    """All nodes of a profile."""

    profile: str
    ok: bool  # no check failed on any node
    nodes: tuple[Mapping[str, Any], ...]  # node, address, versions, and findings with check, result, reason and fix
    network: BenchedNetwork | None = None  # with `--deep`, if no check has failed
    disk: BenchedDisk | None = None


@dataclass(frozen=True)
class EstimatedMemory:
    """The memory of one GPU at its peak, in bytes."""

    moment: str  # of a step: `loss`, `backward` or `end`
    items: Mapping[str, int]
    allocated: int  # by torch: all but context and slack
    total: int


@dataclass(frozen=True)
class EstimatedTraffic:
    """What one step sends."""

    link_bytes: int  # from each GPU to those of its node
    link_s: float
    network_bytes: int  # from each node to the others
    network_s: float
    network_is_assumed: bool  # the profile has no `network.gbps`


@dataclass(frozen=True)
class EstimatedChoice:
    """A way to train the job."""

    keys: tuple[str, ...]  # that lead there from the job as it is, for `--set`
    strategy: str
    micro_batch: int
    recompute: str
    memory: int  # bytes of each GPU
    fit: str  # `fits`, `close` or `too_large`
    step_s: float
    tokens_per_s: float
    mfu: float


@dataclass(frozen=True)
class EstimatedJob:
    """What a job needs on a cluster; sizes in bytes, times in seconds."""

    job: str
    profile: str
    gpu: str
    gpu_source: str
    gpu_memory: int
    nodes: int
    procs_per_node: int
    mesh: tuple[int, int]  # replicate, shard
    parameters: int
    micro_batch: int
    accumulation: int
    sequences: int
    tokens_per_step: int
    fit: str  # `fits`, `close` or `too_large`
    left: int  # memory of each GPU; negative: that is missing
    memory: EstimatedMemory
    textbook: Mapping[str, int]  # weights, gradients and moments alone, by what is sharded
    recommended: EstimatedChoice | None
    reasons: tuple[str, ...]
    smallest_change: EstimatedChoice | None  # with which it fits
    strategies: tuple[EstimatedChoice, ...]
    batches: tuple[EstimatedChoice, ...]
    traffic: EstimatedTraffic
    step_s: float
    compute_s: float
    exposed_s: float  # communication that is not hidden
    optimizer_s: float
    tokens_per_s: float
    mfu: float
    tokens: int  # of the whole job
    days: float
    gpu_hours: float
    cost: float | None  # with `price_per_gpu_hour`
    checkpoint_bytes: int
    checkpoint_s: float
    notes: tuple[str, ...]
