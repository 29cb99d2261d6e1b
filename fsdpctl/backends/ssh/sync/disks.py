"""The files of a run on hosts without a shared disk: sent before an attempt, mirrored while it runs."""

from __future__ import annotations

from collections.abc import Mapping

from fsdpctl.backends.fanout import fan_out
from fsdpctl.backends.ssh.sync.file_sets import find_file_sets, run_files
from fsdpctl.backends.ssh.sync.mirror import Mirror
from fsdpctl.backends.ssh.sync.push import push, shares_run_dir
from fsdpctl.backends.ssh.transport.link import Link
from fsdpctl.contract.formats.manifest import committed
from fsdpctl.contract.paths import AttemptPaths, RunPaths, step_of
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.runs.events import add_event

SFTP_ANSWER_S = 60.0
"""As for any other request of a start."""


class Disks:
    """The disks of one run's hosts."""

    def __init__(self, run: RunPaths) -> None:
        self._run = run
        self._attempt: AttemptPaths | None = None
        self._mirrors: dict[int, Mirror] = {}

    def push(self, attempt: AttemptPaths, links: Mapping[int, Link], plan: LaunchPlan) -> dict[int, str]:
        """Send every host the files that ranks need; return rank -> problem."""
        file_sets = find_file_sets(self._run)

        def push_all(rank: int) -> bool:
            for file_set in file_sets:
                if kept := push(links[rank], plan, file_set):
                    add_event(attempt, f"{links[rank].target}: keeps what its ranks have written: {', '.join(kept)}")
            links[rank].open_files(SFTP_ANSWER_S).close()  # without it no mirror would show that the node has started
            return shares_run_dir(links[rank], plan, self._run)

        results = fan_out(list(links), push_all)
        problems = {result.item: str(result.error) for result in results if result.error}
        sharing = [result.item for result in results if result.value]
        if len(sharing) > 1:
            shared = f"has the same directory {self._run.root} as others: set shared_filesystem: true"
            problems |= {rank: f"{links[rank].target}: {shared}" for rank in sharing}
        return problems

    def push_back(self, link: Link, plan: LaunchPlan) -> None:
        """Send a host only the code that ends its part of the run. Raise HostError."""
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
        """Mirror every node a last time, and stop mirroring."""
        fan_out(list(self._mirrors.values()), Mirror.close)
        self._attempt, self._mirrors = None, {}

    def find_unresponsive(self, timeout_s: float) -> int | None:
        """Return a reachable node that has not ended, and whose heartbeat is older than `timeout_s`."""
        for rank, mirror in self._mirrors.items():
            if not mirror.has_ended and mirror.heartbeat_age.seconds() > timeout_s:
                return rank
        return None

    def has_checkpoints(self) -> bool:
        return bool(self._newest())

    def find_loss(self, saved: Mapping[str, int]) -> str | None:
        """Return a problem if none of these hosts has the newest checkpoint; `saved`: the newest step of each."""
        newest = self._newest()
        if newest <= max(saved.values(), default=0):
            return None
        return f"the checkpoint of step {newest} is on none of {', '.join(saved)}: its host must take part"

    def _newest(self) -> int:
        return max(map(step_of, committed(self._run.checkpoints)), default=0)
