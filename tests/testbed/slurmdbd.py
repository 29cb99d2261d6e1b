"""Accounting for the Slurm of the testbed: a slurmdbd, and a MariaDB that only it can reach."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services import require
from tests.testbed.slurm import SlurmCluster, free_ports, wait_until

_SYSTEM_TABLES = Path("/usr/share/mysql/mysql_system_tables.sql")
_FAST = ["--innodb-flush-method=nosync", "--innodb-doublewrite=0", "--innodb-log-file-size=8M"]

SLURMDBD = """\
DbdHost=localhost
DbdPort={port}
AuthType=auth/munge
AuthInfo=socket={dir}/munge.socket
SlurmUser={user}
StorageType=accounting_storage/mysql
StorageUser={user}
StorageLoc=accounts
PidFile={dir}/slurmdbd.pid
"""
CLUSTER = """
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={port}
AccountingStoragePass={dir}/munge.socket
"""


@pytest.fixture
def accounting(slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Accounts of the testbed's cluster while the test runs; gives their lines of slurm.conf."""
    require("slurmdbd")
    (port,) = free_ports(1)
    socket = _start_database(slurm, tmp_path_factory.mktemp("accounts"))
    config = slurm.root / "slurmdbd.conf"
    config.write_text(SLURMDBD.format(port=port, dir=slurm.root, user=slurm.user))
    config.chmod(0o600)
    slurm.start("slurmdbd", "slurmdbd", "-D", MYSQL_UNIX_PORT=str(socket))
    lines = CLUSTER.format(port=port, dir=slurm.root)
    slurm.configure(lines)  # by it sacctmgr finds the daemon; the controller hears of it when all is ready
    wait_until(lambda: "error" not in slurm.run("sacctmgr", "list", "cluster"), f"accounts; see {slurm.root}/log", 60)
    slurm.run("sacctmgr", "--immediate", "add", "cluster", "testbed")
    slurm.reconfigure(lines)
    yield lines
    slurm.reconfigure()
    for daemon in ("slurmdbd", "mariadbd"):
        slurm.kill(daemon, signal.SIGTERM)


def _start_database(slurm: SlurmCluster, data: Path) -> Path:
    """A database with only the tables that it needs itself: mariadb-install-db takes several times as long."""
    words = ["mariadbd", "--no-defaults", *_FAST, f"--user={slurm.user}", f"--datadir={data}"]
    tables = f"create database mysql;\nuse mysql;\n{_SYSTEM_TABLES.read_text()}"
    subprocess.run(
        [*words, "--bootstrap"], input=tables, text=True, capture_output=True, check=True, env=slurm.daemon_environment
    )
    socket = data / "socket"
    slurm.start("mariadbd", *words, f"--socket={socket}", "--skip-networking", "--skip-grant-tables")
    wait_until(socket.exists, f"the database to start; see {slurm.root}/log", 60)
    return socket
