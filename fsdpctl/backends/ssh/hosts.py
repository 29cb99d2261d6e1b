"""The hosts of one run with a connection to each, and the replacement of hosts that are at fault."""

from __future__ import annotations

import time

from fsdpctl.backends.fanout import HostError
from fsdpctl.backends.ssh.candidates import BAD_FOR_S, find_bad, find_candidates
from fsdpctl.backends.ssh.placement import machine
from fsdpctl.backends.ssh.transport.link import Link
from fsdpctl.backends.ssh.transport.ssh_config import target_of
from fsdpctl.contract.clock import MINUTE, format_time
from fsdpctl.contract.codec import read_json, write_json
from fsdpctl.contract.events import EventKind
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import DroppedHost, LaunchPlan, PlannedNode
from fsdpctl.holds.taken import read_taken
from fsdpctl.runs.events import add_event
from fsdpctl.runs.suspects import Suspect, note_suspects


class Hosts:
    """Connections stay open between requests. `plan` has the present hosts, after replacements."""

    def __init__(self, run: RunPaths, plan: LaunchPlan) -> None:
        self._run, self.plan = run, plan
        self.links = {node.rank: self._link(node) for node in plan.nodes}
        self.dropped = read_dropped(run)
        self._old_links = [(host.node.rank, self._link(host.node)) for host in self.dropped]

    def _link(self, node: PlannedNode) -> Link:
        return Link(target_of(node, self.plan))

    def all_links(self) -> list[tuple[int, Link]]:
        """Return rank and connection of all hosts that this run has had, replaced ones too."""
        return [*self.links.items(), *self._old_links]

    def bad_ranks(self) -> dict[int, str]:
        """Return rank -> why a host of the plan was replaced recently: a resume begins with the profile's own nodes."""
        bad = find_bad(self.dropped, time.time())
        return {node.rank: bad[node.id].reason for node in self.plan.nodes if node.id in bad}

    def replace(self, attempt: AttemptPaths, rank: int, reason: str) -> Link | None:
        """Replace the host of `rank` by another; return the connection to it, or None if there is no other."""
        if rank == 0 and self.plan.head.address is not None:
            return None  # the profile's master_address names this host
        taken = read_taken()
        own = self.plan.hold.name if self.plan.hold is not None else None
        for node in find_candidates(self.plan, rank, self.dropped, time.time()):
            if taken.get(machine(node), own) != own:
                continue  # a hold has it
            link = self._link(node)
            try:
                link.open()
            except HostError:
                continue
            dropped = DroppedHost(self.plan.nodes[rank], reason, time.time())
            self._put(node, link, dropped)
            until = format_time(dropped.time + BAD_FOR_S, MINUTE)
            old = dropped.node.id
            text = f"{node.id} takes the place of {old}, which is not used until {until}: {reason}"
            add_event(attempt, text, EventKind.HOST_REPLACED, node=rank, host=node.id)
            note_suspects(
                attempt, [Suspect(self.plan.backend, machine(dropped.node), old, reason, attempt.number, dropped.time)]
            )
            return link
        return None

    def _put(self, node: PlannedNode, link: Link, dropped: DroppedHost) -> None:
        self.dropped = (*self.dropped, dropped)
        self._old_links.append((node.rank, self.links[node.rank]))
        self.links[node.rank] = link
        self.plan = self.plan.with_node(node)
        write_json(self._run.dropped, self.dropped)
        write_json(self._run.plan, self.plan)


def read_dropped(run: RunPaths) -> tuple[DroppedHost, ...]:
    """Return the hosts that were replaced, the oldest first."""
    return read_json(tuple[DroppedHost, ...], run.dropped) if run.dropped.exists() else ()
