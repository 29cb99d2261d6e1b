"""The request for stacks, and the answers of nodes that count for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fsdpctl.contract.codec import find_json, write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.stacks_request import StacksAnswer, StacksRequest
from fsdpctl.verbs.stacks import ask_nodes
from tests.backends.harness import wait_for


def test_the_answer_to_a_request_that_replaced_it_counts_and_that_to_an_older_one_does_not(tmp_path: Path) -> None:
    attempt = RunPaths(tmp_path).attempt(1)
    nodes = [attempt.node(0), attempt.node(1)]
    for node in nodes:
        node.root.mkdir(parents=True)
    write_json(attempt.stacks_request, StacksRequest("second"))
    write_json(nodes[0].stacks_answer, StacksAnswer("first", ()))

    def is_asked() -> bool:
        request = find_json(StacksRequest, attempt.stacks_request)
        return request is not None and request.number != "second"

    with ThreadPoolExecutor() as pool:
        answers = pool.submit(ask_nodes, attempt, nodes, 2.0)
        wait_for(is_asked, 5, "the request")
        write_json(attempt.stacks_request, StacksRequest("of another command"))
        write_json(nodes[0].stacks_answer, StacksAnswer("second", ()))
        write_json(nodes[1].stacks_answer, StacksAnswer("of another command", ()))
        assert {node: answer.number for node, answer in answers.result().items()} == {1: "of another command"}
