"""Estimate a job on a cluster before anything is paid for, and refuse what cannot fit."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsdpctl.backends.table import get_backend
from fsdpctl.contract.cards import CARDS, GIB, Card, find_card
from fsdpctl.contract.files import read_bytes
from fsdpctl.errors import UsageError
from fsdpctl.estimate.choices import Planner
from fsdpctl.estimate.estimate import Cluster, Estimate, Fit, estimate
from fsdpctl.estimate.hugging_face import read_sizes
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.specs.search import choose_profile
from fsdpctl.verbs.submit import Request

USUAL_GPUS = 8
"""GPUs of a node, where no profile says how many."""


@dataclass(frozen=True)
class Estimated:
    """The estimate of a job, and from where its parts are."""

    job: JobSpec
    profile: ClusterProfile
    planner: Planner
    estimate: Estimate
    card_source: str
    notes: tuple[str, ...]


def estimate_job(
    job: str,
    profile: str | None,
    overrides: Sequence[str] = (),
    *,
    gpu: str | None = None,
    gpus: int | None = None,
    model: Path | None = None,
) -> Estimated:
    """Estimate a job under a profile. `gpu`, `gpus`: kind and number of a node's, instead of the profile's.

    Raise UsageError where the job has no bundled trainer, the GPU is not known or mesh and ranks do not fit.
    """
    notes = []
    if model is not None:
        theirs = read_model(model)
        overrides = [*(f"trainer.model.{key}={json.dumps(value)}" for key, value in theirs.sizes.items()), *overrides]
        notes += [theirs.note] if theirs.note else []
    spec = load_job(job, overrides)
    if spec.trainer is None:
        raise UsageError(f"job {spec.name} runs a program of its own: its memory is not known here")
    loaded = load_profile(choose_profile(profile, spec.profile)[0])
    card, source = choose_card(loaded, gpu)
    procs = gpus or spec.procs_per_node or count_gpus(loaded)
    if procs is None:
        procs = USUAL_GPUS
        notes.append(f"profile {loaded.name} has no gpus_per_node: {USUAL_GPUS} assumed; --gpus N changes that")
    cluster = Cluster(spec.nodes, procs, loaded.network.gbps)
    try:
        found = estimate(spec.trainer, cluster, card)
    except ValueError as error:
        raise UsageError(f"job {spec.name} on {spec.nodes} x {procs} GPUs: {error}") from None
    return Estimated(spec, loaded, Planner(spec.trainer, cluster, card), found, source, tuple(notes))


def choose_card(profile: ClusterProfile, gpu: str | None) -> tuple[Card, str]:
    """Return the GPU and who named it: the option, the profile or this machine. Raise UsageError."""
    known = ", ".join(CARDS)
    if gpu is not None:
        if (card := find_card(gpu)) is None:
            raise UsageError(f"--gpu {gpu}: no such GPU is known", hint=f"known are {known}")
        return card, "--gpu"
    if (found := find_profile_card(profile)) is None:
        raise UsageError(
            f"profile {profile.name} has no `gpu`, and this machine has none that is known",
            hint=f"--gpu NAME, or `gpu: NAME` in the profile; known are {known}",
        )
    return found


def find_profile_card(profile: ClusterProfile) -> tuple[Card, str] | None:
    """Return the GPU that a profile names, or that this machine has where ranks run here."""
    if profile.gpu is not None and (card := find_card(profile.gpu)) is not None:
        return card, f"profile {profile.name}"
    if get_backend(profile.backend.kind).runs_here and (card := find_own_card()) is not None:
        return card, "this machine"
    return None


def find_own_card() -> Card | None:
    """Return the GPU of this machine; the one with the least memory, if there are several kinds."""
    from fsdpctl.node.gpus.nvml import Nvml, NvmlError

    try:
        names = Nvml(os.environ).names()
    except NvmlError:
        return None
    cards = [find_card(name) for name in names]
    known = [card for card in cards if card is not None]
    return min(known, key=lambda card: card.memory_gib) if known and len(known) == len(cards) else None


def count_gpus(profile: ClusterProfile) -> int | None:
    """Return the ranks of a node under a profile; None if neither it nor this machine tells."""
    listed = profile.procs_per_node or profile.gpus_per_node
    listed = listed or max((node.gpus or 0 for node in profile.nodes), default=0)
    if not listed and get_backend(profile.backend.kind).runs_here:
        from fsdpctl.node.checks.smi import visible_gpus

        listed = len(visible_gpus())
    return listed or None


def read_model(directory: Path) -> Any:
    """Return the sizes in the config.json of a directory, or in a file. Raise UsageError."""
    path = directory / "config.json" if directory.is_dir() else directory
    try:
        config = json.loads(read_bytes(path).decode())
        if not isinstance(config, dict):
            raise ValueError("it is no mapping")
        return read_sizes(config)
    except OSError as error:
        hint = "wanted: a directory with the config.json of a model of transformers"
        raise UsageError(f"--model {directory}: {path.name}: {error.strerror}", hint=hint) from None
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"--model {directory}: {path.name} cannot be used: {error}") from None


def check_memory(request: Request, *, force: bool) -> str | None:
    """Refuse a launch that cannot fit its GPUs: raise UsageError with the smallest change that does.

    Return a warning for one that fits closely, or is forced. Own scripts and GPUs that are not known are not judged.
    """
    trainer, plan = request.job.trainer, request.plan
    if trainer is None or plan.device != "cuda" or (found := find_profile_card(request.profile)) is None:
        return None
    card, source = found
    cluster = Cluster(len(plan.nodes), plan.procs_per_node, request.profile.network.gbps)
    result = estimate(trainer, cluster, card)
    if result.fit is Fit.FITS:
        return None
    needs = f"job {request.job.name} needs about {result.memory.total / GIB:.1f} GiB of each GPU's memory"
    has = f"a {card.name} (from {source}) has {card.memory_gib:.1f}"
    if result.fit is Fit.CLOSE:
        return f"{needs}, and {has}: {result.left_bytes / GIB:.1f} GiB are left"
    change = Planner(trainer, cluster, card).smallest_change()
    advice = "no change of micro-batch, recomputing or strategy makes it fit; use more GPUs or larger ones"
    if change is not None:
        sets = " ".join(f"--set '{key}'" if " " in key else f"--set {key}" for key in change.keys)
        advice = f"the smallest change that fits: {sets} ({change.estimate.memory.total / GIB:.1f} GiB)"
    over = f"{needs}, {-result.left_bytes / GIB:.1f} GiB more than there is: {has}"
    if force:
        return f"{over}; started all the same. {advice[0].upper()}{advice[1:]}"
    raise UsageError(over, hint=f"{advice}; --force starts it all the same")
