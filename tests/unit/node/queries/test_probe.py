"""The node side of doctor: real ports, real files, real interpreters."""

from __future__ import annotations

import os
import socket
import sys
import threading
from pathlib import Path

import pytest

from fsdpctl.contract.findings import Check, Result
from fsdpctl.node.checks import ports as probe_ports
from fsdpctl.node.checks.listeners import find_listener
from fsdpctl.node.checks.ports import Server, reach_ports
from fsdpctl.node.checks.versions import read_driver, read_versions
from fsdpctl.node.os.addresses import is_free
from fsdpctl.node.queries.probe import nearest_directory, read_tokens

PORTS = (23_881, 23_882)


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_ports, "START_S", 0.2)
    monkeypatch.setattr(probe_ports, "SERVE_S", 20.0)


def test_several_nodes_reach_all_ports_and_the_server_ends() -> None:
    server = Server(PORTS, "token", num_clients=3)
    found: list[dict[int, str]] = []
    clients = [
        threading.Thread(target=lambda: found.append(reach_ports("127.0.0.1", PORTS, "token", ""))) for _ in range(3)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    server.wait()
    assert server.opened == PORTS
    assert found == [{}, {}, {}]
    assert all(map(is_free, PORTS))


def test_a_refused_port_differs_from_another_program(hurry: None) -> None:
    with socket.create_server(("", PORTS[1])) as other:
        program = threading.Thread(target=lambda: other.accept()[0].sendall(b"SSH-2.0"))
        program.start()
        assert reach_ports("127.0.0.1", PORTS, "token", "") == {
            PORTS[0]: "refused",
            PORTS[1]: "another program answers",
        }
        program.join()


def test_connections_are_made_from_the_chosen_interface(hurry: None) -> None:
    server = Server(PORTS, "token", num_clients=1)
    assert reach_ports("127.0.0.1", PORTS, "token", "192.0.2.7").keys() == set(PORTS), "not an address of this host"
    assert reach_ports("127.0.0.1", PORTS, "token", "127.0.0.1") == {}
    server.wait()


def test_a_port_that_was_taken_meanwhile_is_not_listed_as_opened() -> None:
    with socket.create_server(("", PORTS[0])):
        server = Server(PORTS, "token", num_clients=0)
        server.wait()
    assert server.opened == PORTS[1:]


def test_the_process_that_holds_a_port_is_found() -> None:
    with socket.create_server(("", PORTS[0])):
        holder = find_listener(PORTS[0])
    assert holder is not None
    assert holder.startswith(f"pid {os.getpid()} (")
    assert find_listener(PORTS[0]) is None


def test_the_nearest_existing_directory_is_used(tmp_path: Path) -> None:
    assert nearest_directory(f"{tmp_path}/a/b/.probe") == tmp_path / ".probe"
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert nearest_directory(f"{tmp_path}/a/b/.probe") == tmp_path / "a" / "b" / ".probe"


def test_tokens_are_read_of_the_nodes_that_wrote_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fsdpctl.node.queries.probe.TOKENS_S", 0.2)
    for rank in (0, 2):
        (tmp_path / f"node-{rank}").write_text(str(rank))
    assert read_tokens(tmp_path, (0, 1, 2)) == (0, 2)


@pytest.mark.slow
def test_versions_come_from_the_python_of_the_ranks() -> None:
    found, problems = read_versions(sys.executable, dict(os.environ))
    assert found.python == ".".join(map(str, sys.version_info[:3]))
    assert found.torch is not None or [problem.check for problem in problems] == [Check.TORCH]


@pytest.mark.parametrize(
    ("torch", "reason"),
    [
        ("raise OSError('libcudart.so.13: cannot open shared object file')", "OSError: libcudart.so.13: cannot open"),
        ("import os; os._exit(3)", "exit code 3"),
        ("import os; os.write(2, b'boom'); os.kill(os.getpid(), 9)", "exit code -9: boom"),
    ],
)
def test_a_failed_import_of_torch_gives_the_reason(tmp_path: Path, torch: str, reason: str) -> None:
    (tmp_path / "torch.py").write_text(torch)
    found, (problem,) = read_versions(sys.executable, {**os.environ, "PYTHONPATH": str(tmp_path)})
    assert found.torch is None
    assert (problem.check, problem.result) == (Check.TORCH, Result.FAIL)
    assert reason in problem.reason


def test_output_of_the_import_of_torch_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(
        "import types\nprint('hello', end='')\n__version__ = '9.9'\nversion = types.SimpleNamespace(cuda='13.0')\n"
        "cuda = types.SimpleNamespace(nccl=types.SimpleNamespace(version=lambda: (2, 29, 3)))\n"
    )
    found, problems = read_versions(sys.executable, {**os.environ, "PYTHONPATH": str(tmp_path)})
    assert [problem for problem in problems if problem.check is not Check.BYTE_CODE] == []
    assert (found.torch, found.cuda, found.nccl) == ("9.9", "13.0", "2.29.3")


def test_the_driver_version_is_that_of_the_loaded_driver(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("580.95.05\n")
    assert read_driver(tmp_path / "version") == "580.95.05"
    assert read_driver(tmp_path / "missing") is None
