"""Whether the Python of the ranks has the packages that they import. None is imported: torch alone takes seconds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping

from fsdpctl.contract import Env
from fsdpctl.contract.data_url import is_url
from fsdpctl.contract.entry import Entry
from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.findings import Check, Finding, fail, ok, unknown, warn
from fsdpctl.contract.paths import RunPaths

FIND_S = 60.0
"""Seconds for a start of Python from a cold network disk."""

_FIND = """
import sys
from importlib.util import find_spec
for name in sys.argv[1:]:
    spec = find_spec(name)
    if spec is None or not spec.has_location:
        print("missing", name)
"""


def needed_packages(entry: Entry, run: RunPaths) -> tuple[str, ...]:
    """Return what the ranks of an entry must be able to import, as far as it is known: torch starts every rank."""
    return ("torch", "numpy", *_data_packages(run)) if entry.is_bundled_trainer else ("torch",)


def _data_packages(run: RunPaths) -> tuple[str, ...]:
    """Return what reads the data of a run; nothing before the run exists, as for doctor."""
    if not run.trainer_config.exists():
        return ()
    source: str = json.loads(read_bytes(run.trainer_config))["data"]["source"]  # its classes cost an agent too much
    if not is_url(source):
        return ()
    return ("fsspec", "s3fs") if source.startswith(("s3://", "s3a://")) else ("fsspec",)


def check_packages(
    python: str, needed: tuple[str, ...], env: Mapping[str, str], trackers: tuple[str, ...] = ()
) -> Finding:
    """Return whether all packages are there. A python that does not exist is another check's failure.

    Without the package of a tracker, ranks train all the same.
    """
    if (program := shutil.which(python, path=env.get("PATH"))) is None:
        return unknown(Check.PACKAGES, "no Python to look for packages with")
    paths = [path for name in ("PYTHONPATH", Env.USER_PYTHONPATH) if (path := env.get(name))]
    try:
        done = subprocess.run(
            [program, "-c", _FIND, *needed, *trackers],
            env={**env, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=FIND_S,
            check=True,
        )
    except (subprocess.SubprocessError, OSError) as error:
        return unknown(Check.PACKAGES, f"{program} cannot be asked for its packages: {error}")
    lines = [line.split() for line in done.stdout.splitlines()]
    missing = [words[1] for words in lines if words[:1] == ["missing"]]
    if not missing:
        return ok(Check.PACKAGES, f"{program} has {' and '.join((*needed, *trackers))}")
    if not set(missing) & set(needed):
        reason = f"{program} does not have {' and '.join(missing)}: no metrics are sent there"
        return warn(Check.PACKAGES, reason, f"{program} -m pip install {' '.join(missing)}")
    fix = f"{program} -m pip install {' '.join(missing)}, or set `venv` in the profile"
    return fail(Check.PACKAGES, f"{program} does not have {' and '.join(missing)}, which the ranks import", fix)
