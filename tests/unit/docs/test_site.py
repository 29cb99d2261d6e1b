"""The documentation as a site: every page, every link and every anchor."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def build(project: Path, out: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True)


@pytest.mark.slow
def test_the_site_has_all_pages_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path / "site")
    assert (done.returncode, "WARNING" in done.stderr) == (0, False), done.stderr
    pages = {path.relative_to(tmp_path / "site").as_posix(): path.read_text() for path in tmp_path.rglob("*.html")}
    assert {f"{path.stem}.html" for path in (ROOT / "docs").glob("*.md")} <= pages.keys()
    assert {"files/CHANGELOG.html", "files/examples/hf_trainer/train.py.html"} <= pages.keys()
    assert [
        name for name, text in pages.items() if re.search(r'<(script|img|link)[^>]*(src|href)="https?://', text)
    ] == []
    listed = (tmp_path / "site/llms.txt").read_text()
    linked = set(re.findall(r"^- \[.+?\]\((.+?)\): .+\.$", listed, re.MULTILINE))
    assert linked == {f"{path.stem}.html" for path in (ROOT / "docs").glob("*.md")} - {"index.html"}


@pytest.mark.slow
def test_a_broken_link_a_missing_anchor_and_a_page_outside_of_the_index_are_errors(tmp_path: Path) -> None:
    project = tmp_path / "a project"
    shutil.copytree(ROOT / "docs", project / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("fsdpctl", "mkdocs.yml", "CHANGELOG.md", "CONTRIBUTING.md", "examples", "cluster_profiles"):
        (project / name).symlink_to(ROOT / name)
    (project / "docs/lost.md").write_text("# Lost\n")
    with (project / "docs/data.md").open("a") as page:
        page.write("[a](nowhere.md) [b](jobs.md#nothing) [c](../nofile.py)\n")
    done = build(project, tmp_path / "site")
    assert done.returncode == 1
    for problem in ("'nowhere.md'", "'jobs.md#nothing'", "'../nofile.py'", "lost.md"):
        assert problem in done.stderr, done.stderr
