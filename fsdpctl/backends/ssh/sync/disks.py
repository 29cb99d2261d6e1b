"""Hosts that share no disk: what they get before an attempt, and what is seen of them while it goes on."""

from __future__ import annotations

from collections.abc import Mapping

from fsdpctl.backends.fanout import fan_out
from fsdpctl.backends.ssh.sync.file_sets import find_file_sets, run_files
from fsdpctl.backends.ssh.sync.mirror import Mirror
from fsdpctl.backends.ssh.sync.push import has_our_disk, push
from fsdpctl.backends.ssh.transport.link import Link
from fsdpctl.contract.formats.manifest import committed
from fsdpctl.contract.paths import AttemptPaths, RunPaths, step_of
from fsdpctl.contract.plan import LaunchPlan


class Disks:
    """The disks of one run's hosts."""

    def __init__(self, run: RunPaths) -> None:
        self._run = run
        self._attempt: AttemptPaths | None = None
        self._mirrors: dict[int, Mirror] = {}

    def push(self, links: Mapping[int, Link], plan: LaunchPlan) -> dict[int, str]:
        """Bring every host what ranks need; what is wrong with which, by rank."""
        loads = find_file_sets(self._run)

        def push_all(rank: int) -> bool:
            for load in loads:
                push(links[rank], plan, load)
            return has_our_disk(links[rank], plan, self._run)

        results = fan_out(list(links), push_all)
        problems = {result.item: str(result.error) for result in results if result.error}
        here = [result.item for result in results if result.value]
        if len(here) > 1:
            shared = f"has this very directory {self._run.root}, as others have: set shared_filesystem: true"
            problems |= {rank: f"{links[rank].target}: {shared}" for rank in here}
        return problems

    def push_back(self, link: Link, plan: LaunchPlan) -> None:
        """Bring a host only what its part of the run can be ended with. Raises HostError."""
        push(link, plan, run_files(self._run))

    def follow(self, attempt: AttemptPaths, links: Mapping[int, Link]) -> None:
        """Mirror what the nodes write in this attempt, from now on."""
        if self._attempt == attempt:
            return
        self.leave()
        self._attempt = attempt
        self._mirrors = {rank: Mirror(link, self._run, attempt, rank, len(links)) for rank, link in links.items()}
        for mirror in self._mirrors.values():
            mirror.start()

    def leave(self) -> None:
        """Look a last time at every node."""
        fan_out(list(self._mirrors.values()), Mirror.close)
        self._attempt, self._mirrors = None, {}

    def find_silent(self, timeout_s: float) -> int | None:
        """A node that can be seen, that has not ended, and whose heartbeat stands still."""
        for rank, mirror in self._mirrors.items():
            if not mirror.has_ended and mirror.heartbeat_age.seconds() > timeout_s:
                return rank
        return None

    def has_checkpoints(self) -> bool:
        return bool(self._newest())

    def find_loss(self, saved: Mapping[str, int]) -> str | None:
        """Whether the newest checkpoint lies on none of these hosts; `saved`: the newest step of each."""
        newest = self._newest()
        if newest <= max(saved.values(), default=0):
            return None
        return f"the checkpoint of step {newest} lies on none of {', '.join(saved)}: its host must take part"

    def _newest(self) -> int:
        return max(map(step_of, committed(self._run.checkpoints)), default=0)
