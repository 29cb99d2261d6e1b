"""Node agents on other hosts: check all, start all or none, end all and confirm it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TypeVar

from fsdpctl.backends.fanout import HostError, HostResult, fan_out
from fsdpctl.backends.ssh.host_faults import describe_errors, find_failed_node, find_faults, find_late, find_refused
from fsdpctl.backends.ssh.hosts import Hosts
from fsdpctl.backends.ssh.liveness import Liveness, StallTimer, describe_unanswered, find_lost
from fsdpctl.backends.ssh.older_plan import with_hosts
from fsdpctl.backends.ssh.placement import machine
from fsdpctl.backends.ssh.preflight import compare
from fsdpctl.backends.ssh.sync.disks import Disks
from fsdpctl.backends.ssh.transport.answer import module_argv, read_answer
from fsdpctl.backends.ssh.transport.link import Link
from fsdpctl.contract import AbortReason
from fsdpctl.contract.control_files import ControlFile, create_once
from fsdpctl.contract.events import EventKind
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import LaunchError
from fsdpctl.node.agent.heartbeats import PeerWatch
from fsdpctl.node.queries.agent_control import AgentStatus, KillResult, NodeFacts, StartResult
from fsdpctl.runs.events import add_event
from fsdpctl.runs.evidence import AttemptFacts
from fsdpctl.supervise.agents import MOUNT_WAIT_S, Agents, AttemptCheck

ANSWER_S = 60.0
"""Enough for a first start of Python on a cold file system, and nvidia-smi."""

T = TypeVar("T", NodeFacts, StartResult, AgentStatus, KillResult)


class SshAgents(Agents):
    """The agents of one run. `plan` has the present hosts, after replacements."""

    def __init__(self, run: RunPaths, plan: LaunchPlan) -> None:
        super().__init__(run, with_hosts(run, plan))
        self._hosts = Hosts(run, self.plan)
        self._refused: dict[int, str] = {}  # rank -> the problem for which a host is replaced
        self._replaced: set[tuple[int, int]] = set()  # after which attempt, and of which rank
        self._liveness = Liveness(self._hosts.links, plan.peer_timeout_s)
        self._watch: PeerWatch | None = None
        self._stall = StallTimer(run, run.attempt(1))
        self._disks = None if plan.shared_disk else Disks(run)
        self._checkpoint_hosts = {node.id for node in plan.nodes}  # hosts that have the run's checkpoints

    @property
    def _links(self) -> Mapping[int, Link]:
        return self._hosts.links

    def prepare(self, attempt: AttemptPaths) -> list[str]:
        """Replace hosts that failed or gave no answer for long; return one line for each that is still missing."""
        errors = {r.item: r.error for r in fan_out(list(self._links), self._open) if r.error}
        missing = {rank: str(error) for rank, error in errors.items()}
        unanswered_s, limit_s = self._liveness.unanswered_s(), self.plan.peer_timeout_s
        recent = {rank for rank, error in errors.items() if error.passing and unanswered_s[rank] <= limit_s}
        at_fault = {**find_faults(attempt, list(self._links)), **self._refused}
        replaced = {rank for number, rank in self._replaced if number == attempt.number}  # while others are waited for
        reasons = {rank: reason for rank, reason in at_fault.items() if rank not in replaced}
        for rank, reason in {**reasons, **missing}.items():
            if rank not in recent and self._replace(attempt, rank, reason):
                self._replaced.add((attempt.number, rank))
                missing.pop(rank, None)
        return list(missing.values())

    def _open(self, rank: int) -> None:
        """Raise HostError unless the host answers now: a connection to a dead host looks open for minutes."""
        link = self._links[rank]
        self._check_answers(rank, link)
        if not link.is_answering(link.target.connect_timeout_s):
            link.open()

    def _replace(self, attempt: AttemptPaths, rank: int, reason: str) -> bool:
        """Replace the host of `rank` by another; return False if there is none."""
        others = {node.id for node in self.plan.nodes if node.rank != rank}
        if self._disks is not None and self._disks.has_checkpoints() and not self._checkpoint_hosts & others:
            return False  # it has the only copy of the checkpoints
        link = self._hosts.replace(attempt, rank, reason)
        self.plan = self._hosts.plan
        if link is not None:
            self._liveness.replace(rank, link)
        return link is not None

    def start(self, attempt: AttemptPaths) -> None:
        """Check every host, then start the agents. Raise LaunchError if one cannot start, and end the others."""
        if all(attempt.node(rank).agent.exists() for rank in self._links):
            self._follow(attempt)
            return
        if not any(attempt.node(rank).agent.exists() for rank in self._links):
            for rank, reason in self._hosts.bad_ranks().items():
                self._replace(attempt, rank, reason)
        self._refused = self._disks.push(attempt, self._links, self.plan) if self._disks is not None else {}
        if self._refused:
            raise LaunchError("\n".join(self._refused.values()))
        checks = self._check_all(attempt)
        self._refused |= find_refused(checks)
        if problems := [*describe_errors(checks), *self._find_problems(checks)]:
            raise LaunchError("\n".join(problems))
        starts = self._ask_all(StartResult, "start", attempt)
        self._refused |= find_refused(starts)
        self._follow(attempt)
        if problems := [*describe_errors(starts), *self._own_problems(starts)]:
            # Also for a host that was cut off: it may still start its agent.
            create_once(attempt.abort, AbortReason.FAULT, problems[0])
            self.end(attempt)
            raise LaunchError("\n".join(problems))
        self._checkpoint_hosts = {node.id for node in self.plan.nodes}

    def _check_all(self, attempt: AttemptPaths) -> list[HostResult[int, NodeFacts]]:
        """Check every host; those that may mount the disk of the run directory late, again and again for a while."""
        results = {result.item: result for result in self._ask_all(NodeFacts, "check", attempt)}
        if late := find_late(results, attempt.number):
            hosts = ", ".join(str(self._links[rank].target) for rank in late)
            text = f"{self.run.root} is not there yet on {hosts}: asking for up to {MOUNT_WAIT_S} s"
            add_event(attempt, text, EventKind.WAITING)
        deadline = time.monotonic() + MOUNT_WAIT_S
        while late and time.monotonic() < deadline and not (attempt.abort.exists() or attempt.stop.exists()):
            time.sleep(1)
            results |= {result.item: result for result in self._ask_all(NodeFacts, "check", attempt, late)}
            late = find_late(results, attempt.number)
        return list(results.values())

    def _follow(self, attempt: AttemptPaths) -> None:
        if self._disks is not None:
            self._disks.follow(attempt, self._links)

    def machine(self, rank: int) -> tuple[str, str]:
        node = self.plan.nodes[rank]
        return machine(node), node.id

    def is_over(self, attempt: AttemptPaths) -> bool:
        """Return whether every agent has ended, or has no heartbeat and is not found on its host either."""
        if AttemptFacts(attempt).never_started:
            return True
        self._follow(attempt)
        if self._watch is None or self._watch.attempt != attempt:
            self._watch = PeerWatch(attempt, list(self._links), self.plan.peer_timeout_s)
            self._stall = StallTimer(self.run, attempt)
        if self._watch.find_living():
            return False
        unanswered = [rank for rank in self._links if not attempt.node(rank).end.exists()]
        seen = self._ask_all(AgentStatus, "look", attempt, unanswered)
        if any(result.value and result.value.alive for result in seen):
            return False
        # Without a shared disk, an unreachable host may be running until the attempt has an abort.
        unknown = self._disks is not None and any(result.error and result.error.passing for result in seen)
        return not unknown or attempt.abort.exists()

    def check(self, attempt: AttemptPaths) -> AttemptCheck:
        return AttemptCheck(self._find_lost(attempt), self._describe_unreachable(attempt))

    def _find_lost(self, attempt: AttemptPaths) -> ControlFile | None:
        """Return the reason to end the attempt if a node is lost: unreachable, while the run makes no progress."""
        timeout_s = self.plan.peer_timeout_s
        if self._disks is not None:
            if (failed := find_failed_node(attempt)) is not None:
                return ControlFile(AbortReason.FAULT, failed)
            if (rank := self._disks.find_unresponsive(timeout_s)) is not None:
                return ControlFile(AbortReason.LOST, f"node {rank}: no heartbeat for {timeout_s} s")
        rank = find_lost(
            self._liveness.unanswered_s(),
            self._stall.seconds(),
            self._stall.longest_s,
            timeout_s,
            lambda rank: attempt.node(rank).end.exists(),
        )
        if rank is None:
            return None
        reason = f"node {rank}: {self._links[rank].target} is unreachable, and the run makes no progress"
        return ControlFile(AbortReason.LOST, reason)

    def _describe_unreachable(self, attempt: AttemptPaths) -> str | None:
        if attempt.abort.exists():
            return None
        names = {rank: str(link.target) for rank, link in self._links.items()}
        return describe_unanswered(self._liveness.unanswered_s(), names)

    def end(self, attempt: AttemptPaths, *, is_last: bool = True) -> list[str]:
        """End what is left on every host, replaced ones too; return one line for each where that is not confirmed."""
        verb = "end" if is_last else "end-attempt"
        results = fan_out(self._hosts.all_links(), lambda item: self._end_one(verb, attempt, *item))
        if self._disks is not None:
            self._disks.leave()
        alive = [
            f"{result.item[1].target}: still alive after KILL: {', '.join(map(str, result.value.left))}"
            for result in results
            if result.value and result.value.left
        ]
        return [*(str(result.error) for result in results if result.error), *alive]

    def _end_one(self, verb: str, attempt: AttemptPaths, rank: int, link: Link) -> KillResult:
        try:
            return self._ask(KillResult, verb, attempt, rank, link)
        except HostError as error:
            if self._disks is None or error.passing:
                raise
        self._disks.push_back(link, self.plan)  # the host has no code to sweep with: the start had not sent it
        return self._ask(KillResult, verb, attempt, rank, link)

    def _ask_all(
        self, kind: type[T], verb: str, attempt: AttemptPaths, ranks: Sequence[int] | None = None
    ) -> list[HostResult[int, T]]:
        chosen = list(self._links) if ranks is None else ranks
        return fan_out(chosen, lambda rank: self._ask(kind, verb, attempt, rank, self._links[rank]))

    def _ask(self, kind: type[T], verb: str, attempt: AttemptPaths, rank: int, link: Link) -> T:
        self._check_answers(rank, link)
        answer = link.run(remote_argv(self.plan, self.run, verb, attempt.number, rank), timeout_s=ANSWER_S)
        return read_answer(kind, answer, link.target, self.plan)

    def _check_answers(self, rank: int, link: Link) -> None:
        """Raise HostError for a host that has not answered for longer than the limit: each try would wait for it again.

        It is asked all the time beside this, and counts as soon as it answers.
        """
        limit_s = self.plan.peer_timeout_s
        if link is self._links[rank] and self._liveness.unanswered_s()[rank] > limit_s:
            raise HostError(f"{link.target}: no answer for more than {limit_s:g} s", passing=True)

    def _find_problems(self, checks: Sequence[HostResult[int, NodeFacts]]) -> list[str]:
        facts = {result.item: result.value for result in checks if result.value}
        names = {rank: str(self._links[rank].target) for rank in facts}
        loss = self._disks.find_loss({names[rank]: fact.saved for rank, fact in facts.items()}) if self._disks else None
        # Of two hosts that differ, the one that replaced another is refused.
        first = sorted(facts, key=[host.node.rank for host in self._hosts.dropped].count)
        different = compare({rank: facts[rank] for rank in first}, time.time())
        return self._own_problems(checks) or self._refuse(different) or ([loss] if loss else [])

    def _own_problems(
        self, results: Sequence[HostResult[int, NodeFacts]] | Sequence[HostResult[int, StartResult]]
    ) -> list[str]:
        """Return the problems that hosts report about themselves, one line each."""
        return self._refuse({r.item: r.value.problem for r in results if r.value and r.value.problem})

    def _refuse(self, problems: dict[int, str]) -> list[str]:
        """Mark hosts as to be replaced by spares before the next attempt; return one line each."""
        self._refused |= problems
        return [f"{self._links[rank].target}: {problem}" for rank, problem in problems.items()]


def open_agents(run: RunPaths, plan: LaunchPlan) -> SshAgents:
    return SshAgents(run, plan)


def remote_argv(plan: LaunchPlan, run: RunPaths, verb: str, attempt: int, node_rank: int) -> list[str]:
    """Return the command of one request to a host's agent, after the profile's setup lines."""
    where = [f"--run-dir={run.root}", f"--attempt={attempt}", f"--node-rank={node_rank}"]
    return module_argv(plan, run, "fsdpctl.node.queries.agent_control", verb, *where)
