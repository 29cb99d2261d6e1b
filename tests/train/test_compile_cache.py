"""Which cache of the compiler the nodes of an attempt use, and what is refused. With a compiler: backends/local."""

from __future__ import annotations

import io
import os
import re
import sys
import tarfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fsdpctl.contract.codec import decode
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.rank_progress import RankProgressWriter
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from tests.testbed.disks import Mount
from tests.train.ranks import Config, start
from train.compile_cache.archive import pack, unpack
from train.compile_cache.cache import CACHE_DIR, CompileCache
from train.compile_cache.choose import Choice, Offer, choose
from train.compile_cache.key import compute_key
from train.compile_cache.node_caches import NodeCaches
from train.compile_cache.stored import Stored, Unusable, read_stored, write_stored
from train.config import load_config
from train.context import RankContext
from train.launch import LaunchEnv
from train.parallel.layout import plan_layout
from train.parallel.rank_info import RankInfo
from train.parallel.world import World
from train.preempt import Stopper

STORED = Stored("key", "a", b"payload")


@pytest.mark.parametrize(
    ("offers", "choice"),
    [
        ([Offer("k"), Offer("k")], Choice("new")),
        ([Offer("k", ("a",)), Offer("k", ("a",))], Choice("a", 0)),
        ([Offer("k", ("a",)), Offer("k")], Choice("a", 0, (1,))),
        ([Offer("k"), Offer("k", ("b",)), Offer("k", ("a", "b"))], Choice("b", 1, (0,))),
        ([Offer("k", ("b",), "a"), Offer("k", ("c",))], Choice("a", 0, (0, 1))),
        ([Offer("k"), Offer("k", stored="a")], Choice("a", 1, (0, 1))),
        ([Offer("k", ("a",)), Offer("other")], Choice(problem="the nodes differ in code, versions or cards")),
        ([Offer("k", ("a",)), Offer("", problem="full")], Choice(problem="node 1: full")),
    ],
)
def test_all_nodes_use_one_cache_or_an_empty_one(offers: list[Offer], choice: Choice) -> None:
    assert choose(offers, "new") == choice


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"!")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def from_another_version(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"cache 1", b"cache 2"))


def rename_inside(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b" a ", b" b "))


def open_to_others(path: Path) -> None:
    path.chmod(0o660)


def open_directory(path: Path) -> None:
    path.parent.chmod(0o777)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (damage, "damaged"),
        (cut, "damaged"),
        (rename_inside, "damaged"),
        (from_another_version, "not a cache of this version"),
        (open_to_others, "another user could have written it"),
        (open_directory, "another user could have written it"),
    ],
)
def test_a_stored_cache_that_cannot_be_trusted_is_refused(
    tmp_path: Path, change: Callable[[Path], None], reason: str
) -> None:
    path = tmp_path / "run" / "compile-cache"
    path.parent.mkdir(mode=0o700)
    assert read_stored(path, "key") is None
    write_stored(path, STORED)
    assert read_stored(path, "key") == STORED
    with pytest.raises(Unusable, match="made for other code"):
        read_stored(path, "other")
    assert os.listdir(path.parent) == ["compile-cache"]
    change(path)
    with pytest.raises(Unusable, match=reason):
        read_stored(path, "key")


def test_an_archive_has_what_the_compiler_made_and_nothing_of_this_node(tmp_path: Path) -> None:
    made = tmp_path / "made"
    for name in ("fxgraph/ab/1", "cd/kernel.so", "triton/0/paths.json", "locks/l", "ready", "in-use", "cd/.1.2.tmp"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(name)
    unpack(pack(made), tmp_path / "copy")
    copied = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*") if path.is_file()}
    assert copied == {"fxgraph/ab/1", "cd/kernel.so"}
    assert (tmp_path / "copy/cd/kernel.so").read_text() == "cd/kernel.so"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../out", tarfile.REGTYPE),
        ("/out", tarfile.REGTYPE),
        ("a", tarfile.SYMTYPE),
        ("a", tarfile.LNKTYPE),
        ("a", tarfile.FIFOTYPE),
        ("in-use", tarfile.REGTYPE),
    ],
)
def test_an_archive_leads_nowhere_else(tmp_path: Path, name: str, kind: bytes) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.type = kind
        archive.addfile(member)
    with pytest.raises(tarfile.ReadError):
        unpack(buffer.getvalue(), tmp_path / "cache")
    assert not (tmp_path / "out").exists()


