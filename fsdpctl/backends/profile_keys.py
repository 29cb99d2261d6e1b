"""The section `backend` of a profile: the keys of one of the backends, chosen by `kind`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from fsdpctl.backends.local.profile_keys import LocalSection
from fsdpctl.backends.section import BackendSection
from fsdpctl.backends.slurm.profile_keys import SlurmSection
from fsdpctl.backends.ssh.profile_keys import SshSection

SECTIONS: dict[str, type[BackendSection]] = {"local": LocalSection, "ssh": SshSection, "slurm": SlurmSection}


def expand_kind(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


BackendKeys = Annotated[
    Annotated[LocalSection | SshSection | SlurmSection, Field(discriminator="kind")],
    BeforeValidator(expand_kind),
]
