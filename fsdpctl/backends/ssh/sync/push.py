"""Bring a run's files to a host that has a disk of its own: only what differs travels, and then all is compared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.backends.fanout import HostError
from fsdpctl.backends.ssh.sync.file_sets import SLOWEST_BYTES_PER_S, FileSet
from fsdpctl.backends.ssh.transport.answer import read_answer
from fsdpctl.backends.ssh.transport.link import Link
from fsdpctl.commands.setup_lines import with_setup
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.node.queries import receive_files

ANSWER_S = 60.0


@dataclass(frozen=True)
class Differences:
    """Files that a host lacks, and files that it should not have; or why it can receive nothing."""

    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    problem: str = ""


def push(link: Link, plan: LaunchPlan, load: FileSet) -> None:
    """Make the host's files equal to ours. Raises HostError."""
    lacks = _ask(link, plan, load, Differences())
    if not (lacks.missing or lacks.extra):
        return
    if load.whole:
        lacks = Differences(tuple(load.wanted), lacks.extra)
    lacks = _ask(link, plan, load, lacks)
    if wrong := [*lacks.missing, *lacks.extra]:
        raise HostError(f"{link.target}: {load.root}/{wrong[0]} differs from ours after it was copied")


def has_our_disk(link: Link, plan: LaunchPlan, run: RunPaths) -> bool:
    """Whether the host's run directory is this very one: nobody else has the supervisor's file."""
    mark = FileSet(run.root, receive_files.inventory(run.root, [run.supervisor.name]))
    return not _ask(link, plan, mark, Differences()).missing


def _ask(link: Link, plan: LaunchPlan, load: FileSet, lacks: Differences) -> Differences:
    files = [_announce(load.root / name, name) for name in lacks.missing]
    what = {"root": str(load.root), "wanted": load.wanted, "tops": load.tops}
    request = json.dumps({**what, "files": files, "remove": lacks.extra})
    argv = with_setup(("umask 077", *plan.setup), [plan.python, "-c", Path(receive_files.__file__).read_text()])
    limit_s = ANSWER_S + sum(size for _, _, size, _ in files) / SLOWEST_BYTES_PER_S + load.read_limit_s
    said = link.run(argv, _body(request, load.root, lacks.missing), limit_s)
    answer = read_answer(Differences, said, link.target, plan)
    if answer.problem:
        raise HostError(f"{link.target}: cannot take in {load.root}: {answer.problem}")
    return answer


def _announce(path: Path, name: str) -> tuple[str, int, int, str | None]:
    if path.is_symlink():
        return name, 0, 0, str(path.readlink())
    status = path.stat()
    return name, status.st_mode & 0o777, status.st_size, None


def _body(request: str, root: Path, names: Sequence[str]) -> Iterator[bytes]:
    yield request.encode() + b"\n"
    for name in names:
        if not (root / name).is_symlink():
            with open(root / name, "rb") as file:
                while block := file.read(receive_files.BLOCK):
                    yield block
