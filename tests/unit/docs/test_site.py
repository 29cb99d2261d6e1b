"""The documentation as a site: every page, every link, every anchor, all of it offline, and what a search finds."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services import require

ROOT = Path(__file__).parents[3]
NAMES = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in ROOT.glob("docs/**/*.md")}
OUTSIDE = re.compile(
    r"<(?:script|img|iframe|source|link)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*"  # loaded by a page
    r"|@import\s+[^;]*//[^;]*|url\([\"']?(?:https?:)?//[^)]*"  # loaded by a style
    r"|class=[\"']?mermaid\b"  # for which the theme loads a script from another host
)
QUESTIONS = {
    "why rendezvous hang": ("concepts/communication.html", "127.0.1.1"),
    "how do I resume on fewer nodes": ("questions.html", "fsdpctl resume --nodes 1"),
    "resume on a different number of GPUs": ("questions.html", "fsdpctl resume --nodes 1"),
    "out of GPU memory": ("questions.html", "batch.micro_batch"),
    "zombie processes GPU memory": ("questions.html", "fsdpctl cancel RUN"),
    "losses differ resume": ("questions.html", "deterministic"),
    "preempted job": ("questions.html", "queued again"),
    "resume bitwise exact": ("questions.html", "on GPUs"),
    "Hugging Face Trainer two nodes": ("questions.html", "-p PROFILE"),
    "export safetensors": ("questions.html", "fsdpctl checkpoints export"),
    "stack of hung rank": ("questions.html", "fsdpctl stacks"),
    "slack message when a run fails": ("questions.html", "url_file"),
    "gpu hours last month": ("questions.html", "fsdpctl usage"),
    "delete old checkpoints": ("questions.html", "fsdpctl gc"),
    "run in a container": ("questions.html", "kind: apptainer"),
    "prompt passphrase": ("launchers-ssh.html", "Nothing prompts"),
    "waiting for rendezvous": ("questions.html", "master_address: 10.0.0.1"),
    "NCCL_SOCKET_IFNAME": ("questions.html", "interface: ib0"),
    "raise hang timeout": ("questions.html", "resume --set hang.after=10m"),
    "NCCL timeout": ("questions.html", "Watchdog caught collective operation timeout"),
    "ChildFailedError": ("questions.html", "fsdpctl explain --log FILE"),
    "Slurm time limit": ("questions.html", "time_limit"),
    "how much memory 13B A100": ("questions.html", "fsdpctl estimate llm7b --model"),
    "slow training across nodes": ("questions.html", "fsdpctl bench nccl"),
    "accelerate launch": ("questions.html", "command: accelerate launch"),
    "convert checkpoint to huggingface": ("questions.html", "fsdpctl checkpoints export"),
    "checkpoint without shared filesystem": ("questions.html", "shared_filesystem: false"),
    "conda environment on nodes": ("profiles.html", "conda"),
    "address already in use": ("failures.html", "address already in use"),
    "infiniband not used": ("networks.html", "NET/IB"),
    "wandb offline": ("metrics.html", "offline"),
    "检查点": ("zh/tutorial-own-script.html", "它的检查点"),
    "抢占": ("zh/quickstart-slurm.html", "抢占"),
    "主机密钥": ("zh/quickstart-ssh.html", "主机密钥"),
    "停止与恢复": ("zh/quickstart-laptop.html", "恢复后的损失"),
    "崩溃后恢复": ("zh/quickstart-laptop.html", "fsdpctl resume"),
    "没有 Slurm": ("zh/quickstart-ssh.html", "无需输入密码"),
}
"""What a reader types, a page among the first two that are found, and a part of what a found section of it answers."""


def build(project: Path, out: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = build(ROOT, out)
    assert (done.returncode, "WARNING" in done.stderr) == (0, False), done.stderr
    return out


@pytest.mark.slow
def test_the_site_has_all_pages(site: Path) -> None:
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert {*NAMES, "files/CHANGELOG.html", "files/examples/hf_trainer/train.py.html"} <= pages
    listed = (site / "llms.txt").read_text()
    linked = set(re.findall(r"^- \[.+?\]\((.+?)\): .+[.。]$", listed, re.MULTILINE))
    assert linked == NAMES - {"index.html"}


@pytest.mark.slow
def test_a_page_marks_options_in_sentences_and_not_in_blocks(site: Path) -> None:
    page = (site / "questions.html").read_text()
    assert '<code>fsdpctl logs <span class="option">--errors</span></code>' in page
    blocks = re.findall(r"<pre>.*?</pre>", page, re.DOTALL)
    assert blocks
    assert not [block for block in blocks if 'class="option"' in block]


@pytest.mark.slow
def test_the_site_loads_nothing_from_other_hosts(site: Path) -> None:
    files = [path for suffix in ("html", "css", "svg") for path in site.rglob(f"*.{suffix}")]
    assert any(path.suffix == ".svg" and path.parent.name == "diagrams" for path in files)
    assert (site / "search/search_index.js").exists(), "for a search without a server"
    found = {path.name: OUTSIDE.findall(path.read_text()) for path in files}
    assert not {name: parts for name, parts in found.items() if parts}


def test_what_loads_from_other_hosts_is_found() -> None:
    for text in (
        '<script src="https://unpkg.com/mermaid.js"></script>',
        "<img alt='a' src=//host/a.png>",
        '<link rel="stylesheet" href="https://fonts.googleapis.com/css">',
        "@import 'https://host/a.css';",
        "src:url(https://host/a.woff2)",
        '<pre class="mermaid"><code>',
    ):
        assert OUTSIDE.search(text), text
    assert not OUTSIDE.search('<a href="https://host">a</a> <link rel="icon" href="a.png"> url(data:image/svg+xml)')


@pytest.mark.slow
def test_a_search_finds_the_answers(site: Path) -> None:
    """The search is the theme's own program, which a browser would run."""
    require("node")
    index = json.loads((site / "search/search_index.json").read_text())["docs"]
    texts = {part["location"]: re.sub(r"<[^>]+>", "", part["text"]) for part in index}
    for (question, (page, answer)), found in zip(QUESTIONS.items(), search(site, *QUESTIONS), strict=True):
        pages = list(dict.fromkeys(location.partition("#")[0] for location in found))
        assert page in pages[:2], (question, pages)
        answers = [texts[location] for location in found if location.partition("#")[0] == page]
        assert any(answer in text for text in answers), (question, answers)


