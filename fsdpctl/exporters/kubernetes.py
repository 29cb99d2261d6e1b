"""What TrainJob and JobSet share: names, containers and variables of Kubernetes. Values here, YAML in `dump`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from fsdpctl.exporters.exportable import CONFIG, Exportable
from fsdpctl.schema.dump import dump_tree

PLACEHOLDER = "CHANGE-ME/image:tag"
_CONFIG_PATH = f"/tmp/{CONFIG}"
_RUN_DIR = "/runs"
_MAX_NAME = 45
"""Characters: names of jobs and pods add to it, and have 63."""
_WITH_CONFIG = f'printf %s "$0" >{_CONFIG_PATH} && exec "$@"'


def resource_name(name: str) -> str:
    """Return the name as a label of DNS, which begins with a letter."""
    label = re.sub("[^a-z0-9-]+", "-", name.lower())[:_MAX_NAME].strip("-")
    return label if label[:1].isalpha() else f"job-{label}"


def escape(text: str) -> str:
    """Return text that Kubernetes passes on as it is: it expands `$(NAME)`, and makes `$` of `$$`."""
    return text.replace("$", "$$")


def command(export: Exportable, torchrun: Sequence[str]) -> list[str]:
    """Return the command of a container, whose configuration of the bundled trainer comes with it."""
    words = [*torchrun, *export.program(_CONFIG_PATH)]
    config = export.trainer_config
    if config is not None:
        words = ["bash", "-c", _WITH_CONFIG, config, *words, "--run-dir", f"{_RUN_DIR}/{export.name}"]
    return [escape(word) for word in words]


def image_of(export: Exportable) -> str | None:
    """Return the image of the profile's container as a registry has it; None without one, and for one in a file."""
    container = export.container
    if container is None or container.image.startswith(("/", ".")):
        return None
    protocol, separator, rest = container.image.partition("://")
    if not separator:
        rest = protocol
    elif protocol != "docker":
        return None  # of apptainer: a library, or another kind of image
    registry, hash_sign, name = rest.partition("#")  # enroot: REGISTRY#IMAGE
    return f"{registry}/{name}" if hash_sign else rest


def image_note(export: Exportable) -> str:
    """Return which image the pods have, as text."""
    container, image = export.container, image_of(export)
    if container is None:
        return f"image: write yours in place of {PLACEHOLDER}"
    if image is None:
        return (
            f"image: {container.image} is a file of the cluster; write its name in a registry in place of {PLACEHOLDER}"
        )
    return f"image: {image} is that of the profile, whose mounts and options are not in it"


def env_list(export: Exportable) -> list[dict[str, Any]]:
    """Return the variables of a container; secrets are keys of the Secret that is named after the job."""
    hidden = (
        "PYTHONPATH",
        "NCCL_SOCKET_IFNAME",
        "GLOO_SOCKET_IFNAME",
    )  # paths and interfaces of the profile's machines
    given = {name: value for name, value in export.env().items() if name not in hidden or name in export.job.env}
    plain = [{"name": name, "value": escape(value)} for name, value in given.items()]
    secret = _secret(export)
    return plain + [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": name}}} for name in export.plan.pass_env
    ]


def _secret(export: Exportable) -> str:
    return f"{resource_name(export.name)}-secrets"


def resources(export: Exportable) -> dict[str, Any]:
    return {"limits": {"nvidia.com/gpu": export.gpus_per_node}} if export.gpus_per_node else {}


def dump(tree: dict[str, Any]) -> str:
    return dump_tree(tree)


def notes(export: Exportable) -> list[str]:
    """Return what a cluster of Kubernetes decides by itself."""
    plan, found = export.plan, []
    if plan.entry.is_bundled_trainer:
        found.append("the image must have fsdpctl's packages `train` and `fsdpctl` on its PYTHONPATH, and torch")
        found.append(f"{_RUN_DIR} must be a volume that all pods share: checkpoints are there")
    else:
        found.append(f"the image must have {plan.entry.target} in its working directory, and torch")
    if plan.pass_env:
        found.append(f"secrets are not written: the Secret {_secret(export)} must have {', '.join(plan.pass_env)}")
    if plan.setup:
        found.append("setup and modules of the profile are not in it: the image has what they load")
    return found
