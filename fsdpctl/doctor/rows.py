"""The findings of all nodes as a table with few rows. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence

from fsdpctl.contract.findings import Check, Finding
from fsdpctl.doctor.examine import Examined
from fsdpctl.logs.ranges import fold_names

MAX_ROWS = 4
"""Maximum rows for one result of one check. Above it, findings that differ only in numbers share a row."""

MAX_NAMES = 20
"""Maximum characters in the column of nodes; longer lists go before the reason, which may be long."""

Found = tuple[str, Finding]  # a node's name and one of its findings
_NUMBER = re.compile(r"[0-9]+([.:][0-9]+)*")


def rows(examined: Sequence[Examined]) -> list[tuple[str, str, str, str]]:
    """Return rows of check, result, nodes and reason: one row for a finding that several nodes share."""
    found = [(node.node, finding) for node in examined for finding in node.findings]
    table = []
    for check in Check:
        for result in _results([(node, finding) for node, finding in found if finding.check is check]):
            table += [_row(group, len(examined)) for group in _groups(result)]
    return table


def _results(found: Sequence[Found]) -> list[list[Found]]:
    return _grouped(found, lambda finding: finding.result)


def _groups(found: Sequence[Found]) -> list[list[Found]]:
    exact = _grouped(found, lambda finding: finding)
    return exact if len(exact) <= MAX_ROWS else _grouped(found, lambda finding: _NUMBER.sub("", _text(finding)))


def _grouped(found: Sequence[Found], key: Callable[[Finding], Hashable]) -> list[list[Found]]:
    groups: dict[Hashable, list[Found]] = {}
    for name, finding in found:
        groups.setdefault(key(finding), []).append((name, finding))
    return list(groups.values())


def _row(group: Sequence[Found], num_nodes: int) -> tuple[str, str, str, str]:
    first_node, first = group[0]
    text = _text(first)
    if any(finding != first for _, finding in group):
        text = f"{first_node}: {text} (the others differ in numbers)"
    nodes = "all" if len(group) == num_nodes > 1 else fold_names(name for name, _ in group)
    if len(nodes) > MAX_NAMES and len(group) > 1:
        nodes, text = f"{len(group)} nodes", f"{nodes}: {text}"
    return first.check, first.result, nodes, text


def _text(finding: Finding) -> str:
    return f"{finding.reason}. Fix: {finding.fix}" if finding.fix else finding.reason
