"""What differs between two runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from fsdpctl.comparison.code import compare_code, diff_code
from fsdpctl.comparison.compare import common_losses, compare_runs
from fsdpctl.comparison.result import ChangedFile, Difference, LossAt
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.copied import CopiedFiles, inventory_project
from fsdpctl.runs.evidence import RunFacts
from tests.backends.harness import fsdpctl
from tests.unit.ended_runs import make_run


def write_code(run: RunPaths, files: dict[str, str]) -> None:
    for name, text in files.items():
        (run.source / name).parent.mkdir(parents=True, exist_ok=True)
        (run.source / name).write_text(text)
    write_json(run.copied, CopiedFiles().followed_by(inventory_project(run)))


def test_only_what_differs_is_listed_but_results_always() -> None:
    a = make_run("mine-aaaa", steps=40, job="entrypoint: {module: m}\nenv: {A: x}\n")
    b = make_run("other-bbbb", steps=20, starts=(1, 11), job="entrypoint: {module: m}\nenv: {B: y}\n")
    found = compare_runs(RunFacts(a), RunFacts(b))
    assert found.configuration == (Difference("env.A", "x", None), Difference("env.B", None, "y"))
    assert (found.versions, found.hosts, found.code) == ((), None, ())
    assert Difference("attempts", 1, 2) in found.results
    assert Difference("median tokens/s", 1000.0, 1000.0) in found.results
    assert found.loss[-1].step == 20 and found.loss[-1].a == found.loss[-1].b


def test_losses_are_compared_at_steps_that_both_have() -> None:
    assert common_losses({1: 1.0, 2: 2.0, 3: 3.0}, {2: 5.0, 3: 6.0, 9: 9.0}) == [
        LossAt(2, 2.0, 5.0),
        LossAt(3, 3.0, 6.0),
    ]
    assert common_losses({1: 1.0}, {2: 1.0}) == []
    many = dict.fromkeys(range(100), 1.0)
    assert [at.step for at in common_losses(many, many, 4)] == [0, 33, 66, 99]


def test_code_is_compared_without_what_ranks_have_written() -> None:
    a, b = make_run("mine-aaaa", steps=1), make_run("other-bbbb", steps=1)
    write_code(a, {"same.py": "1\n", "a b.py": "old\n", "gone.py": "1\n"})
    write_code(b, {"same.py": "1\n", "a b.py": "new\n", "added.py": "1\n"})
    (b.source / "by_rank.txt").write_text("x")
    files = compare_code(a, b)
    expected = {"src/a b.py": "changed", "src/added.py": "added", "src/gone.py": "removed"}
    assert files == [ChangedFile(name, change) for name, change in expected.items()]  # type: ignore[arg-type]
    patch = diff_code(a, b, files)
    assert "-old\n+new\n" in patch
    assert str(a.root) not in patch and str(b.root) not in patch
    command = ["git", "apply", "--stat", "-"]
    assert "3 files changed" in subprocess.run(command, input=patch, capture_output=True, text=True, check=True).stdout


def test_the_command_prints_tables_or_json_or_a_patch(tmp_path: Path) -> None:
    a, b = make_run("mine-aaaa", steps=40), make_run("other-bbbb", steps=20)
    write_code(a, {"train.py": "lr = 1\n"})
    write_code(b, {"train.py": "lr = 2\n"})

    def run(*words: str) -> str:
        return fsdpctl("compare", "mine", "other", *words, cwd=tmp_path).stdout

    shown = run()
    assert "configuration: the same" in shown and "changed    src/train.py" in shown
    assert "last step        40         20" in shown
    assert json.loads(run("--json"))["code"] == [{"path": "src/train.py", "change": "changed"}]
    assert "-lr = 1\n+lr = 2" in run("--diff")
