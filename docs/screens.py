"""Make the screens in docs/screens/ from real runs: `python -m docs.screens [DIRECTORY]`, in a minute or two.

On a machine with a GPU they show it, too. CI does not compare them: numbers differ from run to run.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from fsdpctl.cli.app import COMMANDS
from fsdpctl.node.checks.smi import visible_gpus

COLUMNS = 100
SVG = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Without fonts from the network: a page shows its own monospaced one."""
FSDPCTL = [sys.executable, "-P", "-m", "fsdpctl"]
FAILS = """\
import os
import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 1:
    weights = [0.5, 0.5]
    print(weights[int(os.environ["WORLD_SIZE"])])
dist.barrier()
"""
FAILING_JOB = "name: finetune\nnodes: 2\nrestarts: 1\nentrypoint: {script: finetune.py}\n"


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fsdpctl-") as temporary:
        work = Path(temporary)
        env = {**os.environ, "FSDPCTL_HOME": str(work / "home"), "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
        (work / "finetune.py").write_text(FAILS)
        (work / "finetune.yaml").write_text(FAILING_JOB)
        small = ["--set", "trainer.steps=12", "--name", "llm-check", "--follow"]
        ask(work, env, "submit", "llm-tiny", *small)
        ask(work, env, "submit", "finetune.yaml", "--profile", "local", "--follow")
        layout = ["--nodes", "1"] if visible_gpus() else ["--nodes", "2", "--procs-per-node", "2"]
        saves = ["--set", "trainer.steps=4000", "--set", "trainer.checkpoint.every_steps=10"]
        run = json.loads(ask(work, env, "submit", "llm-tiny", *layout, *saves, "--json"))
        try:
            wait_for_steps(Path(run["run_dir"]) / "metrics.jsonl", 25)
            save(directory / "top.svg", "fsdpctl top", screen(work, env, "top", "--once"))
            save(directory / "status.svg", "fsdpctl status", screen(work, env, "status"))
            save(directory / "ls.svg", "fsdpctl ls", screen(work, env, "ls"))
            save(directory / "events.svg", "fsdpctl events finetune", screen(work, env, "events", "finetune"))
            if "explain" in COMMANDS:
                save(directory / "explain.svg", "fsdpctl explain finetune", screen(work, env, "explain", "finetune"))
        finally:
            ask(work, env, "cancel", run["run_id"])


def ask(work: Path, env: Mapping[str, str], *words: str) -> str:
    """Run a command and return its output; a run that fails is one of the screens."""
    return subprocess.run([*FSDPCTL, *words], cwd=work, env=env, stdout=subprocess.PIPE, text=True, check=False).stdout


def screen(work: Path, env: Mapping[str, str], *words: str) -> str:
    """Return what a command prints to a terminal, with its colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    process = subprocess.Popen([*FSDPCTL, *words], cwd=work, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    printed = b""
    try:
        while block := os.read(ours, 65536):
            printed += block
    except OSError:  # how Linux reports that the other side is closed
        pass
    process.wait()
    return printed.decode().replace("\r\n", "\n").replace(str(work), "/home/me")


def save(path: Path, title: str, printed: str) -> None:
    """Write a screen as SVG."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    console.print(Text.from_ansi(printed))
    console.save_svg(str(path), title=f"$ {title}", code_format=SVG)


def wait_for_steps(metrics: Path, count: int, limit_s: float = 600.0) -> None:
    """Wait until the run has made so many steps."""
    deadline = time.monotonic() + limit_s
    while not metrics.exists() or metrics.read_text().count("\n") < count:
        if time.monotonic() > deadline:
            raise SystemExit(f"no {count} steps in {limit_s:.0f} s")
        time.sleep(0.5)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "screens")
