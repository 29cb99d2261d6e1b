"""A TrainJob of Kubeflow Trainer, for its runtime `torch-distributed`."""

from __future__ import annotations

from typing import Any

from fsdpctl.exporters.exportable import Exportable, Exported
from fsdpctl.exporters.kubernetes import (
    PLACEHOLDER,
    command,
    dump,
    env_list,
    image_note,
    image_of,
    notes,
    resource_name,
    resources,
)

RUNTIME = "torch-distributed"


def write(export: Exportable) -> Exported:
    """Return the YAML. The runtime gives torchrun its world and its rendezvous by variables."""
    plan = export.plan
    trainer: dict[str, Any] = {
        **_image(export),
        "command": command(export, ["torchrun"]),
        "numNodes": export.num_nodes,
        "numProcPerNode": plan.procs_per_node,
    }
    if env := env_list(export):
        trainer["env"] = env
    if limits := resources(export):
        trainer["resourcesPerNode"] = limits
    spec: dict[str, Any] = {"runtimeRef": {"name": RUNTIME}, "trainer": trainer}
    if plan.time_limit_s is not None:
        spec["activeDeadlineSeconds"] = plan.time_limit_s
    tree = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": resource_name(export.name)},
        "spec": spec,
    }
    own = [_image_note(export)]
    if plan.restarts:
        own.append(f"restarts ({plan.restarts}): the runtime decides")
    return Exported(dump(tree), (*notes(export), *own))


def _image(export: Exportable) -> dict[str, str]:
    if export.container is None:
        return {}
    return {"image": image_of(export) or PLACEHOLDER}


def _image_note(export: Exportable) -> str:
    if export.container is None:
        return f"the image is that of the runtime {RUNTIME}: `image` under `trainer` names another one"
    return image_note(export)
