"""stacks: ask the ranks of a running run for their stacks, through the directory of the attempt."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from fsdpctl.contract.codec import find_json, write_json
from fsdpctl.contract.paths import AttemptPaths, NodePaths, RunPaths
from fsdpctl.contract.stack_dump import ThreadStack, parse_stacks
from fsdpctl.contract.stacks_request import RankStacks, StacksAnswer, StacksRequest
from fsdpctl.errors import FsdpctlError
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.runs.find import check_ranks
from fsdpctl.verbs.status import read_status

WAIT_S = 15.0
"""For the agents: they answer within 4 s, and without a shared disk request and answer are copied twice a second."""
_POLL_S = 0.1


@dataclass(frozen=True)
class RankReply:
    """The stacks of one rank, or why there are none."""

    rank: int
    node_rank: int
    host: str
    threads: tuple[ThreadStack, ...] = ()  # the main thread first
    problem: str = ""


@dataclass(frozen=True)
class RunStacks:
    """What the ranks of a run do now; what `stacks --json` prints."""

    run_id: str
    ranks: tuple[RankReply, ...]


def read_stacks(run: RunPaths, ranks: Collection[int] = (), wait_s: float = WAIT_S) -> list[RankReply]:
    """Ask all ranks, or some, what they do now, and return their replies by rank.

    Raise UsageError if there is no such rank, FsdpctlError if the run has no running ranks.
    """
    facts = RunFacts(run)
    if facts.newest is None or not facts.newest.living_agents:
        status = read_status(run)
        hint = f"`fsdpctl logs {run.root.name} --errors` shows the stacks of a run that was ended for a hang"
        raise FsdpctlError(f"{run.root.name} has no running ranks: {status.state}, {status.reason}", hint=hint)
    attempt = facts.newest.paths
    check_ranks(run, attempt, ranks, ())
    nodes = facts.newest.nodes
    answers = ask_nodes(attempt, nodes, wait_s)
    replies = [
        reply
        for node in nodes
        for reply in _replies(node, facts.newest.host(node.node_rank) or "", answers.get(node.node_rank), wait_s)
    ]
    return [reply for reply in replies if not ranks or reply.rank in ranks]


def ask_nodes(attempt: AttemptPaths, nodes: Sequence[NodePaths], wait_s: float) -> dict[int, StacksAnswer]:
    """Return the answers by node rank, of the nodes that answer in time.

    Another command may replace the request before a node has seen it: the answer to a later request is as good.
    """
    earlier = find_json(StacksRequest, attempt.stacks_request)
    old = {answer.number for answer in _read_answers(nodes).values()} | ({earlier.number} if earlier else set())
    write_json(attempt.stacks_request, StacksRequest(secrets.token_hex(8)))
    deadline = time.monotonic() + wait_s
    answers: dict[int, StacksAnswer] = {}
    while len(answers) < len(nodes) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        missing = [node for node in nodes if node.node_rank not in answers]
        answers |= {node: answer for node, answer in _read_answers(missing).items() if answer.number not in old}
    return answers


def _read_answers(nodes: Sequence[NodePaths]) -> dict[int, StacksAnswer]:
    found = {node.node_rank: find_json(StacksAnswer, node.stacks_answer) for node in nodes}
    return {node: answer for node, answer in found.items() if answer is not None}


def _replies(node: NodePaths, host: str, answer: StacksAnswer | None, wait_s: float) -> list[RankReply]:
    if answer is None:
        problem = f"the agent of node {node.node_rank} did not answer within {wait_s:.0f} s"
        return [RankReply(rank, node.node_rank, host, problem=problem) for rank in sorted(node.rank_logs())]
    return [_reply(node, host, rank) for rank in answer.ranks]


def _reply(node: NodePaths, host: str, rank: RankStacks) -> RankReply:
    threads = parse_stacks(rank.text)
    return RankReply(rank.rank, node.node_rank, host, threads, "" if threads else _describe_nothing(rank.state))


def _describe_nothing(state: str) -> str:
    match state:
        case "":
            return "it has no process: it has ended, or not started"
        case "T":
            return "its process is stopped"
        case "D":
            return "it waits for a disk or a file server"
        case _:
            return "it wrote nothing: Python has not started in it, or does not answer"
