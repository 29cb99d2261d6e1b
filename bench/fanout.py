"""One command on many hosts: fsdpctl beside clush and pdsh, in turns, in one run on one machine.

    python -m bench.fanout [--hosts 128] [--rounds 3]

Root on Linux with OpenSSH, iproute2, clush and pdsh. One sshd with its default MaxStartups answers on all addresses, in
a network namespace: every connection is a real one, every key exchange is paid for on these same cores.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fsdpctl.backends.fanout import fan_out
from fsdpctl.backends.ssh.transport.link import Link
from fsdpctl.backends.ssh.transport.ssh_config import Target
from tests.testbed.ssh_hosts import Lan

FIRST = 101
WINDOW = 64
TOOLS = {
    "clush": ["clush", "-S", "-f", str(WINDOW), "-w"],
    "pdsh": ["pdsh", "-S", "-R", "ssh", "-f", str(WINDOW), "-w"],
}


def addresses(count: int) -> list[str]:
    return [f"10.77.0.{FIRST + n}" for n in range(count)]


def measure_ours(count: int) -> dict[str, float]:
    """Measure cold connections, then a second command on them."""
    links = [Link(Target(address, address)) for address in addresses(count)]
    seconds = []
    for _ in range(2):
        started = time.monotonic()
        results = fan_out(links, lambda link: link.run(["true"]), WINDOW)
        seconds.append(time.monotonic() - started)
        failed = sum(result.error is not None for result in results)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"cold_s": seconds[0], "second_s": seconds[1], "failed": failed, "peak_mib": peak_mib}


def measure_tool(tool: str, count: int) -> dict[str, float]:
    hosts = ",".join(addresses(count))
    started = time.monotonic()
    done = subprocess.run([*TOOLS[tool], hosts, "true"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    seconds = time.monotonic() - started
    failed = [line for line in done.stderr.splitlines() if "exit code 255" in line]
    return {"cold_s": seconds, "failed": len(failed)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--hosts", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", choices=["ours", *TOOLS], help=argparse.SUPPRESS)  # on the testbed's login host
    args = parser.parse_args()
    if args.measure:
        found = measure_ours(args.hosts) if args.measure == "ours" else measure_tool(args.measure, args.hosts)
        print(json.dumps(found))
        return
    rounds = _run_rounds(args.hosts, args.rounds)
    for tool, found in rounds.items():
        medians = {key: round(statistics.median(one[key] for one in found), 2) for key in found[0]}
        print(json.dumps({"tool": tool, "hosts": args.hosts, "rounds": args.rounds, "median": medians, "all": found}))


def _run_rounds(hosts: int, rounds: int) -> dict[str, list[dict[str, float]]]:
    found: dict[str, list[dict[str, float]]] = {tool: [] for tool in ("ours", *TOOLS)}
    with tempfile.TemporaryDirectory() as directory:
        (shared := Path(directory, "shared")).mkdir()
        (root := Path(directory, "lan")).mkdir()
        lan = Lan(root, shared)
        try:
            node, login = lan.nodes[0], lan.login
            for address in addresses(hosts):
                node.run("ip", "address", "add", f"{address}/24", "dev", "e0")
            key = " ".join((node.dir / "host_key.pub").read_text().split()[:2])
            (login.home / ".ssh" / "known_hosts").write_text(f"10.77.0.* {key}\n")
            for _ in range(rounds):
                for tool, results in found.items():
                    argv = [sys.executable, "-m", "bench.fanout", "--measure", tool, "--hosts", str(hosts)]
                    command = login.command(*argv, cwd=Path(__file__).parents[1])
                    results.append(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
        finally:
            lan.close()
    return found


if __name__ == "__main__":
    main()
