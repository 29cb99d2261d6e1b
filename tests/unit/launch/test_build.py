from __future__ import annotations

import json
from typing import Any

import pytest

from fsdpctl.commands.environment import node_env
from fsdpctl.commands.torchrun import torchrun_argv
from fsdpctl.contract.codec import decode, encode
from fsdpctl.contract.plan import AllocatedNode, Head, LaunchPlan, NodeContext
from fsdpctl.errors import UsageError
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.launch.preview import preview_json, preview_nodes, preview_text
from fsdpctl.specs.load import load_job, load_profile, parse_job, parse_profile
from tests.processor_time import done_within

SITE = SubmitHost(
    run_id="llm-k3f9", run_dir="/runs/llm-k3f9", submit_dir="/home/me/project", python="/venv/bin/python", gpus=()
)
GPUS = SubmitHost(**{**SITE.__dict__, "gpus": ("0", "1", "2", "3")})
SCRIPT = "name: probe\nnodes: 2\nentrypoint: {script: train.py}\n"


def plan(profile: str = "local", job: str = "llm-tiny", host: SubmitHost = SITE, *overrides: str) -> LaunchPlan:
    return build_plan(load_profile(profile), load_job(job, overrides), host)


def local(extra: str, host: SubmitHost = SITE, job: str = SCRIPT) -> LaunchPlan:
    profile = parse_profile(f"name: p\nbackend: local\n{extra}", "p.yaml")
    return build_plan(profile, parse_job(job, "j.yaml"), host)


def test_a_plan_survives_encoding() -> None:
    for profile in ("local", "ssh-h100", "slurm-h100"):
        made = plan(profile, "llm300m", SITE, "nodes=2")
        assert decode(LaunchPlan, json.loads(json.dumps(encode(made)))) == made


def test_the_mesh_shards_within_a_node() -> None:
    made = plan("ssh-h100", "llm300m", SITE, "nodes=2")
    assert made.mesh is not None
    assert (made.mesh.replicate, made.mesh.shard) == (2, 8)
    assert made.mesh.shard_groups() == [range(8), range(8, 16)]
    assert list(made.mesh.replicate_groups()[3]) == [3, 11]


def test_a_preview_of_a_million_ranks_is_short() -> None:
    ranks = 1024 * 1024
    sizes = (f"trainer.batch={{sequences: {ranks}, micro_batch: 1}}", "nodes=1024", "procs_per_node=1024")
    rows = preview_text(plan("local", "llm-tiny", SITE, *sizes)).splitlines()
    shard, replicate = (next(row for row in rows if f" {kind}: " in row) for kind in ("shard", "replicate"))
    assert shard.count("[") == replicate.count("[") == 4
    assert shard.endswith(f"... {ranks - 1}]")
    assert replicate.endswith(f" ... {ranks - 1}]")


@pytest.mark.parametrize(
    ("extra", "host", "procs", "visible"),
    [
        ("", SITE, 2, [None, None]),
        ("", GPUS, 2, ["0,1", "2,3"]),
        ("gpus_per_node: 1", GPUS, 1, ["0", "1"]),
        ("gpus_per_node: 0", GPUS, 2, [None, None]),
        ("procs_per_node: 1", GPUS, 1, ["0,1", "2,3"]),
    ],
)
def test_local_nodes_share_the_gpus(extra: str, host: SubmitHost, procs: int, visible: list[str | None]) -> None:
    made = local(extra, host)
    assert made.procs_per_node == procs
    assert [node.env.get("CUDA_VISIBLE_DEVICES") for node in made.nodes] == visible
    assert made.device == ("cuda" if visible[0] else "cpu")