def test_a_damaged_archive_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "kernel").write_bytes(bytes(i * i % 251 for i in range(5000)))
    payload, errors = pack(tmp_path / "made"), []
    for place in range(10, len(payload), 3):
        for damaged in (payload[:place], payload[:place] + b"\xff" + payload[place + 1 :]):
            try:
                unpack(damaged, tmp_path / "copy")
            except (OSError, tarfile.TarError) as error:
                errors.append(str(error))
    assert any("invalid" in error for error in errors) and any("ended before" in error for error in errors), {*errors}


def test_a_cache_that_fills_a_disk_is_taken_back(tmp_path: Path, small_disk: Mount) -> None:
    (tmp_path / "made").mkdir()
    for number in range(8):
        (tmp_path / "made" / str(number)).write_bytes(os.urandom(2**20))
    payload = pack(tmp_path / "made")
    caches = NodeCaches(small_disk.path / "inductor")
    caches.open("key")
    small_disk.fill(leave=3 * 2**20)
    with pytest.raises(OSError, match="No space left"):
        caches.take("a", payload)
    caches.drop("a")
    assert os.listdir(caches.root) == [] and caches.use("b").is_dir()
    free = os.statvfs(small_disk.path)
    assert free.f_bavail * free.f_frsize > 2.5 * 2**20

    path = small_disk.path / "compile-cache"
    write_stored(path, STORED)
    with pytest.raises(OSError, match="No space left"):
        write_stored(path, Stored("key", "b", payload))
    assert read_stored(path, "key") == STORED
    assert sorted(os.listdir(small_disk.path)) == ["ballast", "compile-cache", "inductor"]


def test_writers_that_are_killed_leave_one_file(tmp_path: Path) -> None:
    for _ in range(3):
        if not (pid := os.fork()):
            sys.addaudithook(lambda event, _: os.kill(os.getpid(), 9) if event == "os.rename" else None)
            write_stored(tmp_path / "compile-cache", STORED)
        os.waitpid(pid, 0)
    assert os.listdir(tmp_path) == [".compile-cache.new"]
    write_stored(tmp_path / "compile-cache", STORED)
    assert os.listdir(tmp_path) == ["compile-cache"]


def test_caches_of_other_keys_go_after_a_month_without_use(tmp_path: Path) -> None:
    caches, other = NodeCaches(tmp_path / "inductor"), NodeCaches(tmp_path / "inductor")
    for key in ("used", "recent", "old"):
        other.open(key)
        other.use("a")
        other.mark_ready("a")
    other.open("used")
    other.use("a")
    for key in ("used", "old"):
        os.utime(caches._own / key / "a" / "in-use", (1, 1))
    caches.open("key")
    caches.use("b")
    caches.remove_unused("b")
    assert sorted(os.listdir(caches._own)) == ["key", "recent", "used"]


def test_a_cache_that_is_removed_before_its_lock_is_held_is_made_again(tmp_path: Path) -> None:
    caches, other = NodeCaches(tmp_path / "inductor"), NodeCaches(tmp_path / "inductor")
    for each in (caches, other):
        each.open("key")
    if not (pid := os.fork()):  # a hook cannot be taken back
        code = 1
        try:
            code = 0 if _is_made_again(caches, other) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _is_made_again(caches: NodeCaches, other: NodeCaches) -> bool:
    removed: list[str] = []

    def remove(event: str, _: object) -> None:
        if event == "fcntl.flock" and not removed:
            removed.extend(os.listdir(other.root))
            other.remove_unused("b")

    sys.addaudithook(remove)
    directory = caches.use("a")
    other.remove_unused("b")
    return removed == ["a"] and directory.is_dir()


def test_a_node_keeps_one_cache_of_a_key_and_those_in_use(tmp_path: Path) -> None:
    one, another = NodeCaches(tmp_path / "inductor"), NodeCaches(tmp_path / "inductor")
    for caches in (one, another):
        caches.open("key")
    one.use("old")
    one.mark_ready("old")
    os.utime(one.use("unfinished").parent / "old" / "ready", (1, 1))
    another.use("new")
    another.mark_ready("new")
    assert one.ready() == ("new", "old")
    another.remove_unused("new")
    assert sorted(os.listdir(one.root)) == ["new", "unfinished"]
    assert one.ready() == ("new",)

    (tmp_path / "inductor" / f"fsdpctl-{os.geteuid()}").chmod(0o777)
    with pytest.raises(PermissionError, match="another user could write there"):
        one.open("key")


