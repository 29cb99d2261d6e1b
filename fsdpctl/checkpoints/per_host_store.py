"""Checkpoints where nodes share no disk: each host has its own copies, and this machine has their manifests."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fsdpctl.backends.fanout import HostError
from fsdpctl.backends.table import get_backend
from fsdpctl.checkpoints.listing import Stored, Taken, choose_listed, examine, list_checkpoints, read_stored
from fsdpctl.contract.formats.manifest import choose_committed
from fsdpctl.contract.formats.removal import remove_checkpoint
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import LaunchError, RunFailed, UsageError
from fsdpctl.node.queries.checkpoint_copies import HostCopy


class PerHostStore:
    """A `CheckpointStore` spread over hosts."""

    def __init__(self, run: RunPaths, plan: LaunchPlan) -> None:
        self._run = run
        self._hosts = get_backend(plan.backend).open_copy_hosts(run, plan)
        self._not_removed: list[str] = []

    def read(self) -> list[Stored]:
        if not (answers := self._hosts.ask("list")):
            raise LaunchError("\n".join(self.errors()))
        return merge(self._run.checkpoints, list_checkpoints(self._run), answers)

    def examine(self, stored: Stored) -> Stored:
        size = stored.manifest.num_bytes if stored.manifest else 0
        answers = self._hosts.ask("verify", stored.path.name, num_bytes=size)
        copies = _by_host(stored.path.name, answers)
        is_gone = not copies and any(host in answers for host in stored.copies)
        return replace(_merge_one(stored.path, stored, copies), is_gone=is_gone)

    def remove(self, stored: Stored) -> list[str]:
        size = stored.manifest.num_bytes if stored.manifest else 0
        left = []
        for host, copies in self._hosts.ask("remove", stored.path.name, num_bytes=size).items():
            self._not_removed += [f"{copy.name} on {host}: {copy.problem}" for copy in copies if copy.problem]
            left += [f"{host}:{copy.left}" for copy in copies if copy.left]
        if stored.path.exists():
            remove_checkpoint(stored.path)
        return left

    @contextmanager
    def take(self, step: int | None, near: Path) -> Iterator[Taken]:
        with _directory(near) as directory:
            yield self._take_whole(step, directory)

    def _take_whole(self, step: int | None, into: Path) -> Taken:
        """Fetch the newest whole one. Hosts may remove one before it is leased: there is a newer one then."""
        failed: dict[str, list[str]] = {}
        while True:
            listed = choose_listed(self._run, self.read(), step)
            found = [stored for stored in listed if stored.path.name not in failed]
            if not found:
                problems = [problem for each in failed.values() for problem in each]
                raise RunFailed("\n".join([*problems, *self.errors()]))
            fetched, problems = self._fetch_whole(found[0], into)
            if fetched is not None:
                return Taken(fetched, tuple(stored.path.name for stored in listed if stored.path.name in failed))
            failed[found[0].path.name] = problems

    def _fetch_whole(self, stored: Stored, into: Path) -> tuple[Stored | None, list[str]]:
        """Return the first whole copy, fetched; or None, and what is wrong with each."""
        problems = list(stored.problems)
        for host in stored.hosts:
            fetched = self._fetch(stored, host, into)
            if fetched.broken is None:
                return fetched, []
            problems.append(f"{stored.path.name} on {host}: {fetched.broken}")
            shutil.rmtree(fetched.path)
        return None, problems

    def _fetch(self, stored: Stored, host: str, into: Path) -> Stored:
        assert stored.manifest is not None
        if (free := shutil.disk_usage(into).free) < stored.manifest.num_bytes:
            needed = f"{stored.path.name} has {stored.manifest.num_bytes / 1e9:.2f} GB"
            raise UsageError(
                f"{needed}, but {into.parent} has only {free / 1e9:.2f} GB free", hint="choose another --out"
            )
        try:
            return examine(read_stored(self._hosts.fetch(host, stored.manifest, into)))
        except HostError as error:
            return Stored(into / stored.path.name, None, str(error))

    def errors(self) -> list[str]:
        return [*self._hosts.unreachable.values(), *self._not_removed]


@contextmanager
def _directory(near: Path) -> Iterator[Path]:
    try:
        temporary = Path(tempfile.mkdtemp(prefix=".fsdpctl-", dir=near))
    except OSError as error:
        raise UsageError(f"{near}: {error.strerror}", hint="choose another --out") from None
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def merge(root: Path, known: Sequence[Stored], answers: Mapping[str, Sequence[HostCopy]]) -> list[Stored]:
    """Merge the manifests on this machine with the hosts' answers: one entry per checkpoint, the newest first."""
    here = {stored.path.name: stored for stored in known}
    names = choose_committed({*here, *(copy.name for copies in answers.values() for copy in copies)})
    return [_merge_one(root / name, here.get(name), _by_host(name, answers)) for name in names[::-1]]


def _by_host(name: str, answers: Mapping[str, Sequence[HostCopy]]) -> dict[str, HostCopy]:
    return {host: copy for host, copies in answers.items() for copy in copies if copy.name == name}


def _merge_one(path: Path, known: Stored | None, copies: Mapping[str, HostCopy]) -> Stored:
    whole = [copy.manifest for copy in copies.values() if copy.manifest and not copy.problem]
    damaged = [copy.manifest for copy in copies.values() if copy.manifest]
    here = [known.manifest] if known and known.manifest else []
    # Of two attempts that saved the same step, the newer counts.
    manifest = max(whole or here or damaged, key=lambda manifest: manifest.attempt, default=None)
    problems = {host: copy.problem for host, copy in copies.items()}
    broken = "; ".join(f"{host}: {problem}" for host, problem in problems.items())
    return Stored(path, manifest, None if whole else broken or "no host that answers has it", problems)
