"""Send a run's files to a host without a shared disk: only those that differ; then compare all."""

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
    """Files that a host misses, that it should not have, and that its ranks wrote; or why it can receive nothing."""

    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    problem: str = ""


def push(link: Link, plan: LaunchPlan, file_set: FileSet) -> tuple[str, ...]:
    """Make the host's files equal to those here; return those that stay as its ranks wrote them. Raise HostError."""
    differences = _ask(link, plan, file_set, Differences())
    if not (differences.missing or differences.extra):
        return differences.kept
    if file_set.whole:
        differences = Differences(tuple(file_set.wanted), differences.extra)
    differences = _ask(link, plan, file_set, differences)
    if wrong := [*differences.missing, *differences.extra]:
        raise HostError(f"{link.target}: {file_set.root}/{wrong[0]} differs after it was copied")
    return differences.kept


def shares_run_dir(link: Link, plan: LaunchPlan, run: RunPaths) -> bool:
    """Return whether the host's run directory is the one here: no other host has the supervisor's file."""
    supervisor = FileSet(run.root, receive_files.inventory(run.root, [run.supervisor.name]))
    return not _ask(link, plan, supervisor, Differences()).missing


def _ask(link: Link, plan: LaunchPlan, file_set: FileSet, differences: Differences) -> Differences:
    files = [_announce(file_set.root / name, name) for name in differences.missing]
    expected = {"root": str(file_set.root), "wanted": file_set.wanted, "tops": file_set.tops}
    expected["copied"] = dict(file_set.copied)
    request = json.dumps({**expected, "files": files, "remove": differences.extra})
    argv = with_setup(("umask 077", *plan.setup), [plan.host_python, "-c", Path(receive_files.__file__).read_text()])
    limit_s = ANSWER_S + sum(size for _, _, size, _ in files) / SLOWEST_BYTES_PER_S + file_set.read_limit_s
    output = link.run(argv, _body(request, file_set.root, differences.missing), limit_s)
    answer = read_answer(Differences, output, link.target, plan)
    if answer.problem:
        raise HostError(f"{link.target}: cannot receive {file_set.root}: {answer.problem}")
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
