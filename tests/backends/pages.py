"""Commands of a documentation page, as a reader would run them, with a job that is small enough for a test."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import yaml

from tests.backends.harness import fsdpctl

ROOT = Path(__file__).parents[2]


def commands(page: str) -> list[list[str]]:
    """Return the arguments of fsdpctl in a page's console blocks, in their order."""
    blocks = re.findall(r"^```console\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    found = [re.match(r"(?:\$ |\.venv/bin/)fsdpctl (.*)", line) for line in lines]
    return [shlex.split(match[1], comments=True) for match in found if match is not None]


def run(line: list[str], cwd: Path) -> str:
    """Run a command of a page and return what it prints. A smoke run, as costly as others, is only planned."""
    words = [word for word in line if word != "--follow"] + ["--dry-run"] if "--smoke" in line else line
    done = fsdpctl(*words, cwd=cwd, timeout=300)
    return done.stdout + done.stderr


def write_job(project: Path, **trainer: object) -> None:
    """Write an llm-tiny of short sequences, with other keys of its trainer, where `submit` looks first."""
    job = yaml.safe_load((ROOT / "jobs/llm-tiny.yaml").read_text())
    job["trainer"] |= {"checkpoint": {"every_steps": 8}, **trainer}
    job["trainer"]["model"]["seq_len"] = 64
    job["trainer"]["optim"]["warmup_steps"] = 2
    (project / "jobs").mkdir(parents=True)
    (project / "jobs/llm-tiny.yaml").write_text(yaml.safe_dump(job))


def write_smallest_job(project: Path) -> None:
    """Write an llm-tiny whose steps take next to nothing."""
    write_job(project, steps=30, batch={"sequences": 2, "micro_batch": 1}, eval={"sequences": 2})


def edit_profile(path: Path, changes: dict[str, object]) -> None:
    """Change keys of a profile that `profiles init` wrote; None removes a key."""
    profile = {**yaml.safe_load(path.read_text()), **changes}
    path.write_text(yaml.safe_dump({key: value for key, value in profile.items() if value is not None}))
