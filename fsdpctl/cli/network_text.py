"""What `bench nccl` prints: a table, and sentences that name what is slow. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from fsdpctl.contract.benchmarks import Collective, Fault, LinkRate, NetworkReport, Verdict
from fsdpctl.logs.ranges import fold_names

FAR_BELOW = 0.5
"""Of what the links should give, for NCCL: gloo on CPUs does not fill a fast link."""

HEADER = ("SIZE", *(f"{collective.upper()}" for collective in Collective))
MIB, GIB = 2**20, 2**30


def member_names(report: NetworkReport, nodes: Sequence[str]) -> list[str]:
    """Return the name of each member of pairs. `nodes`: those of the nodes."""
    if report.unit == "node":
        return list(nodes)
    return [f"{'GPU' if report.device == 'cuda' else 'rank'} {rank}" for rank in range(report.world_size)]


def collective_rows(report: NetworkReport) -> list[tuple[str, ...]]:
    """Return a row for each size with the bus bandwidth of each collective."""
    speeds: dict[int, dict[Collective, float]] = {}
    for one in report.collectives:
        speeds.setdefault(one.num_bytes, {})[one.collective] = one.bus_bytes_per_s
    return [
        (format_size(size), *(format_speed(of[collective]) if collective in of else "" for collective in Collective))
        for size, of in speeds.items()
    ]


def summary_rows(report: NetworkReport, names: Sequence[str], given_gbps: float | None) -> list[tuple[str, str]]:
    """Return how fast the pairs were, beside what their links should give, and the sentences about them."""
    rows = []
    if report.pairs:
        rows.append(("pairs", _describe_pairs(report, names)))
    if report.skipped:
        rows.append(("skipped", f"{', '.join(map(format_size, report.skipped))}: a call would take too long"))
    if report.nodes > 1:
        rows.append(("links", _describe_links(report, names, given_gbps)))
    rows += [("" if number else "result", text) for number, text in enumerate(sentences(report, names, given_gbps))]
    return rows


def sentences(report: NetworkReport, names: Sequence[str], given_gbps: float | None) -> list[str]:
    """Return what is slow; that nothing is, if so."""
    if report.world_size == 1:
        return ["There is one rank only, and nothing to send: --nodes N takes more nodes."]
    found = _uneven_links(report, names)
    if report.verdict is not None:
        found.insert(0, _name_slow(report, report.verdict, names))
    expected, fastest = expected_rate(report, given_gbps), max((pair.bytes_per_s for pair in report.pairs), default=0.0)
    if report.device == "cuda" and expected is not None and report.pairs and fastest < FAR_BELOW * expected:
        found.append(
            f"Even the fastest pair has only {fastest / expected:.0%} of what the links should give:"
            " look for NET/IB or NET/Socket in the NCCL log of a run with `--debug info`, and at ib_hcas."
        )
    return found


def expected_rate(report: NetworkReport, given_gbps: float | None) -> float | None:
    """Return what the links of a node should give, in bytes/s: as the profile has it, or the slowest node reports."""
    if report.nodes == 1:
        return None
    if given_gbps is not None:
        return given_gbps * 1e9 / 8
    rates = [link.bits_per_s for link in report.links if link.bits_per_s is not None]
    return min(rates) / 8 if len(rates) == report.nodes else None


def format_size(num_bytes: int) -> str:
    return f"{num_bytes / GIB:.0f} GiB" if num_bytes >= 0.99 * GIB else f"{num_bytes / MIB:.3g} MiB"


def format_speed(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:.3g} GB/s"


def _describe_pairs(report: NetworkReport, names: Sequence[str]) -> str:
    slowest = min(report.pairs, key=lambda pair: pair.bytes_per_s)
    usual = statistics.median(pair.bytes_per_s for pair in report.pairs)
    text = f"{format_speed(usual)} in the median"
    if len(report.pairs) > 1:
        text += f", {format_speed(slowest.bytes_per_s)} at least ({_pair(slowest.pair, names)})"
    rounds = f"{report.rounds} round{'s' if report.rounds != 1 else ''}"
    return f"{text}; {len(report.pairs):,} of {count_pairs(len(names)):,} measured in {rounds}"


def count_pairs(members: int) -> int:
    return members * (members - 1) // 2


def _describe_links(report: NetworkReport, names: Sequence[str], given_gbps: float | None) -> str:
    expected = expected_rate(report, given_gbps)
    if expected is None:
        unknown = fold_names({link.name: None for link in report.links})
        return f"{unknown}: no rate is known; `network.gbps` in the profile sets one"
    source = "by the profile" if given_gbps is not None else f"by {fold_names({ln.name: None for ln in report.links})}"
    fastest = max((pair.bytes_per_s for pair in report.pairs), default=0.0)
    return f"should give {format_speed(expected)} ({source}); the fastest pair has {fastest / expected:.0%} of it"


def _uneven_links(report: NetworkReport, names: Sequence[str]) -> list[str]:
    """Return a sentence about nodes whose link reports less than those of the others."""
    rates: Mapping[int, LinkRate] = {link.node_rank: link for link in report.links if link.bits_per_s is not None}
    if report.nodes == 1 or not rates:
        return []
    best = max(link.bits_per_s or 0.0 for link in rates.values())
    return [
        f"The link of {names[rank]} reports {(link.bits_per_s or 0) / 1e9:g} Gbit/s ({link.name}), others"
        f" {best / 1e9:g} Gbit/s."
        for rank, link in rates.items()
        if (link.bits_per_s or 0.0) < best
    ]


def _name_slow(report: NetworkReport, verdict: Verdict, names: Sequence[str]) -> str:
    what = "node" if report.unit == "node" else "GPU" if report.device == "cuda" else "rank"
    match verdict.fault:
        case Fault.NONE:
            if len(names) == 2:
                return f"With one pair, no {what} can be slower than the others."
            covered = "every pair" if len(report.pairs) == count_pairs(len(names)) else f"{len(report.pairs):,} pairs"
            return f"No {what} and no link is slow: {covered} of {len(names)} {what}s measured."
        case Fault.MEMBERS:
            slow = fold_names(names[member] for member in verdict.members)
            verb = "is" if len(verdict.members) == 1 else "are"
            text = f"{slow} {verb} slow with every partner: {_compare(report, verdict)}."
            return f"{text} {_list_links(verdict, names)}".rstrip()
        case Fault.LINKS:
            return f"{_list_links(verdict, names)} Both ends are fast with others: {_compare(report, verdict)}."
        case Fault.GROUPS:
            groups = " and ".join(f"[{fold_names(names[m] for m in group)}]" for group in verdict.groups)
            return f"The network between {groups} is slow: {_compare(report, verdict)}. Within each it is fast."
        case Fault.UNDECIDED:
            return f"{_list_links(verdict, names)} Too few {what}s were fast to know which is at fault."


def _list_links(verdict: Verdict, names: Sequence[str]) -> str:
    if not verdict.links:
        return ""
    pairs = ", ".join(_pair(link, names) for link in verdict.links)
    return f"The link {pairs} is slow." if len(verdict.links) == 1 else f"The links {pairs} are slow."


def _compare(report: NetworkReport, verdict: Verdict) -> str:
    """Return the speed of the slow pairs beside that of the others."""
    of = {member: number for number, group in enumerate(verdict.groups) for member in group}

    def is_slow(pair: tuple[int, int]) -> bool:
        between = bool(of) and of.get(pair[0]) != of.get(pair[1])
        return between or pair in verdict.links or not set(pair).isdisjoint(verdict.members)

    slow = [one.bytes_per_s for one in report.pairs if is_slow(one.pair)]
    others = [one.bytes_per_s for one in report.pairs if not is_slow(one.pair)]
    return f"{format_speed(statistics.median(slow))}, the others {format_speed(statistics.median(others))}"


def _pair(pair: tuple[int, int], names: Sequence[str]) -> str:
    return f"{names[pair[0]]} - {names[pair[1]]}"
