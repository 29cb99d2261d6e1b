"""Pages whose commands are run line by line, as a reader would."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from tests.backends.harness import fsdpctl
from tests.services import require

ROOT = Path(__file__).parents[3]
QUICK_START = "docs/quickstart-laptop.md"
SKILL = "fsdpctl/.agents/skills/fsdpctl/SKILL.md"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a directory in which llm-tiny has few steps, and little to compute in each."""
    require("torch")
    job = yaml.safe_load((ROOT / "jobs/llm-tiny.yaml").read_text())
    job["trainer"] |= {"steps": 24, "checkpoint": {"every_steps": 8}, "eval": {"sequences": 8}}
    job["trainer"]["model"]["seq_len"] = 64
    job["trainer"]["batch"] = {"sequences": 16, "micro_batch": 4}
    job["trainer"]["optim"]["warmup_steps"] = 2
    directory = tmp_path / "my project"
    (directory / "jobs").mkdir(parents=True)
    (directory / "jobs/llm-tiny.yaml").write_text(yaml.safe_dump(job))
    return directory


def commands(page: str) -> list[list[str]]:
    """Return the arguments of fsdpctl in a page's console blocks, in their order."""
    blocks = re.findall(r"^```console\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    found = [re.match(r"(?:\$ |\.venv/bin/)fsdpctl (.*)", line) for line in lines]
    return [shlex.split(match[1], comments=True) for match in found if match is not None]


@pytest.mark.timeout(600)
def test_the_quick_start(project: Path) -> None:
    words = commands(QUICK_START)
    assert {line[0] for line in words} == {"submit", "ls", "checkpoints", "logs", "status", "stop", "resume"}
    for line in words:
        fsdpctl(*line, cwd=project)
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
