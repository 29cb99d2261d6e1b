"""What `status` shows of one run beside what `ls` shows of all: it costs more to find out."""

from __future__ import annotations

import time
from dataclasses import dataclass

from fsdpctl.checkpoints.listing import list_checkpoints
from fsdpctl.contract import State
from fsdpctl.contract.node_report import GpuSample
from fsdpctl.contract.paths import RunPaths, checkpoint_name
from fsdpctl.ledger.account import Ledger
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.runs.metrics import recent_metrics
from fsdpctl.runs.progress import measure_progress_share, newest_save
from fsdpctl.runs.reports import newest_gpus
from fsdpctl.verbs.ledger import find_ledger
from fsdpctl.verbs.status import RunStatus


@dataclass(frozen=True)
class RunDetails:
    """Details of one run; None where they are not known."""

    last_step_s: float | None = None  # since the newest step ended, while the run is RUNNING
    mfu: float | None = None  # model FLOPs utilization of the newest step
    gpu_memory_used: int | None = None  # bytes, of the GPU with the least free memory
    gpu_memory_total: int | None = None
    checkpoint: str | None = None  # name of the newest one
    checkpoint_age_s: float | None = None  # for a script of the user: since its checkpoint directory was changed
    progress_share: float | None = None  # of `elapsed_s`
    elapsed_s: float | None = None  # since the first start, without the time between two submissions
    ends_at: float | None = None  # when the last step is expected, in seconds since the epoch
    ledger: Ledger | None = None


def read_details(run: RunPaths, status: RunStatus) -> RunDetails:
    """Return the details of a run whose status is known. Raise OSError and CodecError if its record cannot be read."""
    facts, now = RunFacts(run), time.time()
    newest = next(iter(recent_metrics(run.metrics, 1)), {})
    is_training = status.state is State.RUNNING and status.step is not None
    gpus = newest_gpus(facts.newest) if facts.newest is not None and status.state is State.RUNNING else []
    fullest = max((gpu for gpu in gpus if gpu.memory_used and gpu.memory_total), key=_memory_share, default=None)
    checkpoint, saved = _newest_checkpoint(run)
    share = measure_progress_share(facts, now if status.state.is_alive else None)
    eta_s = status.speed.eta_s if status.speed is not None and status.state is State.RUNNING else None
    return RunDetails(
        last_step_s=_age(newest.get("time"), now) if is_training else None,
        mfu=_number(newest.get("mfu")) if status.step is not None else None,
        gpu_memory_used=fullest.memory_used if fullest else None,
        gpu_memory_total=fullest.memory_total if fullest else None,
        checkpoint=checkpoint,
        checkpoint_age_s=_age(saved, now),
        progress_share=share.share if share else None,
        elapsed_s=share.elapsed_s if share else None,
        ends_at=now + eta_s if eta_s is not None else None,
        ledger=find_ledger(run, status),
    )


def _newest_checkpoint(run: RunPaths) -> tuple[str | None, float | None]:
    """Return the name of the newest checkpoint and when it was complete; of a user's script only the time is known.

    One of a later step that is older was passed over as damaged when the run was resumed.
    """
    if not run.trainer_config.exists():
        return None, newest_save(run) if any(run.checkpoints.glob("*")) else None
    manifests = [stored.manifest for stored in list_checkpoints(run) if stored.manifest is not None]
    if not manifests:
        return None, None
    newest = max(manifests, key=lambda manifest: manifest.time)
    return checkpoint_name(newest.step), newest.time + newest.save_s


def _memory_share(gpu: GpuSample) -> float:
    return (gpu.memory_used or 0) / (gpu.memory_total or 1)


def _age(since: object, now: float) -> float | None:
    """Return the seconds since a time, at least 0: clocks of hosts differ."""
    return max(0.0, now - since) if isinstance(since, int | float) and since else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
