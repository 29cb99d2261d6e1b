"""torchrun starts without parts of torch, and with all of it where they are needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import gc, sys

def main(argv=None):
    left_out = not hasattr(sys.modules.get("torch.export"), "export")
    print(left_out, gc.isenabled(), sys.argv[1:] if argv is None else argv)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("imports", "left_out"),
    [("from torch import _meta_registrations, export", True), ("from torch.export import export", False)],
    ids=["not needed", "needed"],
)
def test_what_is_left_out_is_imported_where_it_is_needed(tmp_path: Path, imports: str, left_out: bool) -> None:
    (tmp_path / "torch/distributed").mkdir(parents=True)
    (tmp_path / "torch/__init__.py").write_text(f"import gc\n{imports}\n")
    (tmp_path / "torch/_meta_registrations.py").write_text("")
    (tmp_path / "torch/export.py").write_text("export = print\n")
    (tmp_path / "torch/distributed/__init__.py").write_text("")
    (tmp_path / "torch/distributed/run.py").write_text(RUN)
    argv = [sys.executable, "-m", "fsdpctl.node.agent.torchrun", "--nnodes=2", "a b"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True, env=env)
    assert done.stdout == f"{left_out} True ['--nnodes=2', 'a b']\n"
    assert ("starts with all of torch" in done.stderr) == (not left_out)
