"""Services that tests need. A missing one skips on a laptop and fails where FSDPCTL_REQUIRE names it, as CI does."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

_ACCOUNTING = ("slurmdbd", "mariadbd")
_IS_THERE = {
    "torch": lambda: importlib.util.find_spec("torch") is not None,
    "cuda": lambda: shutil.which("nvidia-smi") is not None,
    "transformers": lambda: importlib.util.find_spec("transformers") is not None,
    "modules": lambda: any(map(os.path.exists, ("/usr/share/modules/init/bash", "/usr/share/lmod/lmod/init/bash"))),
    "torchao": lambda: importlib.util.find_spec("torchao") is not None,
    "wandb": lambda: importlib.util.find_spec("wandb") is not None,
    "mlflow": lambda: importlib.util.find_spec("mlflow") is not None,
    "tensorboard": lambda: importlib.util.find_spec("tensorboard") is not None,
    "accelerate": lambda: importlib.util.find_spec("accelerate") is not None,
    "lightning": lambda: importlib.util.find_spec("lightning") is not None,
    "aiosmtpd": lambda: importlib.util.find_spec("aiosmtpd") is not None,
    "moto": lambda: importlib.util.find_spec("moto") is not None,
    "torchtitan": lambda: importlib.util.find_spec("torchtitan") is not None,
    "jsonschema": lambda: importlib.util.find_spec("jsonschema") is not None,
    "node": lambda: shutil.which("node") is not None,
    "zsh": lambda: shutil.which("zsh") is not None,
    "fish": lambda: shutil.which("fish") is not None,
    "strace": lambda: shutil.which("strace") is not None,
    "slurm": lambda: shutil.which("slurmctld", path=f"{os.environ['PATH']}:/usr/sbin") is not None,
    "slurmdbd": lambda: all(shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in _ACCOUNTING),
    "sshd": lambda: os.geteuid() == 0 and all(map(shutil.which, ("sshd", "ip", "nsenter"))),  # own namespaces
    "mount": lambda: os.geteuid() == 0 and shutil.which("mount") is not None,
    "loop": lambda: Path("/dev/loop-control").exists() and all(map(shutil.which, ("mkfs.ext4", "fsfreeze"))),
}


def require(service: str) -> None:
    """Skip or fail the calling test when `service` is missing."""
    if _IS_THERE[service]():
        return
    if service in os.environ.get("FSDPCTL_REQUIRE", "").split(","):
        pytest.fail(f"FSDPCTL_REQUIRE names {service}, but it is not installed")
    pytest.skip(f"{service} is not installed")
