"""Node agents on other hosts: check all, start all or none, end all and prove it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TypeVar

from fsdpctl.contract import GOOD_ENDS, AbortWord, NodeExit
from fsdpctl.contract.check import MAX_CLOCK_SKEW_S
from fsdpctl.contract.codec import find_json, read_json, write_json
from fsdpctl.contract.notes import leave_note
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import DroppedHost, LaunchPlan, PlannedNode
from fsdpctl.contract.records import NodeEnd
from fsdpctl.errors import LaunchError
from fsdpctl.launchers.fanout import HostError, Result, fan_out
from fsdpctl.launchers.ssh.answer import module_argv, read_answer
from fsdpctl.launchers.ssh.bench import BAD_FOR_S, find_bad, find_candidates
from fsdpctl.launchers.ssh.config import target_of
from fsdpctl.launchers.ssh.link import Link
from fsdpctl.launchers.ssh.private.disks import Disks
from fsdpctl.launchers.ssh.reach import Reach, Stall, describe_silent, find_lost
from fsdpctl.node.peers import PeerWatch
from fsdpctl.node.remote import Ended, NodeFacts, Seen, Started
from fsdpctl.runs.events import add_event
from fsdpctl.specs.load import read_profile
from fsdpctl.specs.profile import SshBackend

ANSWER_S = 60.0
"""A cold Python on a cold file system, and nvidia-smi."""

T = TypeVar("T", NodeFacts, Started, Seen, Ended)


class SshAgents:
    """The agents of one run. Connections stay open between questions."""

    def __init__(self, run: RunPaths, plan: LaunchPlan) -> None:
        self._profile = read_profile(run.profile)
        self._run, self._plan = run, plan
        self._links = {node.rank: self._link(node) for node in plan.nodes}
        self._dropped = read_json(tuple[DroppedHost, ...], run.dropped) if run.dropped.exists() else ()
        self._refused: dict[int, str] = {}  # by rank: what a host said against itself
        self._old_links = [(host.node.rank, self._link(host.node)) for host in self._dropped]
        self._reach = Reach(self._links)
        self._watch: PeerWatch | None = None
        self._stall = Stall(run, run.attempt(1))
        self._disks = None if plan.shared_disk else Disks(run)
        self._holders = {node.id for node in plan.nodes}  # hosts that have the run's checkpoints

    def _link(self, node: PlannedNode) -> Link:
        backend = self._profile.backend
        assert isinstance(backend, SshBackend)
        return Link(target_of(node, backend))

    def prepare(self, attempt: AttemptPaths) -> list[str]:
        """Take spares for hosts that were at fault, or silent for long; the hosts still missing, one line each."""
        errors = {r.item: r.error for r in fan_out(list(self._links), self._open) if r.error}
        missing = {rank: str(error) for rank, error in errors.items()}
        silent_s, limit_s = self._reach.silent_s(), self._plan.peer_timeout_s
        awaited = {rank for rank, error in errors.items() if error.passing and silent_s[rank] <= limit_s}
        for rank, reason in {**_at_fault(attempt, list(self._links)), **self._refused, **missing}.items():
            if rank not in awaited and self._replace(attempt, rank, reason):
                missing.pop(rank, None)
        return list(missing.values())

    def _open(self, rank: int) -> None:
        """Raise HostError unless the host answers now: a connection to a dead host looks open for minutes."""
        link = self._links[rank]
        if not link.is_answering(link.target.connect_timeout_s):
            link.open()

    def _replace(self, attempt: AttemptPaths, rank: int, reason: str) -> bool:
        """Put another host in the place of `rank`; False when there is none."""
        old = self._plan.nodes[rank]
        if rank == 0 and self._plan.head.address is not None:
            return False  # the profile's master_address names this very host
        if self._disks is not None and self._disks.has_checkpoints() and not self._holders & self._others(rank):
            return False  # with it the last copy of the checkpoints would leave
        for node in find_candidates(self._profile, self._plan, rank, self._dropped, time.time()):
            link = self._link(node)
            try:
                link.open()
            except HostError:
                continue
            dropped = DroppedHost(old, reason, time.time())
            self._put(node, link, dropped)
            until = time.strftime("%Y-%m-%d %H:%M", time.localtime(dropped.time + BAD_FOR_S))
            add_event(attempt, f"{node.id} takes the place of {old.id}, which is not used until {until}: {reason}")
            return True
        return False

    def _others(self, rank: int) -> set[str]:
        return {node.id for node in self._plan.nodes if node.rank != rank}

    def _put(self, node: PlannedNode, link: Link, dropped: DroppedHost) -> None:
        self._dropped = (*self._dropped, dropped)
        self._old_links.append((node.rank, self._links[node.rank]))
        self._links[node.rank] = link
        self._reach.replace(node.rank, link)
        self._plan = self._plan.with_node(node)
        write_json(self._run.dropped, self._dropped)
        write_json(self._run.plan, self._plan)

    def _avoid_bad(self, attempt: AttemptPaths) -> None:
        """A resume begins with the profile's own nodes: put others in for those that have failed of late."""
        bad = find_bad(self._dropped, time.time())
        for node in self._plan.nodes:
            if node.id in bad:
                self._replace(attempt, node.rank, bad[node.id].reason)

    def start(self, attempt: AttemptPaths) -> None:
        """Check every host, then start the agents. Raises LaunchError when one cannot; those that could end again."""
        if all(attempt.node(rank).agent.exists() for rank in self._links):
            self._follow(attempt)
            return
        if not any(attempt.node(rank).agent.exists() for rank in self._links):
            self._avoid_bad(attempt)
        self._refused = self._disks.push(self._links, self._plan) if self._disks is not None else {}
        if self._refused:
            raise LaunchError("\n".join(self._refused.values()))
        checks = self._ask_all(NodeFacts, "check", attempt)
        if problems := [*_errors(checks), *self._objections(checks)]:
            raise LaunchError("\n".join(problems))
        starts = self._ask_all(Started, "start", attempt)
        self._follow(attempt)
        if problems := [*_errors(starts), *self._own_problems(starts)]:
            leave_note(attempt.abort, AbortWord.FAULT, problems[0])  # for a host that goes on, cut off, with its start
            self.end(attempt)
            raise LaunchError("\n".join(problems))
        self._holders = {node.id for node in self._plan.nodes}

    def _follow(self, attempt: AttemptPaths) -> None:
        if self._disks is not None:
            self._disks.follow(attempt, self._links)

    def is_over(self, attempt: AttemptPaths) -> bool:
        """Whether every agent has ended, or is silent and cannot be seen on its host either."""
        self._follow(attempt)
        if self._watch is None or self._watch.attempt != attempt:
            self._watch = PeerWatch(attempt, list(self._links), self._plan.peer_timeout_s)
            self._stall = Stall(self._run, attempt)
        if self._watch.find_living():
            return False
        silent = [rank for rank in self._links if not attempt.node(rank).end.exists()]
        seen = self._ask_all(Seen, "look", attempt, silent)
        if any(result.value and result.value.alive for result in seen):
            return False
        # Where disks are private, a host that cannot be asked may be at work until something has ended the attempt.
        unknown = self._disks is not None and any(result.error and result.error.passing for result in seen)
        return not unknown or attempt.abort.exists()

    def find_lost(self, attempt: AttemptPaths) -> str | None:
        """A host out of reach without which the run stands still; agents on a shared disk look alive even then."""
        timeout_s = self._plan.peer_timeout_s
        if self._disks is not None:
            if (fallen := find_fallen(attempt)) is not None:
                return fallen
            if (rank := self._disks.find_silent(timeout_s)) is not None:
                return f"node {rank}: no sign of life for {timeout_s} s"
        rank = find_lost(self._reach.silent_s(), self._stall.seconds(), timeout_s)
        if rank is None or attempt.node(rank).end.exists():
            return None
        return f"node {rank}: {self._links[rank].target} is out of reach, and the run makes no progress"

    def describe_silence(self, attempt: AttemptPaths) -> str | None:
        if attempt.abort.exists():
            return None
        return describe_silent(self._reach.silent_s(), {rank: str(link.target) for rank, link in self._links.items()})

    def end(self, attempt: AttemptPaths) -> list[str]:
        """End what is left on every host, replaced ones too; what could not be ended or asked, one line each."""
        places = [*self._links.items(), *self._old_links]
        results = fan_out(places, lambda place: self._end_one(attempt, *place))
        if self._disks is not None:
            self._disks.leave()
        stubborn = [
            f"{result.item[1].target}: still alive after KILL: {', '.join(map(str, result.value.left))}"
            for result in results
            if result.value and result.value.left
        ]
        return [*(str(result.error) for result in results if result.error), *stubborn]

    def _end_one(self, attempt: AttemptPaths, rank: int, link: Link) -> Ended:
        try:
            return self._ask(Ended, "end", attempt, rank, link)
        except HostError as error:
            if self._disks is None or error.passing:
                raise
        self._disks.push_back(link, self._plan)  # who sweeps is not there: the start did not come so far
        return self._ask(Ended, "end", attempt, rank, link)

    def _ask_all(
        self, kind: type[T], verb: str, attempt: AttemptPaths, ranks: Sequence[int] | None = None
    ) -> list[Result[int, T]]:
        chosen = list(self._links) if ranks is None else ranks
        return fan_out(chosen, lambda rank: self._ask(kind, verb, attempt, rank, self._links[rank]))

    def _ask(self, kind: type[T], verb: str, attempt: AttemptPaths, rank: int, link: Link) -> T:
        answer = link.run(remote_argv(self._plan, self._run, verb, attempt.number, rank), timeout_s=ANSWER_S)
        return read_answer(kind, answer, link.target, self._plan)

    def _objections(self, checks: Sequence[Result[int, NodeFacts]]) -> list[str]:
        facts = {result.item: result.value for result in checks if result.value}
        names = {rank: str(self._links[rank].target) for rank in facts}
        loss = self._disks.find_loss({names[rank]: fact.saved for rank, fact in facts.items()}) if self._disks else None
        # Of two that differ, the one that came in for another is the odd one.
        first = sorted(facts, key=[host.node.rank for host in self._dropped].count)
        odd = compare({rank: facts[rank] for rank in first}, time.time())
        return self._own_problems(checks) or self._refuse(odd) or ([loss] if loss else [])

    def _own_problems(self, results: Sequence[Result[int, NodeFacts]] | Sequence[Result[int, Started]]) -> list[str]:
        """What hosts say against themselves."""
        return self._refuse({r.item: r.value.problem for r in results if r.value and r.value.problem})

    def _refuse(self, problems: dict[int, str]) -> list[str]:
        """A next attempt does without these, where there are spares; one line each."""
        self._refused |= problems
        return [f"{self._links[rank].target}: {problem}" for rank, problem in problems.items()]


