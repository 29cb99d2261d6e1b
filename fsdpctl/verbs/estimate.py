"""Estimate a job on a cluster before anything is paid for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.backends.table import get_backend
from fsdpctl.contract.files import read_bytes
from fsdpctl.errors import UsageError
from fsdpctl.estimate.choices import Planner
from fsdpctl.estimate.hugging_face import TheirModel, read_sizes
from fsdpctl.estimate.micro_batch import fastest_micro_batch
from fsdpctl.estimate.result import Cluster, Estimate, estimate
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.specs.search import choose_profile
from fsdpctl.verbs.cards import choose_card
from fsdpctl.verbs.float8 import check_float8
from fsdpctl.verbs.foreign import hinting_at_import

USUAL_GPUS = 8
"""GPUs of a node, where no profile has their number."""


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
    with hinting_at_import(job):
        spec = load_job(job, overrides)
    if spec.trainer is None:
        raise UsageError(f"job {spec.name} runs a program of its own: its memory is not known here")
    loaded = load_profile(choose_profile(profile, spec.profile)[0])
    card, source = choose_card(loaded, gpu)
    check_float8(spec.trainer, card)
    if gpus is None:
        _check_procs(spec, listed_gpus(loaded))
    procs = gpus or spec.procs_per_node or count_gpus(loaded)
    if procs is None:
        procs = USUAL_GPUS
        notes.append(f"profile {loaded.name} has no gpus_per_node: {USUAL_GPUS} assumed; --gpus N changes that")
    cluster = Cluster(spec.nodes, procs, loaded.network.gbps)
    chooses = spec.trainer.batch.micro_batch is None
    try:
        found = (fastest_micro_batch if chooses else estimate)(spec.trainer, cluster, card)
    except ValueError as error:
        raise UsageError(f"job {spec.name} on {spec.nodes} x {procs} GPUs: {error}") from None
    if chooses:
        notes.append(f"the job has no micro_batch: {found.batch.micro_batch} is chosen, as `submit` does")
    return Estimated(spec, loaded, Planner(found.config, cluster, card), found, source, tuple(notes))


def count_gpus(profile: ClusterProfile) -> int | None:
    """Return the ranks of a node under a profile; None if it is not known."""
    listed = profile.procs_per_node or listed_gpus(profile)
    if not listed and get_backend(profile.backend.kind).runs_here:
        from fsdpctl.node.checks.smi import visible_gpus

        listed = len(visible_gpus())
    return listed or None


def listed_gpus(profile: ClusterProfile) -> int:
    """Return the GPUs of a node that a profile lists; 0 if it lists none."""
    return profile.gpus_per_node or max((node.gpus or 0 for node in profile.nodes), default=0)


def _check_procs(job: JobSpec, gpus: int) -> None:
    """Raise UsageError for more ranks than the GPUs of a node, as `submit` does."""
    if job.procs_per_node and gpus and job.procs_per_node > gpus:
        text = f"job {job.name}: procs_per_node: {job.procs_per_node} ranks a node need as many GPUs"
        raise UsageError(f"{text}, but a node has {gpus}", hint="--gpus N estimates nodes of another size")


def read_model(directory: Path) -> TheirModel:
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
    except UnicodeDecodeError:
        why = "it is no UTF-8 text"
    except json.JSONDecodeError as error:
        why = f"it is no JSON: line {error.lineno}: {error.msg}"
    except RecursionError:
        why = "its values are nested too deeply"
    except ValueError as error:
        why = str(error)
    raise UsageError(f"--model {directory}: {path.name} cannot be used: {why}")
