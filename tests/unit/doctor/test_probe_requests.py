from __future__ import annotations

import itertools
import json

from fsdpctl.contract.codec import decode, encode
from fsdpctl.contract.findings import LocalReport, ProbeRequest, Versions
from fsdpctl.doctor.probe_requests import MAX_PORTS_TRIED, connectivity_request, local_request, plan_nodes, spread
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.load import load_profile, parse_profile

HOST = SubmitHost("fsdpctl-doctor-1", "/runs/fsdpctl-doctor-1", "/", "python3", ())


def test_spares_are_checked_too() -> None:
    text = "name: p\nbackend: ssh\nnodes: [{id: a, address: a.x}]\nspares: [{id: b, address: b.x}]\n"
    assert [node.id for node in plan_nodes(parse_profile(text, "p"), HOST).nodes] == ["a", "b"]


def test_a_local_profile_is_one_node() -> None:
    assert [node.id for node in plan_nodes(load_profile("local"), HOST).nodes] == ["local0"]


def test_requests_survive_encoding() -> None:
    plan = plan_nodes(load_profile("ssh-h100"), HOST)
    head = LocalReport((), Versions(), 0.0, "10.0.0.10", tuple(range(24_000, 25_000)))
    for request in (local_request(plan, 1), connectivity_request(plan, 1, head, [0, 1])):
        assert decode(ProbeRequest, json.loads(json.dumps(encode(request)))) == request
        assert request.directory == "/runs/.fsdpctl-doctor-1"


def test_without_a_head_only_the_disk_is_compared() -> None:
    plan = plan_nodes(load_profile("ssh-h100"), HOST)
    for head in (None, LocalReport((), Versions(), 0.0, None, (24_000,))):
        request = connectivity_request(plan, 1, head, [0, 1])
        assert (request.head, request.ports, request.partners) == ("", (), (0, 1))


def test_ports_are_spread_over_the_range() -> None:
    chosen = spread(range(24_000, 25_000))
    assert (len(chosen), chosen[0], chosen[-1]) == (MAX_PORTS_TRIED, 24_000, 24_999)
    assert max(b - a for a, b in itertools.pairwise(chosen)) < 70
    assert spread([5, 7]) == (5, 7)