def _at_fault(attempt: AttemptPaths, ranks: Sequence[int]) -> dict[int, str]:
    ends = {rank: find_json(NodeEnd, attempt.node(rank).end) for rank in ranks}
    return {rank: end.reason for rank, end in ends.items() if end is not None and end.code == NodeExit.NODE_FAULT}


def _errors(results: Sequence[Result[int, T]]) -> list[str]:
    return [str(result.error) for result in results if result.error]


def find_fallen(attempt: AttemptPaths) -> str | None:
    """A node that has ended badly: on disks of their own its peers do not see that."""
    ends = {node.node_rank: find_json(NodeEnd, node.end) for node in attempt.nodes()}
    bad = [f"node {rank}: {end.reason}" for rank, end in ends.items() if end and end.code not in GOOD_ENDS]
    return bad[0] if bad else None


def remote_argv(plan: LaunchPlan, run: RunPaths, verb: str, attempt: int, node_rank: int) -> list[str]:
    """The command of one question, after the profile's setup lines."""
    where = [f"--run-dir={run.root}", f"--attempt={attempt}", f"--node-rank={node_rank}"]
    return module_argv(plan, run, "fsdpctl.node.remote", verb, *where)


def compare(facts: Mapping[int, NodeFacts], now: float) -> dict[int, str]:
    """The odd ones out: versions that differ from those of the most nodes, and clocks that are far off.

    Where as many have one version as another, that of the first node is the usual one.
    """
    problems: dict[int, list[str]] = {rank: [] for rank in facts}
    for what in ("python", "torch"):
        seen = {rank: getattr(fact, what) or "none" for rank, fact in facts.items()}
        values = list(seen.values())
        usual = max(values, key=lambda value: (values.count(value), -values.index(value)), default="")
        for rank, value in seen.items():
            if value != usual:
                problems[rank].append(f"{what} {value}, the other nodes have {usual}")
    for rank, fact in facts.items():
        if abs(skew := fact.time - now) > MAX_CLOCK_SKEW_S:
            direction = "ahead of" if skew > 0 else "behind"
            problems[rank].append(f"its clock is {abs(skew):.0f} s {direction} this machine's")
    return {rank: "; ".join(found) for rank, found in sorted(problems.items()) if found}
