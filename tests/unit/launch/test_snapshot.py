from __future__ import annotations

import compileall
import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fsdpctl.contract import RANK_FOLDERS
from fsdpctl.contract.byte_progress import Progress, ignore
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import UsageError
from fsdpctl.launch import snapshot
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs import bundled
from fsdpctl.specs.load import load_job, load_profile, parse_job


def take(project: Path, run: RunPaths, job: str | None = None, progress: Progress = ignore) -> None:
    site = SubmitHost("r-aaaa", str(run.root), str(project), sys.executable, ())
    spec = parse_job(job, "j.yaml") if job else load_job("llm-tiny")
    snapshot.take_snapshot(build_plan(load_profile("local"), spec, site), run, progress)


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    (tmp_path / "run").mkdir()
    return RunPaths(tmp_path / "run")


OWN = "name: j\nentrypoint: {script: main.py}\n"


def test_the_node_side_needs_nothing_else(run: RunPaths, tmp_path: Path) -> None:
    """Import every module from the snapshot in an isolated interpreter without site-packages, but those for ranks."""
    take(tmp_path, run)
    paths = [path.relative_to(run.code).with_suffix("") for path in (run.code / "fsdpctl").rglob("*.py")]
    modules = [".".join(path.parts) for path in paths if path.name != "__init__" and path.parts[1] not in RANK_FOLDERS]
    script = f"import sys; sys.path.insert(0, {str(run.code)!r}); import {', '.join(sorted(modules))}"
    subprocess.run([sys.executable, "-I", "-S", "-c", script], check=True)


def test_no_process_of_a_run_compiles_the_sources_again(run: RunPaths, tmp_path: Path) -> None:
    roots = Path(snapshot.__file__).parent.parent, bundled.train_dir()
    for root in roots:
        compileall.compile_dir(root, quiet=1)
    take(tmp_path, run)
    modules = "fsdpctl.node.agent.__main__, fsdpctl.node.agent.rank, train.__main__"
    env = {**os.environ, "PYTHONPATH": str(run.code), "PYTHONSAFEPATH": "1"}
    argv = [sys.executable, "-v", "-c", f"import {modules}"]
    printed = subprocess.run(argv, env=env, cwd="/", check=True, capture_output=True, text=True).stderr
    assert f"code object from '{run.code}/fsdpctl/node/agent/__pycache__/rank." in printed
    assert f"code object from '{run.code}/train/__pycache__/config." in printed
    assert not re.search(f"code object from {run.code}|wrote '{run.code}", printed)


def test_git_decides_what_belongs_to_a_project_but_secrets_never_do(run: RunPaths, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "pkg").mkdir(parents=True)
    for name in (".env", "pkg/server.key", "pkg/id_ed25519"):
        (project / name).write_text("secret")
    for name in ("main.py", "pkg/a b.py", "ignored.bin", ".gitignore"):
        (project / name).write_text("ignored.bin\n" if name == ".gitignore" else "x = 1\n")
    (project / "tool.sh").write_text("#!/bin/sh\n")
    (project / "tool.sh").chmod(0o755)
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    take(project, run, OWN)
    copied = {str(p.relative_to(run.source)) for p in run.source.rglob("*") if p.is_file()}
    assert copied == {"main.py", "pkg/a b.py", ".gitignore", "tool.sh"}
    assert os.access(run.source / "tool.sh", os.X_OK)


def test_a_script_with_the_trainers_name_is_the_users(run: RunPaths, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train").write_text("x = 1\n")
    take(project, run, OWN.replace("main.py", "train"))
    assert [path.name for path in run.source.iterdir()] == ["train"]


def test_without_git_hidden_files_are_left_out(run: RunPaths, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for name in ("main.py", ".env"):
        (project / name).write_text("secret")
    take(project, run, OWN)
    assert [p.name for p in run.source.iterdir()] == ["main.py"]


def test_without_git_a_directory_that_cannot_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def fail(path: str) -> object:  # root may read a directory of any mode
        if Path(path).name == "closed":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", fail)
    with pytest.raises(UsageError, match=f"{tmp_path}/closed cannot be copied into a run: Permission denied"):
        snapshot.list_project(tmp_path)


def test_too_much_is_refused(run: RunPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MAX_BYTES", 3)
    (tmp_path / "main.py").write_text("x = 1\n")
    with pytest.raises(UsageError, match="too much to copy into each run"):
        take(tmp_path, run, OWN)


def test_too_many_files_are_refused_before_they_are_examined(
    run: RunPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MAX_FILES", 3)
    project = tmp_path / "project"
    for name in ("main.py", "data/1", "data/2", ".venv/a", ".venv/b", "data/.cache/c"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("x = 1\n")
    assert snapshot.list_project(project) == ["data/1", "data/2", "main.py"]
    (project / "data" / "3").touch()
    with pytest.raises(UsageError, match="has more than 3 files, too many to copy into each run"):
        take(project, run, OWN)


def test_the_copy_reports_its_progress(run: RunPaths, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    big = os.urandom(3 * snapshot._BLOCK + 7)
    (project / "big").write_bytes(big)
    (project / "main.py").write_text("x = 1\n")
    (project / "empty").touch()
    (project / "link").symlink_to("big")
    calls: list[tuple[str, int, int]] = []
    take(project, run, OWN, lambda *call: calls.append(call))
    assert (run.source / "big").read_bytes() == big
    assert {(what, total) for what, _, total in calls} == {(f"copying 4 files of {project}", len(big) + 6)}
    done = [done for _, done, _ in calls]
    assert done == [0, *(snapshot._BLOCK * number for number in (1, 2, 3)), len(big), len(big) + 6]


def test_links_inside_the_project_are_copied_and_others_are_refused(run: RunPaths, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "real").mkdir(parents=True)
    (project / "main.py").write_text("x = 1\n")
    (project / "real" / "mod.py").write_text("y = 2\n")
    (project / "alias").symlink_to("real")
    (project / "one.py").symlink_to("real/mod.py")
    take(project, run, OWN)
    assert (run.source / "alias" / "mod.py").read_text() == "y = 2\n"
    assert (run.source / "one.py").is_symlink()
    for name, target in (("passwd", "/etc/passwd"), ("up", "../run"), ("nowhere", "gone"), ("circle", "circle")):
        (project / name).symlink_to(target)
    with pytest.raises(UsageError, match="circle, nowhere, passwd, up"):
        snapshot.list_project(project)
