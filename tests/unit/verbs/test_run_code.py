"""What `resume --update-code` does to the directory in which ranks run, and write."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from fsdpctl.contract.byte_progress import ignore
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import UsageError
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.launch.snapshot import take_snapshot
from fsdpctl.runs.git_facts import read_git_diff, read_git_facts
from fsdpctl.specs.load import load_profile, parse_job
from fsdpctl.verbs.run_code import prepare_code, repair_code, replace_code

OLD = {"main.py": "1", "gone.py": "1", "pkg/a.py": "1", "log.csv": "step\n", "same.py": "1"}
NEW = {"main.py": "2", "pkg": "a file", "log.csv": "step\n", "same.py": "1", "added/b.py": "2"}
OF_RANKS = {"out/model.pt": "weights", "pkg.pt": "weights", "added/by_rank": "x", "log.csv": "step\n1\n"}


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def read(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_bytes().decode(errors="replace")
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write(tmp_path / "project", OLD)
    return tmp_path / "project"


@pytest.fixture
def plan(project: Path, tmp_path: Path) -> LaunchPlan:
    host = SubmitHost("r-aaaa", str(tmp_path / "run"), str(project), sys.executable, ())
    return build_plan(load_profile("local"), parse_job("name: j\nentrypoint: {script: main.py}\n", "j.yaml"), host)


@pytest.fixture
def run(plan: LaunchPlan) -> RunPaths:
    """A run of the old project, whose ranks have written beside it, and the project after an edit."""
    run = RunPaths.of(plan.run_dir)
    run.root.mkdir()
    take_snapshot(plan, run)
    write(run.source, OF_RANKS)
    (run.source / "__pycache__").mkdir()
    write(run.source / "__pycache__", {"gone.cpython-313.pyc": "", "main.cpython-313.pyc": ""})
    project = Path(plan.submit_dir)
    shutil.rmtree(project)
    write(project, NEW)
    return run


def update(run: RunPaths, plan: LaunchPlan) -> list[str]:
    kept = prepare_code(run, plan, time.time() - 60, ignore)
    replace_code(run)
    return kept


def test_a_new_copy_replaces_what_the_old_one_brought_and_nothing_else(run: RunPaths, plan: LaunchPlan) -> None:
    assert update(run, plan) == ["code/src/log.csv"]
    found = read(run.source)
    assert found.keys() & {"__pycache__/gone.cpython-313.pyc", "__pycache__/main.cpython-313.pyc"} == {
        "__pycache__/main.cpython-313.pyc"
    }, "no byte code without its source"
    assert {name: text for name, text in found.items() if "pyc" not in name} == {**NEW, **OF_RANKS}
    assert sorted(path.name for path in run.root.iterdir()) == ["code", "copied.json"]
    write(Path(plan.submit_dir), {"main.py": "3"})
    (Path(plan.submit_dir) / "log.csv").unlink()
    assert update(run, plan) == []
    assert read(run.source)["main.py"] == "3"
    assert read(run.source)["log.csv"] == OF_RANKS["log.csv"], "a rank's now, as the project has none any more"


def test_the_commit_is_that_of_the_newest_copy(run: RunPaths, plan: LaunchPlan) -> None:
    project = plan.submit_dir
    who = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "First"]):
        subprocess.run(["git", "-C", project, *words], check=True)
    (Path(project) / "main.py").write_text("3")
    update(run, plan)
    facts = read_git_facts(run)
    assert facts is not None
    assert (facts.subject, facts.changed) == ("First", ("main.py",))
    assert "+3" in read_git_diff(run)
    shutil.rmtree(Path(project) / ".git")
    update(run, plan)
    assert (read_git_facts(run), read_git_diff(run)) == (None, "")


@pytest.mark.parametrize(
    ("name", "conflict"),
    [("log.csv", "log.csv"), ("out", "out"), ("pkg.pt/x.py", "pkg.pt/x.py"), ("out/model.pt", "out/model.pt")],
    ids=["changed by both", "a directory of ranks", "below a file of ranks", "a file of ranks"],
)
def test_a_file_that_ranks_and_the_project_have_written_is_refused_by_its_name(
    name: str, conflict: str, run: RunPaths, plan: LaunchPlan
) -> None:
    project = Path(plan.submit_dir)
    (project / name).unlink(missing_ok=True)
    write(project, {name: "of the project"})
    before = read(run.root)
    with pytest.raises(UsageError, match=f"differ from those of the project: code/src/{conflict}$"):
        update(run, plan)
    assert read(run.root) == before and not (run.root / ".new-code").exists()


def test_of_a_run_without_a_record_only_files_older_than_the_run_are_replaced(run: RunPaths, plan: LaunchPlan) -> None:
    run.copied.unlink()
    for name in OLD.keys() - OF_RANKS.keys():
        os.utime(run.source / name, (time.time() - 3600,) * 2)
    (Path(plan.submit_dir) / "pkg").unlink()
    (Path(plan.submit_dir) / "log.csv").unlink()
    update(run, plan)
    found = {name: text for name, text in read(run.source).items() if "pyc" not in name}
    assert found == {**OLD, **OF_RANKS, "main.py": "2", "added/b.py": "2"}, "ranks may have unpacked old files"
    write(Path(plan.submit_dir), {"added/by_rank": "of the project"})
    with pytest.raises(UsageError, match=r"code/src/added/by_rank$"):
        update(run, plan)


def die_before_step(number: int, act: Callable[[], object]) -> bool:
    """Run `act` in a process that is killed before its step `number`; return whether it has got to its end."""
    if not (pid := os.fork()):
        steps = 0

        def watch(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal steps
            if event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir"):
                steps += 1
                if steps == number:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        act()
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code == 0


@pytest.mark.slow
def test_an_update_killed_at_any_step_leaves_the_old_code_or_the_new_one(
    run: RunPaths, plan: LaunchPlan, tmp_path: Path
) -> None:
    prepare_code(run, plan, 0.0, ignore)
    for code in (run.code, run.root / ".new-code" / "code"):  # of hundreds of files, one shows the rest
        shutil.rmtree(code / "fsdpctl")
        write(code, {"fsdpctl/rank.py": ""})
    shutil.copytree(run.root, tmp_path / "before")
    old, new = {**OLD, **OF_RANKS}, {**NEW, **OF_RANKS}
    seen = []
    for step in count(1):
        done = die_before_step(step, lambda: replace_code(run))
        repair_code(run)
        found = {name: text for name, text in read(run.source).items() if "pyc" not in name}
        assert found in (old, new), f"killed before step {step}"
        assert read(run.code / "fsdpctl") == {"rank.py": ""}
        seen.append(found == new)
        if done:
            break
        shutil.rmtree(run.root)
        shutil.copytree(tmp_path / "before", run.root)
    assert seen == sorted(seen) and {*seen} == {False, True}, "once it is the new code, it stays that"
