"""The part of the submitting shell's environment that is passed to agents."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from fsdpctl.contract import Env

# A submit from inside another run, a torchrun worker or a Slurm step must not pass on that process's ranks.
_FOREIGN = re.compile(
    r"(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|ROLE_NAME|MASTER_(ADDR|PORT)|TORCHELASTIC_.*|PET_.*|FSDPCTL_(?!(HOME|DATA_CACHE|DATA_CACHE_GIB)$).*"
    r"|PYTHON(PATH|SAFEPATH)"
)


def own_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without ranks of another run; PYTHONPATH is renamed, for the user's own scripts only."""
    kept = {name: value for name, value in inherited.items() if not _FOREIGN.fullmatch(name)}
    user_path = {Env.USER_PYTHONPATH: path} if (path := inherited.get("PYTHONPATH")) else {}
    return {**kept, **user_path}


def read_secrets(names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the values of `pass_env` and the names that the submitting shell does not have."""
    known = {name: os.environ[name] for name in names if name in os.environ}
    return known, [name for name in names if name not in known]
