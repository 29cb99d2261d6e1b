"""The keeper of a node of a hold: it starts fork servers, which outlive the process that asked for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fsdpctl.contract.paths import HoldPaths
from fsdpctl.node.agent.fork_server import ForkServer
from fsdpctl.node.os import processes
from fsdpctl.node.warm.messages import Request
from tests.backends.harness import wait_for

ROOT = Path(__file__).parents[4]
PROGRAM = "import os\ndef main(argv): print(os.getcwd(), os.environ['COLOUR'], argv)\n"


def test_a_fork_server_is_a_child_of_the_keeper(tmp_path: Path) -> None:
    hold = HoldPaths(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}", "COLOUR": "red", "SLURM_NODEID": "3"}
    keeper = subprocess.Popen([sys.executable, "-m", "fsdpctl.node.warm.keeper", str(tmp_path)], env=env)
    try:
        wait_for(hold.keeper(3).exists, 30, "the keeper")
        command = [sys.executable, "-u", "-m", "fsdpctl.node.warm"]
        with open(tmp_path / "log", "ab") as log:
            how = (hold.fork_server(3), "key", command, env, str(tmp_path), log.fileno(), 60.0, hold.keeper(3))
            server = ForkServer.start(*how)
            assert keeper.pid in processes.ancestors(server.pid) and server.pid != keeper.pid
            request = Request("program", ["word"], {**env, "COLOUR": "green"}, str(tmp_path), ["python"])
            child = server.start_torchrun(request, log.fileno(), lambda: None)
            assert child is not None and child.wait(10) == 0
        assert (tmp_path / "log").read_text() == f"{tmp_path} green ['word']\n"
        server.detach()
        found = ForkServer.find(hold.fork_server(3), "key")
        assert found is not None
        hold.fork_server(3).unlink()
        found.detach()
        wait_for(lambda: not processes.is_alive(server.record.process), 30, "its end without a record")
    finally:
        keeper.kill()
        keeper.wait()


def test_without_a_keeper_the_agent_starts_it(tmp_path: Path) -> None:
    with open(tmp_path / "log", "ab") as log:
        command = [sys.executable, "-u", "-m", "fsdpctl.node.warm"]
        how = (tmp_path / "f.json", "key", command, dict(os.environ), str(tmp_path), log.fileno(), 60.0)
        server = ForkServer.start(*how, tmp_path / "keeper-0.json")
    assert os.getpid() in processes.ancestors(server.pid)
    server.end()
