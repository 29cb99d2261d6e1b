"""Pages for those who come from another launcher: the same job on each, and the importers give it, too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.load import load_job, parse_job
from tests.backends.harness import fsdpctl

PAGES = sorted((Path(__file__).parents[3] / "docs/migrate").glob("*.md"))
FILES = ("train.sbatch", "fsdp.yaml", "run.sh", "mine.yaml")


def block(page: Path, name: str) -> str | None:
    """Return the block that follows the first place where a file is named."""
    _, named, rest = page.read_text(encoding="utf-8").partition(f"`{name}`")
    found = re.search(r"^```\w+\n(.*?)^```", rest, re.DOTALL | re.MULTILINE) if named else None
    return found[1] if found else None


def shape(job: JobSpec) -> tuple[object, ...]:
    """Return what is the same on all pages; what DeepSpeed's script reads from its own file is left out."""
    args = [word for word in job.args if word not in ("--deepspeed", "ds_config.json")]
    return job.nodes, job.procs_per_node, job.entrypoint.script, args


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_job_is_the_same(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # files that a command names are beside the job
    for name in FILES:
        if (text := block(page, name)) is not None:
            (tmp_path / name).write_text(text)
    job = load_job("./mine.yaml")
    assert shape(job) == (2, 8, "train.py", ["--lr", "3e-4"])
    assert (job.time_limit, job.restarts) == (12 * 3600, 3)


@pytest.mark.parametrize(
    ("page", "name"), [("torchrun", "train.sbatch"), ("lightning", "train.sbatch"), ("deepspeed", "run.sh")]
)
def test_the_importer_makes_the_job_of_the_page(page: str, name: str, tmp_path: Path) -> None:
    path = next(one for one in PAGES if one.stem == page)
    text = block(path, name)
    assert text is not None
    (tmp_path / name).write_text(text)
    (tmp_path / "train.py").touch()
    imported = parse_job(fsdpctl("jobs", "import", name, cwd=tmp_path).stdout, "imported")
    (tmp_path / "mine.yaml").write_text(block(path, "mine.yaml") or "")
    assert shape(imported) == shape(load_job(str(tmp_path / "mine.yaml")))