@pytest.mark.slow
def test_a_search_finds_nothing_where_there_is_nothing(site: Path) -> None:
    require("node")
    assert search(site, "检查鱼", "鱼", "zymurgy") == [[], [], []]


def search(site: Path, *queries: str) -> list[list[str]]:
    """Return the sections that each query finds, best first."""
    argv = ["node", Path(__file__).with_name("search.js"), site, *queries]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_a_broken_link_a_missing_anchor_and_a_page_outside_of_the_index_are_errors(tmp_path: Path) -> None:
    project = tmp_path / "a project"
    shutil.copytree(ROOT / "docs", project / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("fsdpctl", "mkdocs.yml", "CHANGELOG.md", "CONTRIBUTING.md", "examples", "cluster_profiles"):
        (project / name).symlink_to(ROOT / name)
    (project / "docs/lost.md").write_text("# Lost\n")
    with (project / "docs/data.md").open("a") as page:
        page.write("[a](nowhere.md) [b](jobs.md#nothing) [c](../nofile.py)\n\n```mermaid\nflowchart\n```\n")
    done = build(project, tmp_path / "site")
    assert done.returncode == 1
    for problem in ("'nowhere.md'", "'jobs.md#nothing'", "'../nofile.py'", "lost.md", "'diagrams/"):
        assert problem in done.stderr, done.stderr
