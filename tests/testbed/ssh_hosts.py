"""Real SSH hosts on one machine: each with its own address, name, process table, boot id, /tmp, home and sshd.

A host is a process in fresh network, PID, UTS and mount namespaces, joined to the others by a virtual switch that is
a namespace too: nothing of it is seen outside, two test sessions never connect, and it all ends with its processes.
One more host, `login`, is where the CLI runs, so that it can be cut off like any other.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

from tests.services import require

HOST_SCRIPT = Path(__file__).with_name("ssh_host.sh")
SOFTWARE = (str(Path(__file__).parents[2]), sys.prefix)
"""What every host has: the checkout, and the environment that runs the tests."""
NUM_HOSTS = 4
T = TypeVar("T")
# The kernel ends the child when pytest dies, however it dies.
_TIED = ["setpriv", "--pdeathsig", "KILL"]


class Host:
    """One host: `boot` and `die` as often as a test likes."""

    def __init__(self, lan: Lan, name: str, address: str) -> None:
        self.lan, self.name, self.address = lan, name, address
        self.dir = lan.root / name
        for part in ("home/.ssh", "tmp", "var-tmp"):
            (self.dir / part).mkdir(parents=True)
        (self.dir / "tmp").chmod(0o1777)
        make_key(self.dir / "host_key", f"host key of {name}")
        shutil.copy(lan.user_key.with_suffix(".pub"), self.dir / "authorized_keys")
        (self.dir / "passwd").write_text(
            f"root:x:0:0:root:{self.dir}/home:/bin/bash\n"
            "sshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
            f"other:x:4242:65534::{self.dir}/tmp:/bin/bash\n"
            "plain:x:4243:65534::/tmp:/bin/bash\n"  # may log in
        )
        self.log = self.dir / "sshd.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.boot()

    @property
    def home(self) -> Path:
        return self.dir / "home"

    @property
    def init(self) -> int:
        """The pid, seen from outside, of the host's process 1."""
        assert self._process is not None
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children")
        return int(wait_until(lambda: children.read_text().split(), f"{self.name} to start")[0])

    def boot(self) -> None:
        (self.dir / "boot_id").write_text(f"{uuid.uuid4()}\n")
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                [
                    *_TIED,
                    *("unshare", "--net", "--pid", "--uts", "--mount", "--fork", "--mount-proc", "--kill-child"),
                    *(str(HOST_SCRIPT), self.name, self.address, str(self.dir), str(self.lan.shared)),
                    *SOFTWARE,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.lan.connect(self)
        wait_until(lambda: b"Server listening on 0.0.0.0" in self.log.read_bytes(), f"sshd of {self.name}", self.log)

    def die(self) -> None:
        """Lose power: no process is notified, no connection is closed."""
        self.pull_cable()
        self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()  # and, through --kill-child, process 1 and all others
            self._process.wait()
            self._process = None
            self.lan.run("sh", "-c", f"exec 2>&-; ip link delete to-{self.name} || ! ip link show to-{self.name}")
        self.log.unlink(missing_ok=True)

    @property
    def is_up(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def pull_cable(self) -> None:
        self.lan.run("ip", "link", "set", f"to-{self.name}", "down")

    def plug_cable(self) -> None:
        self.lan.run("ip", "link", "set", f"to-{self.name}", "up")

    def command(self, *argv: str, cwd: Path | str = "/") -> list[str]:
        """The words that run `argv` on this host, without ssh."""
        enter = ("nsenter", "--target", str(self.init), "--net", "--pid", "--uts", "--mount", f"--wdns={cwd}", "--")
        return [*enter, "env", f"HOME={self.home}", *argv]

    def run(self, *argv: str, env: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(self.command(*argv), capture_output=True, text=True, env=env, timeout=60)
        assert done.returncode == 0, f"{self.name}: {argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def processes(self) -> str:
        """The host's own process list, without sshd and the ps itself."""
        listing = self.run("ps", "-eo", "pid,user,args", "--no-headers")
        return "\n".join(line for line in listing.splitlines() if "sshd" not in line and "ps -eo" not in line)


class Lan:
    """A switch, `login` and the hosts node1, node2, ..."""

    def __init__(self, root: Path, shared: Path) -> None:
        self.root, self.shared = root, shared
        self.user_key = root / "user_key"
        make_key(self.user_key, "the user's key")
        self._switch = subprocess.Popen([*_TIED, "unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL)
        own = Path("/proc/self/ns/net").readlink()
        switch = Path(f"/proc/{self._switch.pid}/ns/net")
        wait_until(lambda: switch.readlink() != own, "the switch")
        self.run("ip", "link", "add", "br0", "type", "bridge")
        self.run("ip", "link", "set", "br0", "up")
        self.nodes = [Host(self, f"node{n}", f"10.77.0.{n}") for n in range(1, NUM_HOSTS + 1)]
        self.login = Host(self, "login", "10.77.0.254")
        shutil.copy(self.user_key, self.login.home / ".ssh" / "id_ed25519")
        self.know(*self.nodes)

    def run(self, *argv: str) -> None:
        """Run a command in the switch's network namespace."""
        subprocess.run(["nsenter", "--target", str(self._switch.pid), "--net", "--", *argv], check=True, timeout=30)

    def connect(self, host: Host) -> None:
        name = f"to-{host.name}"
        ends = ("netns", str(self._switch.pid), "type", "veth", "peer", "name", "e0", "netns", str(host.init))
        subprocess.run(["ip", "link", "add", name, *ends], check=True, timeout=30)
        self.run("ip", "link", "set", name, "master", "br0", "up")

    def limit(self, rate: str, *hosts: Host, device: str = "e0") -> None:
        """Limit what hosts send, each on its own."""
        for host in hosts:
            shaped = ("root", "tbf", "rate", rate, "burst", "64kb", "latency", "200ms")
            host.run("tc", "qdisc", "replace", "dev", device, *shaped)

    def add_slow_link(self, rate: str, one: Host, other: Host) -> None:
        """Give two hosts a slow cable of their own: they send to each other over it, and to all others as before."""
        ends = ("netns", str(one.init), "type", "veth", "peer", "name", "slow0", "netns", str(other.init))
        subprocess.run(["ip", "link", "add", "slow0", *ends], check=True, timeout=30)
        for here, there in ((one, other), (other, one)):
            here.run("ip", "link", "set", "slow0", "up")
            here.run("ip", "route", "add", there.address, "dev", "slow0", "src", here.address)
        self.limit(rate, one, other, device="slow0")

    def know(self, *hosts: Host) -> None:
        """Put exactly these hosts into the user's known_hosts."""
        lines = [f"{host.address} {(host.dir / 'host_key.pub').read_text()}" for host in hosts]
        (self.login.home / ".ssh" / "known_hosts").write_text("".join(lines))

    def repair(self) -> None:
        """Bring everything back to how a test expects it."""
        for host in (*self.nodes, self.login):
            if not host.is_up:
                host.boot()
            host.plug_cable()
            host.run("sh", "-c", "kill -KILL -1 || true")  # all but process 1, sshd, and this shell
            host.run("sh", "-c", "exec 2>&-; tc qdisc delete dev e0 root; ip link delete slow0; true")
        self.know(*self.nodes)
        (self.login.home / ".ssh" / "config").unlink(missing_ok=True)

    def close(self) -> None:
        for host in (*self.nodes, self.login):
            host._end()
        self._switch.kill()
        self._switch.wait()


@pytest.fixture(scope="session")
def ssh_lan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lan]:
    require("sshd")
    base = tmp_path_factory.getbasetemp()
    lan = Lan(tmp_path_factory.mktemp("lan"), base)
    yield lan
    lan.close()


@pytest.fixture
def lan(ssh_lan: Lan) -> Iterator[Lan]:
    """Four hosts and `login`, all up, connected and known. pytest's temporary directories are their shared disk."""
    ssh_lan.repair()
    yield ssh_lan
    ssh_lan.repair()


def make_key(path: Path, comment: str) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)], check=True)


def wait_until(condition: Callable[[], T], what: str, log: Path | None = None, limit_s: float = 15) -> T:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        try:
            if found := condition():
                return found
        except FileNotFoundError:
            pass
        time.sleep(0.01)
    raise AssertionError(f"waited {limit_s} s for {what}" + (f"\n{log.read_text()}" if log else ""))
