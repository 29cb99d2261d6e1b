"""The cost of the program around the training, on any machine: first output, listings, launches, and idle presence.

    python -m bench.cpu [--rounds 5] [words | scale | launch | presence | instructions ...]

Peers run in the same rounds: torchrun, and torchx where it is installed. On a busy machine seconds differ by factors:
look at the ratios, at the least processor time, and at the instructions, which are the same on any machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bench.cost import Cost, children_cpu_s, count_instructions, interleave, measure_cost, print_costs, print_table
from fsdpctl.contract.codec import read_json
from fsdpctl.contract.paths import NodePaths, RunPaths
from fsdpctl.contract.records import ProcessIdentity
from fsdpctl.node.os.processes import adopt_orphans

FSDPCTL = [sys.executable, "-m", "fsdpctl"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
RUNS = NODES = 1000
PRESENCE_S = 20.0

STAMP = "import os, pathlib, time; pathlib.Path(os.environ['STAMP']).write_text(repr(time.time()))\n"
JOB = "name: stamp\nentrypoint: {script: %s}\nprocs_per_node: 1\n"


def words(rounds: int) -> None:
    """Measure the commands that a user waits for."""
    commands = {
        "import typer, pydantic.main": [sys.executable, "-c", "import typer, pydantic.main"],
        "fsdpctl --help": [*FSDPCTL, "--help"],
        "fsdpctl submit llm-tiny --dry-run": [*FSDPCTL, "submit", "llm-tiny", "--dry-run"],
        "torchrun --help": [*TORCHRUN, "--help"],
    }
    if shutil.which("torchx"):
        commands["torchx --help"] = ["torchx", "--help"]
        commands["torchx run --dryrun"] = ["torchx", "run", "--dryrun", "-s", "local_cwd", "utils.echo"]
    print_costs("First output", interleave({name: _command(argv) for name, argv in commands.items()}, rounds))


def scale(rounds: int) -> None:
    """Measure listings of a thousand runs, and a dry run on a thousand nodes."""
    with _home():
        run = _submit(STAMP)
        _multiply(run)
        big = ["--nodes", str(NODES), "--procs-per-node", "1", "--set", f"trainer.batch.sequences={8 * NODES}"]
        commands = {
            "fsdpctl --help": [*FSDPCTL, "--help"],
            f"fsdpctl ls, {RUNS} runs": [*FSDPCTL, "ls", "--limit", str(RUNS)],
            f"fsdpctl submit --dry-run, {NODES} nodes": [*FSDPCTL, "submit", "llm-tiny", *big, "--dry-run"],
        }
        print_costs("A thousand", interleave({name: _command(argv) for name, argv in commands.items()}, rounds))


def launch(rounds: int) -> None:
    """Measure the time from the command to the first rank's Python, whose script only reads the clock.

    The processor time is that of all processes, to the end of the last.
    """
    adopt_orphans()
    with _home():

        def raw() -> Cost:
            Path("stamp.py").write_text(STAMP)
            return _until_stamp(lambda: subprocess.run([*TORCHRUN, "--standalone", "stamp.py"], check=True))

        works = {"torchrun": raw, "fsdpctl submit": lambda: _until_stamp(lambda: _submit(STAMP))}
        print_costs("To the first rank's Python", interleave(works, rounds))


def presence(rounds: int) -> None:
    """Measure processor and memory of agent and supervisor while a run is in progress."""
    with _home():
        run = _submit(f"import time; time.sleep({PRESENCE_S + 15})\n", wait=False)
        rank_log = run.attempt(1).node(0).rank_log(0)
        _await(rank_log.exists)
        node: NodePaths = run.attempt(1).node(0)
        pids = {"agent": read_json(ProcessIdentity, node.agent).pid}
        pids["supervisor"] = read_json(ProcessIdentity, run.supervisor).pid
        time.sleep(2)
        before = {name: _ticks(pid) for name, pid in pids.items()}
        time.sleep(PRESENCE_S)
        rows = []
        for name, pid in pids.items():
            share = (_ticks(pid) - before[name]) / os.sysconf("SC_CLK_TCK") / PRESENCE_S
            memory = _memory_mib(pid)
            print(json.dumps({"table": "presence", "what": name, "core": share, "mib": memory}))
            rows.append((name, f"{share:.2%}", f"{memory['Rss']:.0f}", f"{memory['Pss']:.0f}"))
        subprocess.run([*FSDPCTL, "cancel", run.root.name], check=True, stdout=subprocess.DEVNULL)
        print_table(
            "While a run is in progress", ("process", "of a core", "resident MiB", "its share of shared pages"), rows
        )


def instructions(rounds: int) -> None:
    """Count the instructions of commands, and of the imports of each process between `submit` and the first rank."""
    python = [sys.executable, "-c"]
    commands = {
        "python -c pass": [*python, "pass"],
        "import typer, pydantic, yaml": [*python, "import typer, yaml; from pydantic import BaseModel, Field"],
        "fsdpctl --help": [*FSDPCTL, "--help"],
        "fsdpctl submit llm-tiny --dry-run": [*FSDPCTL, "submit", "llm-tiny", "--dry-run"],
        "what the supervisor imports": [
            *python,
            "import fsdpctl.backends.detached.__main__, fsdpctl.backends.local.agents",
        ],
        "what an agent imports": [*python, "import fsdpctl.node.agent.__main__"],
        "what a rank imports": [*python, "import fsdpctl.node.agent.rank"],
    }
    with _home():
        _multiply(_submit(STAMP))
        commands[f"fsdpctl ls, {RUNS} runs"] = [*FSDPCTL, "ls", "--limit", str(RUNS)]
        rows = []
        for name, argv in commands.items():
            measure_cost(argv)  # compiles
            millions = count_instructions(argv) / 1e6
            print(json.dumps({"table": "instructions", "what": name, "millions": millions}))
            rows.append((f"`{name}`", f"{millions:,.0f}"))
    print_table("Instructions", ("what", "millions"), rows)


def _command(argv: list[str]) -> Callable[[], Cost]:
    return lambda: measure_cost(argv)


class _home(tempfile.TemporaryDirectory):  # type: ignore[type-arg]
    """An empty registry and project, as the current directory."""

    def __enter__(self) -> str:
        home = super().__enter__()
        os.environ.update(FSDPCTL_HOME=home, STAMP=f"{home}/stamp", PYTHONPATH=str(Path.cwd()))
        os.chdir(_made(Path(home, "project")))
        return str(home)


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def _submit(script: str, *, wait: bool = True) -> RunPaths:
    Path("stamp.py").write_text(script)
    Path("job.yaml").write_text(JOB % "stamp.py")
    done = subprocess.run([*FSDPCTL, "submit", "job.yaml", "--json"], stdout=subprocess.PIPE, check=True)
    run = RunPaths.of(json.loads(done.stdout)["run_dir"])
    if wait:
        _await(run.attempt(1).verdict.exists)
    return run


def _until_stamp(launch: Callable[[], object]) -> Cost:
    stamp = Path(os.environ["STAMP"])
    stamp.unlink(missing_ok=True)
    before, began = children_cpu_s(), time.time()
    launch()
    _await(stamp.exists)
    with suppress(ChildProcessError):  # until none is left
        while True:
            os.wait()
    return Cost(children_cpu_s() - before, float(stamp.read_text()) - began)


def _multiply(run: RunPaths) -> None:
    """Fill the registry as after a thousand such runs."""
    record = json.loads(run.record.read_text())
    for number in range(RUNS - 1):
        run_id = f"stamp-{number:04d}"
        copy = run.root.with_name(run_id)
        shutil.copytree(run.root, copy, ignore=shutil.ignore_patterns("code", "source"))
        RunPaths(copy).record.write_text(json.dumps({**record, "run_id": run_id}))
        Path(os.environ["FSDPCTL_HOME"], "registry", run_id).write_text(f"{copy}\n")


def _await(happened: Callable[[], bool], limit_s: float = 120) -> None:
    deadline = time.monotonic() + limit_s
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing happened within {limit_s} s")
        time.sleep(0.02)


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _memory_mib(pid: int) -> dict[str, float]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if line.startswith(("Rss:", "Pss:"))}


TABLES = {"words": words, "scale": scale, "launch": launch, "presence": presence}
if shutil.which("valgrind"):
    TABLES["instructions"] = instructions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], help="default: all")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed comes with its byte code
    root = Path.cwd()
    for name in given.tables or TABLES:
        TABLES[name](given.rounds)
        os.chdir(root)


if __name__ == "__main__":
    main()
