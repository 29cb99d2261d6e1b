"""The compiler's cache is saved with a run: a node that has none gets it, and what comes out is the same to the bit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.backends import exact
from tests.backends.harness import Run, fsdpctl, kill, submit, wait_for
from tests.backends.in_ranks import IN_RANKS

SETTINGS = (
    *exact.SMALL,
    *("--set", "trainer.compile=true", "--set", "trainer.steps=12", "--set", "trainer.model.layers=1"),
    *("--set", 'trainer.mesh.units={"blocks": 0}'),
    *("--set", "trainer.checkpoint.every_steps=4", "--set", 'trainer.eval={"sequences": 0}'),
)
IN_EACH = """
def own_directory(root):
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{root}/node-{os.environ['FSDPCTL_NODE_RANK']}"

def wait_before_step_7(flag):
    while not hasattr(sys.modules.get("train.loop"), "Trainer"):
        time.sleep(0.01)
    trainer = sys.modules["train.loop"].Trainer
    step = trainer._train_step
    def later(self):
        while self.step == 6 and os.path.exists(flag):
            time.sleep(0.05)
        step(self)
    trainer._train_step = later

in_ranks(own_directory, ROOT)
in_ranks(wait_before_step_7, ROOT + "/wait")
"""
COMPILER = r"""#!/bin/sh
case "$*" in *.so\ *) echo "$*" >> "$FSDPCTL_RUN_DIR/compiled-$FSDPCTL_ATTEMPT-$FSDPCTL_NODE_RANK";; esac
exec g++ "$@"
"""


def compiled(run: Run, attempt: int) -> list[int]:
    """Return how often each node called the C++ compiler."""
    files = [run.paths.root / f"compiled-{attempt}-{node}" for node in (0, 1)]
    return [len(path.read_text().splitlines()) if path.exists() else 0 for path in files]


def line(run: Run, attempt: int) -> str:
    """Return what rank 0 logged of the cache at its start."""
    lines = run.paths.attempt(attempt).node(0).rank_log(0).read_text().splitlines()
    return next(line.partition("compile cache: ")[2] for line in lines if "compile cache: " in line)


@pytest.mark.timeout(900)
def test_a_node_without_the_cache_gets_it_and_a_damaged_one_is_dropped(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = tmp_path / "node-0", tmp_path / "node-1"
    site, compiler = tmp_path / "site", tmp_path / "c++"
    site.mkdir()
    (site / "sitecustomize.py").write_text(f"ROOT = {str(tmp_path)!r}{IN_RANKS}{IN_EACH}")
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("TORCHINDUCTOR_VEC_ISA_OK", "0")  # else each start tries out what the processor can

    (tmp_path / "wait").touch()
    run = submit("exact.yaml", *SETTINGS, cwd=project)
    wait_for(lambda: run.paths.compile_cache.exists() and run.checkpoints(), 600, run.describe)
    shutil.rmtree(nodes[1])
    kill(exact.rank(run))
    (tmp_path / "wait").unlink()
    assert run.wait_ended(600)["state"] == "SUCCEEDED", run.describe()
    assert line(run, 1) == "empty on all nodes" and min(compiled(run, 1)) > 0
    assert line(run, 2).startswith("node 1 got it from node 0") and compiled(run, 2) == [0, 0]
    assert "compiled graph loaded" in run.paths.attempt(2).node(0).rank_log(0).read_text()

    undisturbed = submit("exact.yaml", *SETTINGS, cwd=project)
    assert undisturbed.wait_ended(600)["state"] == "SUCCEEDED", undisturbed.describe()
    assert line(undisturbed, 1) == "the same one on all nodes" and compiled(undisturbed, 1) == [0, 0]
    curve = undisturbed.curve()
    assert run.curve() == curve

    for node in nodes:
        shutil.rmtree(node)
    saved = undisturbed.paths.compile_cache
    saved.write_bytes(saved.read_bytes()[:-1])
    fsdpctl("resume", undisturbed.run_id, "--step", "8", cwd=project)
    wait_for(lambda: min(compiled(undisturbed, 2)) > 0, 300, undisturbed.describe)
    fsdpctl("cancel", undisturbed.run_id, cwd=project)
    log = undisturbed.paths.attempt(2).node(0).rank_log(0).read_text()
    assert f"compile cache dropped: {saved}: damaged: its digest differs" in log
    assert line(undisturbed, 2) == "empty on all nodes"
