"""Run on `login`: one command on many hosts through `backends/ssh/transport/link.py`; what came of each, as JSON.

python -m tests.backends.ssh.probe TIMEOUT_S '[["name", "address", port], ...]' STDIN_MIB WORD...
"""

from __future__ import annotations

import json
import sys
import time

from fsdpctl.backends.base import NodeAnswer
from fsdpctl.backends.fanout import fan_out
from fsdpctl.backends.ssh.transport.link import Link
from fsdpctl.backends.ssh.transport.ssh_config import Target


def main(timeout_s: int, hosts: list[tuple[str, str, int]], stdin_mib: int, argv: list[str]) -> None:
    links = [Link(Target(name, address, port, connect_timeout_s=timeout_s)) for name, address, port in hosts]
    began: dict[Link, float] = {}
    ended: dict[Link, float] = {}

    def ask(link: Link) -> NodeAnswer:
        began.setdefault(link, time.monotonic())
        try:
            return link.run(argv, (bytes(1 << 20) for _ in range(stdin_mib)), timeout_s)
        finally:
            ended[link] = time.monotonic()

    results = fan_out(links, ask)
    for link in links:
        link.close()
    answers = [
        {
            "stdout": result.value.stdout if result.value else None,
            "error": str(result.error) if result.error else None,
            "began": began[result.item],
            "ended": ended[result.item],
        }
        for result in results
    ]
    print(json.dumps(answers))


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
