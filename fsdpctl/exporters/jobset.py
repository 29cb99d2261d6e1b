"""A JobSet of Kubernetes: one indexed Job, a pod for each node."""

from __future__ import annotations

from typing import Any

from fsdpctl.exporters.exportable import NODE_RANK, Exportable, Exported, torchrun_options
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

_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_JOB = "node"


def write(export: Exportable) -> Exported:
    """Return the YAML. All pods are made anew when one has failed, up to the job's restarts."""
    name, plan = resource_name(export.name), export.plan
    deadline = {"activeDeadlineSeconds": plan.time_limit_s} if plan.time_limit_s is not None else {}
    job = {
        "parallelism": export.num_nodes,
        "completions": export.num_nodes,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        **deadline,
        "template": {"spec": _pod(export, f"{name}-{_JOB}-0-0.{name}")},
    }
    tree = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": {"maxRestarts": plan.restarts},
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "replicatedJobs": [{"name": _JOB, "replicas": 1, "template": {"spec": job}}],
        },
    }
    return Exported(dump(tree), (*notes(export), image_note(export)))


def _pod(export: Exportable, head: str) -> dict[str, Any]:
    """Return the specification of a pod. `head`: the host name of the first one."""
    torchrun = [
        "torchrun",
        *torchrun_options(export),
        f"--master-addr={head}",
        f"--master-port={export.plan.ports.first}",
    ]
    rank = {"name": NODE_RANK, "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}}
    container: dict[str, Any] = {
        "name": "trainer",
        "image": image_of(export) or PLACEHOLDER,
        "command": command(export, torchrun),
        "env": [rank, *env_list(export)],
        "ports": [{"containerPort": export.plan.ports.first}],
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    if found := resources(export):
        container["resources"] = found
    return {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],  # NCCL needs more than a pod's 64 MB
    }
