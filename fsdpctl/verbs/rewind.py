"""resume --step: go back to an older checkpoint. Newer ones are moved away from the trainer, none is deleted."""

from __future__ import annotations

from collections.abc import Sequence

from fsdpctl.checkpoints.listing import Stored, own_script_error
from fsdpctl.checkpoints.per_host_store import PerHostStore
from fsdpctl.contract.codec import read_json, write_json
from fsdpctl.contract.formats.manifest import InvalidCheckpointError, committed, read_manifest, set_aside, verify_sizes
from fsdpctl.contract.paths import RunPaths, checkpoint_name, step_of
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.contract.records import Rewind
from fsdpctl.errors import UsageError
from fsdpctl.node.queries.checkpoint_copies import set_aside_rewound
from fsdpctl.runs.evidence import read_plan


def go_back(run: RunPaths, plan: LaunchPlan, step: int) -> None:
    """Make the next attempt, of `plan`, begin with `step`. Raise UsageError if that was not saved."""
    if not (plan.entry.is_bundled_trainer or committed(run.checkpoints)):
        raise own_script_error(run)
    if plan.shared_disk:
        if plan.entry.is_bundled_trainer:
            refuse_damaged(run, step)
        move_newer_away(run, step)
    else:
        discard_newer_on_hosts(run, plan, step)


def refuse_damaged(run: RunPaths, step: int) -> None:
    """Raise UsageError if the checkpoint's names or sizes are wrong: ranks would skip it for an older one."""
    name = checkpoint_name(step)
    if name in committed(run.checkpoints):
        try:
            verify_sizes(run.checkpoints / name, read_manifest(run.checkpoints / name).files.items())
        except InvalidCheckpointError as error:
            hint = f"fsdpctl checkpoints verify {run.root.name} shows which are complete"
            raise UsageError(f"{name} of run {run.root.name} is damaged: {error}", hint=hint) from None


def move_newer_away(run: RunPaths, step: int) -> None:
    saved = committed(run.checkpoints)
    if checkpoint_name(step) not in saved:
        have = ", ".join(str(step_of(name)) for name in saved) or "none"
        raise UsageError(f"run {run.root.name} has no checkpoint of step {step}; it has {have}")
    for name in saved:
        if step_of(name) > step:
            set_aside(run.checkpoints / name, run.set_aside(len(run.attempts())))


def discard_newer_on_hosts(run: RunPaths, plan: LaunchPlan, step: int) -> None:
    """Record which checkpoints do not count any more: each host without a shared disk moves its own away at a start."""
    store = PerHostStore(run, read_plan(run))
    found = store.read()
    if (refusal := find_refusal(found, step, [node.id for node in plan.nodes])) is not None:
        raise UsageError("\n".join([f"run {run.root.name}: {refusal}", *store.errors()]))
    rewinds = read_json(tuple[Rewind, ...], run.rewinds) if run.rewinds.exists() else ()
    newest = max((attempt.number for attempt in run.attempts()), default=0)
    write_json(run.rewinds, (*rewinds, Rewind(step, newest + 1)))
    set_aside_rewound(run)


def find_refusal(found: Sequence[Stored], step: int, nodes: Sequence[str]) -> str | None:
    """Return why hosts cannot begin with `step`, or None: one host of the run must have a complete copy."""
    hosts_by_name = {stored.path.name: stored.hosts for stored in found}
    hosts = hosts_by_name.get(checkpoint_name(step), [])
    if any(host in nodes for host in hosts):
        return None
    if hosts:
        return (
            f"step {step} is on {', '.join(hosts)} only: none of {', '.join(nodes)}, with which the run would continue"
        )
    complete = [f"{stored.path.name} ({', '.join(stored.hosts)})" for stored in found if stored.hosts]
    return f"no host that answers has a complete checkpoint of step {step}; there are {', '.join(complete) or 'none'}"
