from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsdpctl.contract.codec import CodecError, decode, encode, find_json, read_json, write_json
from fsdpctl.contract.records import Outcome, RankError


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    number: int
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outer:
    inner: Inner
    ratio: float
    colour: Colour
    table: dict[str, int] = field(default_factory=dict)
    maybe: Inner | None = None


FULL = Outer(Inner(1, ("a", "")), 0.5, Colour.RED, {"k": 2}, Inner(3))


def test_decode_inverts_encode() -> None:
    assert decode(Outer, json.loads(json.dumps(encode(FULL)))) == FULL


@given(st.builds(RankError, st.integers(), st.integers(), st.floats(allow_nan=False), st.text(), st.text()))
def test_any_record_is_decoded_unchanged(error: RankError) -> None:
    assert decode(RankError, json.loads(json.dumps(encode(error)))) == error


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inner": {"number": "1"}}, "inner.number: expected a whole number, got '1'"),
        ({"inner": {"number": True}}, "inner.number: expected a whole number, got True"),
        ({"inner": {"number": 1, "words": [1]}}, "inner.words[0]: expected text, got 1"),
        ({"inner": {"number": 1, "wrods": []}}, "inner.wrods: unknown key"),
        ({"inner": {}}, "inner.number: missing"),
        ({"colour": "blue"}, "colour: 'blue' is not one of red"),
        ({"ratio": None}, "ratio: expected a number, got None"),
        ({"table": []}, "table: expected a mapping"),
    ],
)
def test_a_wrong_value_is_named_by_its_key(change: dict[str, object], message: str) -> None:
    with pytest.raises(CodecError) as caught:
        decode(Outer, {**encode(FULL), **change})
    assert str(caught.value).startswith(message)


def test_a_file_is_private_and_names_itself_when_broken(tmp_path: Path) -> None:
    path = tmp_path / "outcome.json"
    write_json(path, Outcome("finished", 3))
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_json(Outcome, path) == Outcome("finished", 3)
    path.write_text(path.read_text()[:-5])
    with pytest.raises(CodecError, match=str(path)):
        read_json(Outcome, path)


def test_a_missing_or_broken_file_is_not_found(tmp_path: Path) -> None:
    path = tmp_path / "outcome.json"
    assert find_json(Outcome, path) is None
    path.write_text('{"status": "finished", "st')
    assert find_json(Outcome, path) is None
    write_json(path, Outcome("finished", 3))
    assert find_json(Outcome, path) == Outcome("finished", 3)


def test_a_failed_write_keeps_the_old_file_and_leaves_no_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_json(path, {"old": 1})
    with pytest.raises(TypeError):
        write_json(path, {"new": object()})
    assert json.loads(path.read_text()) == {"old": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_planted_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    import os

    victim = tmp_path / "victim"
    victim.write_text("untouched")
    path = tmp_path / "record.json"
    (tmp_path / f".record.json.{os.getpid()}").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"):
        write_json(path, {})
    assert victim.read_text() == "untouched"
