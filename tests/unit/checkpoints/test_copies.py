"""Copies of checkpoints on hosts that share no disk: what each host reports, their merged list, and rewinds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fsdpctl.checkpoints.listing import Stored, choose_removable
from fsdpctl.checkpoints.per_host_store import merge
from fsdpctl.contract.codec import decode, write_json
from fsdpctl.contract.formats.lease import lease_of
from fsdpctl.contract.formats.manifest import MANIFEST_FORMAT, Manifest, digest_file, write_manifest
from fsdpctl.contract.paths import RunPaths, checkpoint_name
from fsdpctl.contract.records import Rewind
from fsdpctl.node.queries.checkpoint_copies import HostCopy, find_rewind, set_aside_rewound
from fsdpctl.verbs.rewind import find_refusal

ROOT = Path("/runs/j-abcd/checkpoints")


def manifest(step: int, attempt: int = 1) -> Manifest:
    return Manifest(MANIFEST_FORMAT, step, attempt, 8, (2, 4), {}, "none", "2.13", 1e9, {})


def whole(step: int, attempt: int = 1) -> HostCopy:
    return HostCopy(checkpoint_name(step), manifest(step, attempt))


def save(run: RunPaths, step: int, attempt: int = 1) -> Path:
    directory = run.checkpoints / checkpoint_name(step)
    directory.mkdir(parents=True)
    (directory / "__0_0.distcp").write_bytes(bytes([step]) * 1000)
    files = {path.name: digest_file(path) for path in directory.iterdir()}
    write_manifest(directory, Manifest(MANIFEST_FORMAT, step, attempt, 8, (2, 4), {}, "none", "2.13", 1e9, files))
    return directory


def ask(run: RunPaths, verb: str, *names: str) -> dict[str, str]:
    argv = [sys.executable, "-m", "fsdpctl.node.queries.checkpoint_copies", verb, str(run.root), *names]
    answer = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return {copy.name: copy.problem for copy in decode(tuple[HostCopy, ...], json.loads(answer))}


def test_a_host_lists_verifies_and_removes_its_copies(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    assert ask(run, "list") == {}
    short, flipped, well = (save(run, step) for step in (4, 8, 12))
    (short / "__0_0.distcp").write_bytes(b"x")
    (flipped / "__0_0.distcp").write_bytes(b"x" * 1000)
    (run.checkpoints / "step-00000016.tmp-1-abcd").mkdir()
    too_short = "__0_0.distcp has 1 bytes, 1000 in the manifest"
    assert ask(run, "list") == {short.name: too_short, flipped.name: "", well.name: ""}
    verified = ask(run, "verify")
    assert "digest" in verified.pop(flipped.name) and verified == {short.name: too_short, well.name: ""}
    assert ask(run, "verify", well.name, "step-00000099") == {well.name: ""}
    lease = lease_of(short)
    lease.touch()
    assert ask(run, "remove", short.name) == {short.name: "it is being read"} and short.is_dir()
    lease.unlink()
    assert ask(run, "remove", short.name) == {short.name: ""}
    assert sorted(ask(run, "list")) == [flipped.name, well.name]


def test_a_checkpoint_is_whole_if_one_host_has_it_whole() -> None:
    answers = {
        "a": [whole(4), HostCopy(checkpoint_name(8), None, "it has no manifest")],
        "b": [whole(4, attempt=2), HostCopy(checkpoint_name(12), manifest(12), "cut"), whole(100_000_000)],
        "c": [],
    }
    known = [Stored(ROOT / checkpoint_name(step), manifest(step)) for step in (8, 2)]
    newest, twelfth, eighth, fourth, second = merge(ROOT, known, answers)
    assert (newest.path, newest.broken, newest.hosts) == (ROOT / "step-100000000", None, ["b"])
    assert (twelfth.broken, twelfth.manifest, twelfth.hosts) == ("b: cut", manifest(12), [])
    assert twelfth.problems == ["step-00000012 on b: cut"]
    assert (eighth.broken, eighth.manifest) == ("a: it has no manifest", manifest(8))
    assert (fourth.broken, fourth.manifest, fourth.hosts) == (None, manifest(4, attempt=2), ["a", "b"])
    assert second.broken == "no host that answers has it"
    assert second.problems == ["step-00000002: no host that answers has it"]
    assert merge(ROOT, [], {}) == []


@pytest.mark.parametrize(
    ("step", "attempt", "counts"),
    [(7, 1, True), (14, 1, False), (14, 2, True), (21, 2, True), (28, 3, False), (28, 4, True), (28, 0, False)],
)
def test_a_rewind_discards_later_checkpoints_of_older_attempts(step: int, attempt: int, counts: bool) -> None:
    rewinds = (Rewind(step=7, attempt=2), Rewind(step=21, attempt=4))
    assert (find_rewind(step, attempt, rewinds) is None) is counts


def test_a_host_moves_away_rewound_checkpoints_whenever_it_is_back(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    kept, left, damaged = (save(run, step) for step in (7, 14, 21))
    (damaged / "manifest.json").unlink()
    set_aside_rewound(run)
    assert left.exists(), "no rewind yet"
    write_json(run.rewinds, (Rewind(step=7, attempt=3),))
    again = save(run, 28, attempt=3)
    for _ in range(2):
        set_aside_rewound(run)
        assert kept.exists() and again.exists() and not left.exists() and not damaged.exists()
        assert sorted(path.name for path in (run.checkpoints / "set-aside-2").iterdir()) == [left.name, damaged.name]


def test_a_copy_of_an_unreachable_host_is_not_called_damaged() -> None:
    known = [Stored(ROOT / checkpoint_name(step), manifest(step)) for step in (12, 8)]
    removable, (away,) = choose_removable(merge(ROOT, known, {"a": [whole(8), whole(4)]}), 1, lambda stored: stored)
    assert [stored.path.name for stored in removable] == [checkpoint_name(4)]
    assert (away.path.name, away.broken) == (checkpoint_name(12), "no host that answers has it")


def test_a_rewind_needs_a_whole_copy_on_a_host_of_the_run() -> None:
    cut = HostCopy(checkpoint_name(12), manifest(12), "cut")
    found = merge(ROOT, [], {"a": [whole(4), cut], "b": [whole(8), whole(4)]})
    assert find_refusal(found, 4, ["a"]) is None
    assert find_refusal(found, 8, ["a", "b"]) is None
    assert find_refusal(found, 8, ["a"]) == "step 8 is on b only: none of a, with which the run would continue"
    there_are = "there are step-00000008 (b), step-00000004 (a, b)"
    for step in (12, 13):
        assert find_refusal(found, step, ["a"]) == (
            f"no host that answers has a complete checkpoint of step {step}; {there_are}"
        )
