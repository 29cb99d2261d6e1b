"""Find and fetch checkpoints on a run's hosts without a shared disk, for commands of the user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fsdpctl.backends.fanout import HostError, fan_out
from fsdpctl.backends.ssh.candidates import find_file_hosts
from fsdpctl.backends.ssh.hosts import read_dropped
from fsdpctl.backends.ssh.older_plan import with_hosts
from fsdpctl.backends.ssh.sync.host_files import HostFiles
from fsdpctl.backends.ssh.transport.answer import module_argv, read_answer
from fsdpctl.backends.ssh.transport.link import Link
from fsdpctl.backends.ssh.transport.ssh_config import target_of
from fsdpctl.contract.formats.lease import held, lease_of
from fsdpctl.contract.formats.manifest import Manifest
from fsdpctl.contract.paths import CHECKPOINT_MANIFEST, RunPaths, checkpoint_name
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.node.queries.checkpoint_copies import HostCopy
from fsdpctl.runs.store import read_record

ANSWER_S = 60.0
SLOWEST_BYTES_PER_S = 10 * 2**20
"""The slowest expected disk, when files are read or deleted."""


class SshCopyHosts:
    """All hosts that may have checkpoints of a run, also those that were replaced or are not used any more."""

    def __init__(self, run: RunPaths, plan: LaunchPlan) -> None:
        plan = with_hosts(run, plan)
        most = max(submission.nodes for submission in read_record(run).submissions)
        hosts = find_file_hosts(plan, read_dropped(run), most)
        self._run, self._plan = run, plan
        self._links = {node.id: Link(target_of(node, plan)) for node in hosts}
        self.unreachable: dict[str, str] = {}  # hosts that gave no answer, and why; they are not asked again

    def ask(self, query: str, *names: str, num_bytes: int = 0) -> dict[str, tuple[HostCopy, ...]]:
        """Return the answers of `fsdpctl.node.queries.checkpoint_copies`, by host; only of hosts that answer."""
        argv = module_argv(
            self._plan, self._run, "fsdpctl.node.queries.checkpoint_copies", query, str(self._run.root), *names
        )
        limit_s = ANSWER_S + num_bytes / SLOWEST_BYTES_PER_S

        def ask_one(host: str) -> tuple[HostCopy, ...]:
            link = self._links[host]
            return read_answer(tuple[HostCopy, ...], link.run(argv, timeout_s=limit_s), link.target, self._plan)

        results = fan_out([host for host in self._links if host not in self.unreachable], ask_one)
        self.unreachable |= {result.item: str(result.error) for result in results if result.error}
        return {result.item: result.value for result in results if result.value is not None}

    def fetch(self, host: str, manifest: Manifest, into: Path) -> Path:
        """Copy a checkpoint's files here, unverified. Raise HostError."""
        name = checkpoint_name(manifest.step)
        there, here = self._run.checkpoints / name, into / name
        here.mkdir(mode=0o700)
        files = HostFiles(self._links[host], ANSWER_S)
        try:
            with self._leased(host, there):
                for file in files.files(there).keys() & {CHECKPOINT_MANIFEST, *manifest.files}:
                    files.fetch(there / file, here / file)
        finally:
            files.close()
        return here

    @contextmanager
    def _leased(self, host: str, directory: Path) -> Iterator[None]:
        """Hold a lease on a checkpoint on a host, through a session of its own."""
        files, path = HostFiles(self._links[host], ANSWER_S), lease_of(directory)
        try:
            with held(lambda: files.write(path, b""), lambda: files.remove(path), HostError):
                yield
        finally:
            files.close()


def open_copy_hosts(run: RunPaths, plan: LaunchPlan) -> SshCopyHosts:
    return SshCopyHosts(run, plan)
