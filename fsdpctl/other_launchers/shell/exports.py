"""Variables that a command or a script sets for the ranks."""

from __future__ import annotations

import re

from fsdpctl.other_launchers.draft import Draft
from fsdpctl.other_launchers.shell.statements import plain
from fsdpctl.other_launchers.shell.variables import SECRET_NAME, is_head_idiom, is_resolved, unknown_in
from fsdpctl.schema.problems import Location, shorten
from fsdpctl.schema.types import check_env_name

_SET_BY_TORCHRUN = re.compile(r"(MASTER_(ADDR|PORT)|(LOCAL_)?(WORLD_SIZE|RANK)|NODE_RANK|PET_NODE_RANK)$")
_PATHS = re.compile(r"(.*_)?PATH$")


def carry_variable(draft: Draft, name: str, value: str, location: Location) -> None:
    """Carry one exported variable over, or note why not."""
    if _SET_BY_TORCHRUN.match(name) or name.startswith("SLURM_"):
        return
    if _is_reserved(name):
        draft.note(location, name, "fsdpctl or torchrun sets it")
    elif SECRET_NAME.search(name):
        names = draft.profile.setdefault("pass_env", [])
        names += [name] if name not in names else []
        draft.note(location, name, "a secret is not written: `pass_env` takes it from the shell that submits")
    elif name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME") and re.fullmatch(r"[a-z][\w.-]*", value):
        draft.set("profile.network.interface", value, location)
    elif is_resolved(value):
        draft.job.setdefault("env", {})[name] = plain(value)
        draft.job_locations[("env", name)] = location
    elif _PATHS.fullmatch(name) and is_resolved(re.sub(rf"\$({name}\b|\{{{name}\}})", "", plain(value))):
        draft.profile.setdefault("setup", []).append(f'export {name}="{plain(value)}"')
    else:
        text = f"{shorten(unknown_in(value))} is not known from the text: write the value in `env`"
        draft.note(location, name, text, must_change=not is_head_idiom(value))


def _is_reserved(name: str) -> bool:
    try:
        check_env_name(name)
    except ValueError:
        return True
    return False
