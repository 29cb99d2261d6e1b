"""Refuse a resume that the ranks would refuse, before anything starts or changes."""

from __future__ import annotations

from pathlib import Path

from fsdpctl.checkpoints.listing import newest_manifest
from fsdpctl.contract import State
from fsdpctl.contract.codec import encode, read_json
from fsdpctl.contract.data_url import is_url
from fsdpctl.contract.formats.dataset import INDEX_NAME, Index
from fsdpctl.contract.formats.manifest import committed
from fsdpctl.contract.paths import RunPaths, step_of
from fsdpctl.contract.trainer.resumable import compare
from fsdpctl.contract.trainer.trainer_config import BUILTIN, TrainerConfig
from fsdpctl.data.prepared import open_index
from fsdpctl.data.remote import open_remote_index
from fsdpctl.errors import FsdpctlError, UsageError
from fsdpctl.verbs.status import RunStatus


def check_trainer(run: RunPaths, status: RunStatus, wanted: TrainerConfig, step: int | None) -> None:
    """Raise UsageError if the ranks would refuse the resume, or have nothing to do. `step`: the option --step."""
    if status.step:
        _refuse_another_run(run, wanted)
    _refuse_other_data(run, wanted)
    _refuse_nothing_left(run, status, wanted.steps, step)


def _refuse_another_run(run: RunPaths, wanted: TrainerConfig) -> None:
    stored = encode(read_json(TrainerConfig, run.trainer_config))
    _, forbidden = compare(stored, encode(wanted))
    if forbidden:
        raise UsageError(
            f"run {run.root.name} has trained with another configuration:\n" + "\n".join(f"  {c}" for c in forbidden),
            hint="submit it as a run of its own",
        )


def _refuse_other_data(run: RunPaths, wanted: TrainerConfig) -> None:
    """Compare data and checkpoint, if both are visible here."""
    source, manifest = wanted.data.source, newest_manifest(run)
    if manifest is None or (index := _find_index(source)) is None:
        return
    found = index.fingerprint
    if found != manifest.data_fingerprint:
        raise UsageError(
            f"run {run.root.name} has trained on data with the fingerprint {manifest.data_fingerprint},"
            f" but that in trainer.data.source, {source}, has {found}",
            hint="submit it as a run of its own, or give the directory with the run's own data",
        )


def _find_index(source: str) -> Index | None:
    """Return the index of prepared data that is visible here."""
    if source == BUILTIN:
        return None
    if not is_url(source):
        return open_index(Path(source)) if Path(source, INDEX_NAME).is_file() else None
    try:
        return open_remote_index(source)
    except FsdpctlError:
        return None  # the ranks may have a network and credentials that this machine does not have


def _refuse_nothing_left(run: RunPaths, status: RunStatus, steps: int, step: int | None) -> None:
    saved = [step_of(name) for name in committed(run.checkpoints)]
    if step is not None and saved and step not in saved:
        return  # `go_back` refuses it
    begin = step if step is not None else saved[-1] if saved else _last_saved(status)
    is_only_evaluated = status.state is not State.SUCCEEDED and status.total_steps == steps
    if not is_nothing_left(begin, steps, is_only_evaluated):
        return
    again = f"fsdpctl resume {run.root.name}"
    older = [str(number) for number in saved if number < steps]
    back = f"; or go back by --step to {', '.join(older)}" if older else ""
    problem = f"continues from step {begin}, so with trainer.steps={steps} nothing is left to train"
    if step is None and begin == steps == status.total_steps:
        problem = f"has finished all {steps} steps"
    raise UsageError(f"run {run.root.name} {problem}", hint=f"{again} --set trainer.steps={2 * begin}{back}")


def is_nothing_left(begin: int, steps: int, is_only_evaluated: bool) -> bool:
    """Return whether a run that begins after so many steps has nothing to do; a run that was ended before its final
    evaluation still has that."""
    return begin > steps or (begin == steps and not is_only_evaluated)


def _last_saved(status: RunStatus) -> int:
    """Return the step that the last attempt saved, or 0: without a shared disk, checkpoints are not visible here."""
    return status.outcome.step if status.outcome is not None and status.outcome.checkpoint else 0
