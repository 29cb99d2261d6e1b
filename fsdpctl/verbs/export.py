"""export: plan a job for a cluster without starting it, wherever its script is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.specs.search import choose_profile
from fsdpctl.verbs.submit import Request, plan_request
from fsdpctl.verbs.submit_host import runs_root_of, submit_host


def plan_export(job: str, profile: str | None, overrides: Sequence[str] = ()) -> Request:
    """Return job and plan as a submit from here would have them; `profile` None: the default one.

    Raise UsageError for what does not load or does not fit together.
    """
    spec = load_job(job, overrides)
    loaded = load_profile(choose_profile(profile, spec.profile)[0])
    return plan_request(loaded, spec, submit_host(loaded, runs_root_of(loaded), spec.name, Path.cwd()))
