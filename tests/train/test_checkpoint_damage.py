"""Random damage to a checkpoint: none is accepted, and the one before it is taken, by name."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fsdpctl.contract.paths import RunPaths
from tests.train.single_rank import SingleRank
from train.checkpoint.verified_checkpoints import VerifiedCheckpoints

NUM_DAMAGES = 500


def any_file(rng: random.Random, checkpoint: Path) -> Path:
    return rng.choice(sorted(checkpoint.iterdir()))


def flip(rng: random.Random, checkpoint: Path) -> str:
    path = any_file(rng, checkpoint)
    data = bytearray(path.read_bytes())
    position, bit = rng.randrange(len(data)), rng.randrange(8)
    data[position] ^= 1 << bit
    path.write_bytes(data)
    return f"bit {bit} of byte {position} of {path.name}"


def cut(rng: random.Random, checkpoint: Path) -> str:
    path = any_file(rng, checkpoint)
    kept = rng.randrange(path.stat().st_size - 1)  # a manifest without its last newline is still whole
    path.write_bytes(path.read_bytes()[:kept])
    return f"{path.name} cut to {kept} bytes"


def lengthen(rng: random.Random, checkpoint: Path) -> str:
    path = any_file(rng, checkpoint)
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.randrange(1, 100)))
    return f"{path.name} lengthened"


def lose(rng: random.Random, checkpoint: Path) -> str:
    path = any_file(rng, checkpoint)
    path.unlink()
    return f"{path.name} lost"


def swap(rng: random.Random, checkpoint: Path) -> str:
    one, other = rng.sample(sorted(checkpoint.iterdir()), 2)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    return f"{one.name} and {other.name} swapped"


def mix_steps(rng: random.Random, checkpoint: Path) -> str:
    path = any_file(rng, checkpoint)
    shutil.copy(checkpoint.with_name("step-00000008") / path.name, path)
    return f"{path.name} of step 8"


def turn_into_a_directory(rng: random.Random, checkpoint: Path) -> str:
    path = any_file(rng, checkpoint)
    path.unlink()
    path.mkdir()
    return f"{path.name} a directory"


def edit_manifest(rng: random.Random, checkpoint: Path) -> str:
    path = checkpoint / "manifest.json"
    document = json.loads(path.read_text())
    parent, key = rng.choice(list(leaves(document)))
    if rng.random() < 0.3:
        del parent[key]
    else:
        parent[key] = rng.choice([None, 0, 7, -1, "x", "../x", [], {}, [1], {"a": 1}, 1e300, True])
    path.write_text(json.dumps(document))
    return f"{key} changed in the manifest"


def leaves(value: Any) -> Any:
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(item, dict | list):
            yield from leaves(item)


DAMAGES: list[Callable[[random.Random, Path], str]] = [
    *(flip, cut, lengthen, lose, swap, mix_steps, turn_into_a_directory, edit_manifest, edit_manifest)
]


def is_equal(manifest: Path, before: str) -> bool:
    """Return whether nothing changed: a value replaced by itself, or a bit of a time's last digit, beyond a float.

    Written anew, for Python takes 1 and true for equal, which the manifest's own digest does not.
    """
    try:
        return json.dumps(json.loads(manifest.read_text())) == json.dumps(json.loads(before))
    except (OSError, ValueError):
        return False


def test_no_damage_is_accepted(straight: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint, whole = straight / "checkpoints/step-00000012", tmp_path / "whole"
    shutil.copytree(checkpoint, whole)
    rng = random.Random(20261128)
    for number in range(NUM_DAMAGES):
        before = (whole / "manifest.json").read_text()
        damage = DAMAGES[number % len(DAMAGES)](rng, checkpoint)
        caplog.clear()
        found = VerifiedCheckpoints(RunPaths(straight), SingleRank(), 0, 2).find_newest()
        unchanged = "manifest" in damage and is_equal(checkpoint / "manifest.json", before)
        assert found is not None and found.step == (12 if unchanged else 8), f"damage {number}: {damage}"
        assert unchanged or "checkpoint step-00000012 is skipped" in caplog.text
        shutil.rmtree(checkpoint)
        shutil.copytree(whole, checkpoint)
