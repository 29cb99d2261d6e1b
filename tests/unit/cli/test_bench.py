"""What `fsdpctl bench` prints of what was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsdpctl.cli.disk_text import cache_sentences, differs, node_rows
from fsdpctl.cli.disk_text import sentences as disk_sentences
from fsdpctl.cli.disk_text import summary_rows as disk_rows
from fsdpctl.cli.network_text import collective_rows, format_size, member_names, sentences, summary_rows
from fsdpctl.contract.benchmarks import (
    Collective,
    CollectiveSpeed,
    DiskReport,
    Fault,
    LinkRate,
    NetworkReport,
    NodeDiskSpeed,
    PairSpeed,
    ReadWay,
    Verdict,
)
from fsdpctl.contract.host import FileSystem
from fsdpctl.errors import UsageError
from fsdpctl.verbs.benchmark import parse_sizes

NAMES = ["node1", "node2", "node3", "node4"]
LINKS = tuple(LinkRate(rank, "mlx5_0:1", 400e9) for rank in range(4))


def network(verdict: Verdict, slow: dict[tuple[int, int], float], usual: float = 45e9) -> NetworkReport:
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    speeds = tuple(PairSpeed(pair, slow.get(pair, usual)) for pair in pairs)
    return NetworkReport("cuda", 32, 4, "node", LINKS, pairs=speeds, rounds=6, verdict=verdict)


def test_a_slow_node_is_named_with_its_speed() -> None:
    slow = {(0, 2): 1e9, (1, 2): 1e9, (2, 3): 1e9}
    found = sentences(network(Verdict(Fault.MEMBERS, members=(2,)), slow), NAMES, None)
    assert found == ["node3 is slow with every partner: 1 GB/s, the others 45 GB/s."]


def test_a_slow_link_is_named_by_both_ends() -> None:
    found = sentences(network(Verdict(Fault.LINKS, links=((0, 2),)), {(0, 2): 5e9}), NAMES, None)
    assert found == ["The link node1 - node3 is slow. Both ends are fast with others: 5 GB/s, the others 45 GB/s."]


def test_two_halves_are_named() -> None:
    slow = {(0, 2): 9e9, (0, 3): 9e9, (1, 2): 9e9, (1, 3): 9e9}
    found = sentences(network(Verdict(Fault.GROUPS, groups=((0, 1), (2, 3))), slow), NAMES, None)
    assert found == [
        "The network between [node[1,2]] and [node[3,4]] is slow: 9 GB/s, the others 45 GB/s. Within each it is fast."
    ]


def test_nothing_slow_is_reported_as_that() -> None:
    report = network(Verdict(Fault.NONE), {})
    assert sentences(report, NAMES, None) == ["No node and no link is slow: every pair of 4 nodes measured."]
    rows = dict(summary_rows(report, NAMES, None))
    assert rows["links"] == "should give 50 GB/s (by mlx5_0:1); the fastest pair has 90% of it"
    assert dict(summary_rows(report, NAMES, 800))["links"].startswith("should give 100 GB/s (by the profile)")


def test_pairs_far_below_their_links_are_reported() -> None:
    found = sentences(network(Verdict(Fault.NONE), {}, usual=2e9), NAMES, None)
    assert found[1].startswith("Even the fastest pair has only 4% of what the links should give")


def test_a_link_with_another_rate_is_named() -> None:
    report = replace(network(Verdict(Fault.NONE), {}), links=(*LINKS[:3], LinkRate(3, "mlx5_0:1", 200e9)))
    assert "The link of node4 reports 200 Gbit/s (mlx5_0:1), others 400 Gbit/s." in sentences(report, NAMES, None)


def test_a_table_has_a_row_for_each_size_and_what_was_not_measured_is_empty() -> None:
    speeds = (
        CollectiveSpeed(Collective.ALL_REDUCE, 2**30, 0.01, 188e9),
        CollectiveSpeed(Collective.ALL_GATHER, 2**30, 0.01, 94.25e9),
    )
    report = replace(network(Verdict(Fault.NONE), {}), collectives=speeds, pairs=(), verdict=None)
    assert collective_rows(report) == [("1 GiB", "188 GB/s", "94.2 GB/s", "")]
    assert [format_size(size) for size in (2**20, 1048560, 2**29)] == ["1 MiB", "1 MiB", "512 MiB"]


def test_members_of_one_node_are_gpus() -> None:
    report = NetworkReport("cuda", 2, 1, "rank", LINKS[:1])
    assert member_names(report, ["vm"]) == ["GPU 0", "GPU 1"]


def disk(*speeds: float, kind: str = "nfs4", way: ReadWay = ReadWay.DIRECT) -> DiskReport:
    nodes = tuple(
        NodeDiskSpeed(rank, FileSystem(kind, "server:/x", "/shared"), speed, 2e9, way, (rank + 1) % len(speeds))
        for rank, speed in enumerate(speeds)
    )
    return DiskReport(2**30, 1, nodes, sum(speeds), 8e9)


def test_a_slow_node_and_another_file_system_are_named() -> None:
    report = disk(1e9, 1e9, 0.2e9, 1e9)
    assert disk_sentences(report, NAMES) == ["node3 is slow to write: 0.2 GB/s, the median is 1 GB/s."]
    few = disk_sentences(replace(report, bytes_per_rank=2**25), NAMES)
    assert few == ["No node is slower than the others, and all have the same file system."], "0.17 s are chance"
    other = replace(report.nodes[1], filesystem=FileSystem("ext4", "/dev/sda", "/"))
    odd = replace(report, nodes=(report.nodes[0], other, *report.nodes[3:]))
    assert disk_sentences(odd, NAMES) == [
        "node2: the run root is on ext4 (/dev/sda) there, on nfs4 (server:/x) elsewhere."
    ]
    assert differs(report) and differs(odd) and not differs(disk(1e9, 0.8e9))


def test_what_may_have_answered_a_read_is_reported() -> None:
    assert cache_sentences(disk(1e9, 1e9)) == ["The cache of the file server may have answered the reads."]
    assert "page cache" in cache_sentences(disk(1e9, 1e9, kind="ext4", way=ReadWay.CACHED))[0]
    assert "in memory" in cache_sentences(disk(1e9, 1e9, kind="tmpfs", way=ReadWay.MEMORY))[0]
    assert node_rows(disk(1e9, 1e9), NAMES)[0] == (
        *("node1", "1 GB/s", "2 GB/s", "direct of node2"),
        "nfs4 at /shared (server:/x)",
    )


def test_a_checkpoint_is_put_beside_the_speed_of_all_nodes() -> None:
    rows = dict(disk_rows(disk(1e9, 1e9), NAMES, ("llm7b", 80 * 2**30)))
    assert rows["checkpoint"] == "80.0 GiB of llm7b: 43 s to write, 11 s to read"


@pytest.mark.parametrize("text", ["", "1", "1T", "M", "-1M", "1M,,2M", "999999999999G", "1.5G", "1M;2M", "9" * 5000])
def test_bad_sizes_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no size"):
        parse_sizes(text)


def test_sizes_are_binary() -> None:
    assert parse_sizes("1M,64 MiB,1g") == [2**20, 2**26, 2**30]
