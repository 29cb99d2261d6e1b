"""Pages whose commands are run line by line, as a reader would."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.backends.harness import fsdpctl
from tests.backends.pages import ROOT, commands, write_job
from tests.services import require

QUICK_START = "docs/quickstart-laptop.md"
SKILL = "fsdpctl/.agents/skills/fsdpctl/SKILL.md"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a directory in which llm-tiny has few and small steps, but enough of them to be stopped."""
    require("torch")
    directory = tmp_path / "my project"
    write_job(directory, steps=24, batch={"sequences": 16, "micro_batch": 4}, eval={"sequences": 8})
    return directory


@pytest.mark.timeout(600)
def test_the_quick_start(project: Path) -> None:
    words = commands(QUICK_START)
    assert {line[0] for line in words} == {"submit", "ls", "checkpoints", "logs", "status", "stop", "resume"}
    for line in words:
        fsdpctl(*line, cwd=project, timeout=300)
    assert json.loads(fsdpctl("status", "--json", cwd=project).stdout)["state"] == "SUCCEEDED"


@pytest.mark.timeout(600)
def test_what_an_agent_is_taught(project: Path) -> None:
    for line in commands(SKILL):
        assert line[-1] == "--json"
        printed = fsdpctl(*line, cwd=project).stdout
        try:
            json.loads(printed)
        except ValueError:
            assert [json.loads(one) for one in printed.splitlines()], line  # one object a line
    assert json.loads(fsdpctl("status", "--json", cwd=project).stdout)["attempt"] == 2


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("page", "example", "needs"),
    [("own-script", "minimal", "torch"), ("hf-trainer", "hf_trainer", "transformers")],
)
def test_a_tutorial(page: str, example: str, needs: str, tmp_path: Path) -> None:
    require(needs)
    directory = tmp_path / "mine"
    shutil.copytree(ROOT / "examples" / example, directory)
    words = commands(f"docs/tutorial-{page}.md")
    assert {"submit", "status", "stop", "resume", "logs"} <= {line[0] for line in words}
    printed = {line[0]: fsdpctl(*line, cwd=directory, timeout=300).stdout for line in words}
    (end,) = re.findall(r"^run +\S+ (.*)$", (ROOT / f"docs/tutorial-{page}.md").read_text(), re.MULTILINE)
    assert re.search(rf"^run +\S+ {end}$", printed["resume"], re.MULTILINE)
    status = json.loads(fsdpctl("status", "--json", cwd=directory).stdout)
    assert (status["state"], status["attempt"]) == ("SUCCEEDED", 2)
