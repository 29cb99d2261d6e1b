"""The environment of programs that are not part of the run's copy of fsdpctl."""

from __future__ import annotations

from collections.abc import Mapping

from fsdpctl.contract import Env
from fsdpctl.contract.paths import RunPaths


def outer_environment(environ: Mapping[str, str], run_dir: str) -> dict[str, str]:
    """Return the environment as the submitting shell had it: without the path to the copy in the run."""
    env = {name: value for name, value in environ.items() if name != "PYTHONSAFEPATH"}
    if env.get("PYTHONPATH") == str(RunPaths.of(run_dir).code):
        del env["PYTHONPATH"]
        if (path := env.get(Env.USER_PYTHONPATH)) is not None:
            env["PYTHONPATH"] = path
    return env
