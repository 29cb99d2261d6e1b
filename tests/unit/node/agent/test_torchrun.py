"""torchrun starts with little of torch, and with all of it where that does not fit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services import require

RUN = """
import gc, sys
import torch
from torch._utils_internal import get_default_numa_options, justknobs_check
from torch.distributed import DistNetworkError, FileStore, PrefixStore, Store, TCPStore

def main(argv=None):
    has_all = hasattr(torch, "all_of_it")
    print(has_all, gc.isenabled(), sys.argv[1:] if argv is None else argv)

if __name__ == "__main__":
    main()
"""
EXTENSION = """
_c10d_init = lambda: True
_set_thread_name = _DistError = _DistBackendError = _DistNetworkError = _DistStoreError = print
"""
STORES = "Store = FileStore = HashStore = PrefixStore = TCPStore = print\n"
TORCH = {
    "__init__.py": "all_of_it = True\n",
    "_C/__init__.py": EXTENSION,
    "_C/_distributed_c10d.py": STORES,
    "_utils_internal.py": "get_default_numa_options = justknobs_check = print\n",
    "distributed/__init__.py": f"{STORES}DistNetworkError = print\n",
    "distributed/run.py": RUN,
    "version.py": "__version__ = '2.13.0+cpu'\n",
}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, ""),
        ({"version.py": "__version__ = '99.1.0'\n"}, "torch 99.1.0 was not tried without"),
        ({"_C/_distributed_c10d.py": "Store = print\n"}, "has no attribute 'FileStore'"),
        ({"distributed/run.py": f"from torch import all_of_it\n{RUN}"}, "cannot import name 'all_of_it'"),
    ],
    ids=["as tried", "another version", "another extension", "another torchrun"],
)
def test_it_starts_with_all_of_torch_only_where_it_must(tmp_path: Path, changed: dict[str, str], why: str) -> None:
    for name, text in {**TORCH, **changed}.items():
        path = tmp_path / "torch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    argv = [sys.executable, "-m", "fsdpctl.node.agent.torchrun", "--nnodes=2", "a b"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True, env=env)
    assert done.stdout == f"{bool(why)} True ['--nnodes=2', 'a b']\n"
    assert ("starts with all of torch" in done.stderr, why in done.stderr) == (bool(why), True)


def test_the_torch_that_is_installed_was_tried() -> None:
    """Under c10d; the runs of all launcher tests have the static rendezvous."""
    require("torch")
    options = ("--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--no-python")
    argv = [sys.executable, "-m", "fsdpctl.node.agent.torchrun", *options, "sh", "-c", "echo rank $RANK of $WORLD_SIZE"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "rank 0 of 1\n"
    assert "starts with all of torch" not in done.stderr
