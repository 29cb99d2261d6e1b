"""Bring a run's files to a host that has a disk of its own: only what differs travels, and then all is compared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.launchers.agents import with_setup
from fsdpctl.launchers.fanout import HostError
from fsdpctl.launchers.ssh.answer import read_answer
from fsdpctl.launchers.ssh.io import Link
from fsdpctl.node import intake

ANSWER_S = 60.0
SLOWEST_BYTES_PER_S = 2**20


@dataclass(frozen=True)
class Intake:
    """What a host has of the run; or why it cannot take it in."""

    found: Mapping[str, str]
    problem: str


@dataclass(frozen=True)
class Difference:
    """What a host lacks, and what it has too much."""

    send: tuple[str, ...]
    remove: tuple[str, ...]


def compare(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Difference:
    return Difference(
        tuple(name for name, identity in ours.items() if theirs.get(name) != identity),
        tuple(name for name in theirs if name not in ours),
    )


def push(link: Link, plan: LaunchPlan, run: RunPaths) -> bool:
    """Make the host's copy of what ranks need equal to ours; False if that is this very directory. Raises HostError."""
    tops = [str(path.relative_to(run.root)) for path in (run.code, run.plan, run.trainer_config, run.secrets)]
    ours = intake.inventory(run.root, tops)
    mark = run.supervisor.name  # never sent: who has ours has our disk
    theirs = dict(_ask(link, plan, run.root, [*tops, mark], Difference((), ())))
    if theirs.pop(mark, None) in intake.inventory(run.root, [mark]).values():
        return False
    difference = compare(ours, theirs)
    if difference.send or difference.remove:
        theirs = dict(_ask(link, plan, run.root, tops, difference))
    if wrong := [*compare(ours, theirs).send, *compare(ours, theirs).remove]:
        raise HostError(f"{link.target}: {run.root}/{wrong[0]} differs from ours after it was copied")
    return True


def _ask(link: Link, plan: LaunchPlan, root: Path, tops: list[str], difference: Difference) -> Mapping[str, str]:
    files = [_announce(root / name, name) for name in difference.send]
    request = {"root": str(root), "tops": tops, "files": files, "remove": difference.remove}
    argv = with_setup(("umask 077", *plan.setup), [plan.python, "-c", Path(intake.__file__).read_text()])
    limit_s = ANSWER_S + sum(size for _, _, size, _ in files) / SLOWEST_BYTES_PER_S
    answer = link.run(argv, _body(json.dumps(request), root, difference.send), limit_s)
    taken = read_answer(Intake, answer, link.target, plan)
    if taken.problem:
        raise HostError(f"{link.target}: cannot take the run in: {taken.problem}")
    return taken.found


def _announce(path: Path, name: str) -> tuple[str, int, int, str | None]:
    if path.is_symlink():
        return name, 0, 0, str(path.readlink())
    status = path.stat()
    return name, status.st_mode & 0o777, status.st_size, None


def _body(request: str, root: Path, names: tuple[str, ...]) -> Iterator[bytes]:
    yield request.encode() + b"\n"
    for name in names:
        if not (root / name).is_symlink():
            with open(root / name, "rb") as file:
                while block := file.read(intake.BLOCK):
                    yield block
