"""From a draft to a job that loads: the user's own script, or the bundled trainer with the model of another job."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from fsdpctl.importers.imported import Imported
from fsdpctl.other_launchers.draft import Draft, Program
from fsdpctl.schema.problems import KeyPath, Location, SpecError
from fsdpctl.schema.spec import Spec
from fsdpctl.schema.types import NAME
from fsdpctl.schema.validate import validate
from fsdpctl.schema.yaml_tree import YamlDocument
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.profile import ClusterProfile

UNKNOWN_SCRIPT = "train.py"
"""Where a file does not name the script that it was written for."""


@dataclass(frozen=True)
class Wanted:
    """What the user asks for beside the file."""

    name: str  # of the job, unless the file has one
    script: str | None = None  # the training script that the file was written for
    base: Mapping[str, Any] | None = None  # the job of the bundled trainer whose model and data to keep


def build(kind: str, what: str, draft: Draft, wanted: Wanted) -> Imported:
    """Return the job and the profile, validated. Raise SpecError with all problems of the file."""
    runs_whole = draft.is_whole and "entrypoint" not in draft.job and not wanted.script
    program = Program.TRAINER if wanted.base is not None or runs_whole else Program.OWN
    job, locations = _job_tree(draft, wanted, program)
    start = Location(draft.source, 1)
    problems = list(draft.problems)
    checks: list[tuple[dict[str, Any], dict[KeyPath, Location], type[Spec]]] = [(job, locations, JobSpec)]
    job = _ordered(job, JobSpec)
    profile = _ordered({"name": job["name"], **draft.profile}, ClusterProfile) if draft.profile else {}
    if profile:
        checks.append((profile, draft.profile_locations, ClusterProfile))
    for tree, places, model in checks:
        try:
            validate(YamlDocument(what, copy.deepcopy(tree), {(): start, **places}), model)
        except SpecError as error:
            problems += error.problems
    if problems:
        raise SpecError(what, list(dict.fromkeys(problems)))
    notes = sorted(draft.notes[program], key=lambda note: note.location.line or 0)
    return Imported(kind, program, job, profile, tuple(notes))


def _job_tree(draft: Draft, wanted: Wanted, program: Program) -> tuple[dict[str, Any], dict[KeyPath, Location]]:
    """Return the keys of the job, and the lines that they are from."""
    common = {"name": job_name(str(draft.job.get("name") or wanted.name)), **_without(draft.job, "name")}
    if program is Program.OWN:
        return _own_job(draft, wanted, common), draft.job_locations
    base = copy.deepcopy(dict(wanted.base or {}))
    job = {**base, **_without(common, "entrypoint", "args", "env", "stop_signal"), "trainer": base.get("trainer", {})}
    _remove_replaced(job["trainer"], draft.trainer)
    _overlay(job["trainer"], draft.trainer)
    trainer = {("trainer", *path): location for path, location in draft.trainer_locations.items()}
    return job, {**draft.job_locations, **trainer}


def _remove_replaced(base: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Remove keys of the base that do not go together with what the file gives."""
    mesh, new = base.get("mesh", {}), given.get("mesh", {})
    is_ddp = new.get("strategy") == "DDP"
    replaced = {
        **dict.fromkeys(("replicate", "shard"), "strategy" in new),
        "units": "units" in new or is_ddp,
        "prefetch": is_ddp,
    }
    for key in replaced:
        if replaced[key]:
            mesh.pop(key, None)
    if given.get("eval", {}).get("sequences") == 0:
        base.get("eval", {}).pop("every_steps", None)
    if "sequences" in given.get("batch", {}):
        base.get("batch", {}).pop("tokens", None)


def _own_job(draft: Draft, wanted: Wanted, common: dict[str, Any]) -> dict[str, Any]:
    job = dict(common)
    if wanted.script is not None:
        job["entrypoint"] = {"script": wanted.script}
    elif "entrypoint" not in job:
        job["entrypoint"] = {"script": UNKNOWN_SCRIPT}
        text = f"the file does not name the training script: write it in place of {UNKNOWN_SCRIPT}, or use --script"
        draft.note(Location(draft.source, 1), "entrypoint", text, must_change=True)
    if args := (*draft.args, *job.get("args", ())):
        job["args"] = list(args)
    if env := {**draft.env, **job.get("env", {})}:
        job["env"] = env
    return job


def _ordered(tree: dict[str, Any], model: type[Spec]) -> dict[str, Any]:
    """Return the same keys in the order of the documentation."""
    return {key: tree[key] for key in model.model_fields if key in tree}


def _overlay(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(below.get(key), dict):
            _overlay(below[key], value)
        else:
            below[key] = copy.deepcopy(value)


def _without(tree: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in tree.items() if key not in keys}


def job_name(text: str) -> str:
    """Return the text as a name: other characters become dashes."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", PurePath(text).name).strip("-._")[:64]
    return name if NAME.fullmatch(name) else "imported"