@pytest.mark.parametrize(
    ("extra", "host", "job", "message"),
    [
        ("", GPUS, SCRIPT.replace("2", "3"), "4 GPUs do not divide over 3 local nodes"),
        ("gpus_per_node: 4", GPUS, SCRIPT, "2 nodes x 4 GPUs wanted, but this machine has 4"),
        ("", GPUS, SCRIPT + "procs_per_node: 4\n", "4 ranks a node need as many GPUs, but a node has 2"),
    ],
)
def test_a_job_that_does_not_fit_is_refused(extra: str, host: SubmitHost, job: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        local(extra, host, job)


def test_all_problems_come_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        plan("ssh-h100", "llm-tiny", SITE, "nodes=9", "procs_per_node=9", "trainer.mesh.shard=5")
    for part in ("nodes: 9 wanted, but the profile lists", "procs_per_node: 9 ranks", "trainer.mesh: shard 5"):
        assert part in str(caught.value)


PRIVATE = "name: p\nbackend: {kind: ssh, shared_filesystem: false}\nprocs_per_node: 2\nnodes:\n" + "".join(
    f"  - {{id: n{n}, address: 10.0.0.{n}}}\n" for n in (1, 2)
)


@pytest.mark.parametrize(
    ("mesh", "fits"),
    [
        ("{strategy: HYBRID_SHARD}", True),
        ("{strategy: _HYBRID_SHARD_ZERO2}", True),
        ("{strategy: NO_SHARD}", True),
        ("{strategy: DDP}", True),
        ("{strategy: FULL_SHARD}", False),
        ("{strategy: HYBRID_SHARD, shard: 4}", False),
    ],
)
def test_without_a_shared_disk_each_node_must_hold_a_whole_copy(mesh: str, fits: bool) -> None:
    profile, job = parse_profile(PRIVATE, "p.yaml"), load_job("llm-tiny", [f"trainer.mesh={mesh}", "nodes=2"])
    if fits:
        assert not build_plan(profile, job, SITE).shared_disk
    else:
        with pytest.raises(UsageError, match="over 4 ranks, a node has 2; without a shared disk"):
            build_plan(profile, job, SITE)


def test_the_command_of_a_node() -> None:
    made = local("allow_loopback: true\nmaster_address: 127.0.0.1")
    context = NodeContext(node_rank=1, attempt=3, head_address="127.0.0.1", port=24_001, interface="lo")
    assert torchrun_argv(made, context) == [
        "/venv/bin/python",
        "-m",
        "fsdpctl.node.agent.torchrun",
        "--nnodes=2",
        "--nproc-per-node=2",
        "--node-rank=1",
        "--master-addr=127.0.0.1",
        "--master-port=24001",
        "--rdzv-id=llm-k3f9.3",
        "--rdzv-conf=timeout=180",
        "--max-restarts=0",
        "--log-dir=/runs/llm-k3f9/attempts/3/node-1/torchrun",
        "-m",
        "fsdpctl.node.agent.rank",
        "train.py",
    ]


def test_under_c10d_the_node_with_rank_0_is_the_host() -> None:
    made = local("rendezvous: c10d")
    for rank, is_host in ((0, "true"), (1, "false")):
        argv = torchrun_argv(made, NodeContext(rank, 1, "10.0.0.1", 24_000, None))
        assert f"--rdzv-conf=is_host={is_host},join_timeout=180" in argv
        assert "--rdzv-endpoint=10.0.0.1:24000" in argv
        assert not any(word.startswith("--node-rank") for word in argv)


def test_the_environment_of_a_node_overrides_that_of_job_and_profile() -> None:
    profile: dict[str, Any] = {
        "name": "p",
        "backend": "ssh",
        "nodes": [{"id": "a", "address": "10.0.0.1", "env": {"WHO": "node"}}],
        "gpus_per_node": 8,
        "network": {"ib_hcas": ["mlx5_0", "mlx5_1:1"], "ib_gid_index": 3, "nccl": {"NCCL_IB_TIMEOUT": "22"}},
        "env": {"WHO": "profile", "A": "profile", "B": "profile"},
    }
    job = "name: j\nentrypoint: {script: x.py}\nenv: {WHO: job, A: job}\n"
    made = build_plan(parse_profile(json.dumps(profile), "p"), parse_job(job, "j"), SITE)
    env = node_env(made, NodeContext(0, 1, "10.0.0.1", 24_000, "ib0"))
    assert (env["WHO"], env["A"], env["B"]) == ("node", "job", "profile")
    assert env["NCCL_IB_HCA"] == "mlx5_0,mlx5_1:1"
    assert (env["NCCL_IB_GID_INDEX"], env["NCCL_IB_TIMEOUT"]) == ("3", "22")
    assert env["NCCL_SOCKET_IFNAME"] == env["GLOO_SOCKET_IFNAME"] == env["FSDPCTL_IFNAME"] == "ib0"


def test_an_explicit_head_address_always_wins() -> None:
    assert local("master_address: head.example\nnetwork: {interface: eth1}").head == Head(
        "head.example", "master_address of profile p"
    )
    assert local("network: {interface: eth1}").head == Head(None, "the address of interface eth1 on the head")


@pytest.mark.parametrize("profile", ["local", "ssh-h100", "slurm-h100"])
def test_only_head_and_port_are_placeholders_in_a_preview(profile: str) -> None:
    made = plan(profile, "llm300m", SITE, "nodes=2")
    for node in preview_nodes(made):
        for text in (*node.argv, *node.env.values()):
            assert "<" not in text.replace("<head>", "").replace("<port>", "")
    text = preview_text(made)
    assert "(replicate x shard), HYBRID_SHARD" in text
    assert text.count("$ ") >= 2
    assert len(preview_json(made)["nodes"]) == 2


def test_a_preview_of_a_thousand_nodes_is_quick() -> None:
    profile = load_profile("slurm-h100")
    job = load_job("llm300m", ["nodes=1000", "trainer.batch.sequences=8000"])
    done_within(0.5, lambda: preview_text(build_plan(profile, job, SITE)))


def test_a_pythonpath_in_env_comes_after_the_copy_and_is_refused_for_the_bundled_trainer() -> None:
    keys = "env: {PYTHONPATH: /site}\n"
    for job, path in ((SCRIPT, "/site"), (f"{SCRIPT}env: {{PYTHONPATH: 'src:/mine'}}\n", "src:/mine")):
        made = local(keys, job=job)
        given = node_env(made, NodeContext(1, 1, "a", 1, None))
        assert (given["PYTHONPATH"], given["PYTHONSAFEPATH"]) == (f"/runs/llm-k3f9/code:{path}", "1")
    profile = parse_profile(f"name: p\n{keys}", "p.yaml")
    with pytest.raises(UsageError, match=r"env\.PYTHONPATH: the bundled trainer imports its own copy"):
        build_plan(profile, load_job("llm-tiny"), SITE)
    own = build_plan(profile, load_job("llm-tiny", ['env.PYTHONPATH=""']), SITE)
    assert node_env(own, NodeContext(0, 1, "a", 1, None))["PYTHONPATH"] == "/runs/llm-k3f9/code"


def test_no_variable_of_env_is_ignored() -> None:
    """What fsdpctl sets after `env`, an `env` cannot have."""
    ours = node_env(local(""), NodeContext(0, 1, "a", 1, "eth0"))
    for name in ours.keys() - {"PYTHONPATH", "OMP_NUM_THREADS", "PYTHONUNBUFFERED"}:
        try:
            made = local("", job=f"{SCRIPT}env: {{{name}: given}}\n")
        except UsageError:
            continue
        assert node_env(made, NodeContext(0, 1, "a", 1, "eth0"))[name] == "given", name


def test_a_suffix_of_host_names_is_on_every_name_and_on_no_ip_address() -> None:
    keys = "backend: ssh\nhostname_suffix: .cluster.example\ngpus_per_node: 8\n"
    nodes = "nodes: [{id: a, address: n1}, {id: b, address: 10.0.0.2}]\nspares: [{id: c, address: n3}]\n"
    made = build_plan(parse_profile(f"name: p\n{keys}{nodes}", "p.yaml"), parse_job(SCRIPT, "j.yaml"), SITE)
    assert made.ssh is not None
    found = [node.address for node in (*made.nodes, *made.ssh.nodes, *made.ssh.spares)]
    assert found == [*["n1.cluster.example", "10.0.0.2"] * 2, "n3.cluster.example"]
    slurm = "backend: slurm\nhostname_suffix: -ib\ngpus_per_node: 8\nruns_root: /shared\n"
    planned = build_plan(parse_profile(f"name: p\n{slurm}", "p.yaml"), parse_job(SCRIPT, "j.yaml"), SITE)
    placed = planned.place([AllocatedNode("n1", "n1"), AllocatedNode("n2", "10.0.0.2")])
    assert [(node.id, node.address) for node in placed.nodes] == [("n1", "n1-ib"), ("n2", "10.0.0.2")]
    with pytest.raises(UsageError, match="hostname_suffix: a suffix of host names begins with"):
        local("hostname_suffix: cluster\n")


@pytest.mark.parametrize(
    ("host", "overrides", "warm"),
    [(SITE, (), True), (GPUS, (), True), (GPUS, ("warm=false",), False)],
)
def test_the_trainer_is_warm_unless_the_job_asks_for_a_cold_start(
    host: SubmitHost, overrides: tuple[str, ...], warm: bool
) -> None:
    assert plan("local", "llm-tiny", host, *overrides).warm is warm