def test_the_key_is_of_what_shapes_the_graphs(config: Config) -> None:
    cpu = torch.device("cpu")
    first = decode(TrainerConfig, config)
    key = compute_key(first, 2, 2, cpu)
    other_rate = replace(first, steps=99, optim=replace(first.optim, lr=1.0))
    assert key == compute_key(other_rate, 2, 2, cpu) == compute_key(first, 2, 64, cpu)
    other_model = replace(first, model=replace(first.model, layers=3))
    documents = replace(first, data=replace(first.data, attention="document"))
    others = {compute_key(other, 2, 2, cpu) for other in (other_model, documents)}
    assert len({key, *others, compute_key(first, 4, 2, cpu), compute_key(first, 2, 1, cpu)}) == 5


@pytest.mark.parametrize("given", ["ready", "stored"])
def test_a_node_on_a_disk_of_its_own_gets_the_cache_of_another(tmp_path: Path, config: Config, given: str) -> None:
    """Node 1 has it, in its own directory or in its copy of the run; node 0 is new."""
    key = compute_key(decode(TrainerConfig, {**config, "compile": True}), 2, 2, torch.device("cpu"))
    made = NodeCaches(tmp_path / "compiler-1")
    made.open(key)
    (made.use("a") / "graph").write_text("of node 1")
    if given == "ready":
        made.mark_ready("a")
    else:
        (tmp_path / "disk-1").mkdir(mode=0o700)
        write_stored(tmp_path / "disk-1" / "compile-cache", Stored(key, "a", pack(made.directory("a"))))
    ranks = start(tmp_path, {**config, "compile": True}, 2, 1, own_disks=True, fault=agree, fault_args=(tmp_path,))
    assert ranks.wait() == [0, 0], ranks.log()
    takers = "0" if given == "ready" else "0, 1"
    assert f"compile cache: node {takers} got it from node 1" in ranks.log()
    for node in (0, 1):
        assert f"node {node} uses {tmp_path}/compiler-{node}/fsdpctl-{os.geteuid()}/{key}/a: of node 1" in ranks.log()


def test_all_nodes_begin_with_an_empty_cache_where_one_cannot_take_it(tmp_path: Path, config: Config) -> None:
    key = compute_key(decode(TrainerConfig, {**config, "compile": True}), 2, 2, torch.device("cpu"))
    made = NodeCaches(tmp_path / "compiler-1")
    made.open(key)
    (made.use("a") / "graph").write_text("of node 1")
    made.mark_ready("a")
    (tmp_path / "compiler-0" / f"fsdpctl-{os.geteuid()}" / key).mkdir(mode=0o700, parents=True)
    (tmp_path / "compiler-0" / f"fsdpctl-{os.geteuid()}" / key / "a").write_text("no directory")
    ranks = start(tmp_path, {**config, "compile": True}, 2, 1, own_disks=True, fault=agree, fault_args=(tmp_path,))
    assert ranks.wait() == [0, 0], ranks.log()
    assert "compile cache: empty on all nodes, since on rank 0: " in ranks.log()
    names = re.findall(rf"uses .*/{key}/(\w+): nothing", ranks.log())
    assert len(names) == 2 and len({*names, "a"}) == 2, "another one, the same on both nodes"


def agree(root: Path) -> None:
    """Agree on a cache as the trainer does, print it, and end the process."""
    from train.__main__ import _set_up_logging

    rank_info = RankInfo.from_env(os.environ)
    os.environ[CACHE_DIR] = str(root / f"compiler-{rank_info.node}")
    _set_up_logging(rank_info)
    disk = root / f"disk-{rank_info.node}"
    config, launch = load_config(disk / "trainer.json"), replace(LaunchEnv.from_env({}), node_dir=disk)
    world, layout = World(rank_info, shared_disk=False), plan_layout(config, rank_info)
    progress, cleanup = RankProgressWriter(None), ExitStack()
    CompileCache(RankContext(config, layout, RunPaths(disk), launch, world, Stopper(None), progress, cleanup))
    used = Path(os.environ[CACHE_DIR])
    content = (used / "graph").read_text() if (used / "graph").exists() else "nothing"
    print(f"node {rank_info.node} uses {used}: {content}", file=sys.stderr)
    world.close()
    sys.exit(0)
