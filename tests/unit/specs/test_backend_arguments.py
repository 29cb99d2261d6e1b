"""`--backend KEY=VALUE`: one run's backend from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.backends.slurm.profile_keys import SlurmSection
from fsdpctl.errors import UsageError
from fsdpctl.specs.load import read_profile

SLURM = "name: p\nbackend: {kind: slurm, partition: gpu, dependency: 'afterok:3', extra: [--mail-type=END]}\n"


def section(directory: Path, text: str, *arguments: str) -> dict[str, object]:
    """Return what arguments change in the section `backend` of a profile."""
    path = directory / "p.yaml"
    path.write_text(text)
    before, after = (read_profile(path, given).backend.model_dump() for given in ((), arguments))
    return {key: value for key, value in after.items() if before.get(key) != value}


@pytest.mark.parametrize(
    ("argument", "changed"),
    [
        ("partition=a,b", {"partition": "a,b"}),
        ("time=1h30m", {"time": "1h30m"}),
        ("qos=1", {"qos": "1"}),  # text, though it is a number
        ("mem=0", {"mem": "0"}),
        ("cpus-per-task=4", {"cpus_per_task": 4}),
        ("cpus_per_task=4", {"cpus_per_task": 4}),
        ("exclusive=true", {"exclusive": True}),
        ("dependency=", {"dependency": None}),
        ("dependency=afterok:7?singleton", {"dependency": "afterok:7?singleton"}),
        ("mail-user=me@x.y", {"extra": ("--mail-type=END", "--mail-user=me@x.y")}),
        ("mail-type=FAIL", {"extra": ("--mail-type=FAIL",)}),
        ("hold", {"extra": ("--mail-type=END", "--hold")}),
        ("extra=[--nice=3]", {"extra": ("--nice=3",)}),
    ],
)
def test_a_key_or_an_option_of_sbatch(argument: str, changed: dict[str, object], tmp_path: Path) -> None:
    assert section(tmp_path, SLURM, argument) == changed


def test_keys_of_other_backends(tmp_path: Path) -> None:
    ssh = "name: p\nbackend: ssh\nnodes: [{id: a, address: a}]\n"
    assert section(tmp_path, ssh, "user=me", "connect_timeout=3s") == {"user": "me", "connect_timeout": "3s"}
    container = SLURM.replace("partition: gpu", "container: {runtime: pyxis, image: a}")
    changed = section(tmp_path, container, "container.image=b", "container.python=python4")
    assert changed["container"]["image"] == "b"  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "argument", "message"),
    [
        (SLURM, "partition", "--backend partition: must be like partition=short"),
        (SLURM, "=x", "--backend =x: must be like partition=short"),
        (SLURM, "kind=ssh", "the profile is for slurm; --profile names another one"),
        (SLURM, "time=5", "--backend time=5: backend.time: a duration is written like"),
        (SLURM, "job-name=x", "--backend job-name=x: .*--job-name is set by fsdpctl"),
        (SLURM, "clusters=a", "--clusters cannot be set"),
        (SLURM, "qos=a\nb", "control character"),
        (SLURM, "a b=c", "an extra sbatch option is one string"),
        ("name: p\n", "partition=x", "--backend partition=x: backend.partition: unknown key"),
        ("name: p\nbackend: slurm\n", "exclusive=2", "--backend exclusive=2: backend.exclusive: must be true or false"),
        ("name: p\nbackend: {kind: pbs}\n", "queue=x", "pbs"),
        ("name: p\nbackend: [slurm]\n", "queue=x", "backend"),
        ("name: p\nbackend: {kind: slurm, extra: 3}\n", "hold", "backend.extra: must be a list"),
    ],
)
def test_what_cannot_be_set_is_refused_by_its_argument(text: str, argument: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        section(tmp_path, text, argument)


def test_every_key_can_be_set(tmp_path: Path) -> None:
    values = {"time": "1h", "cpus_per_task": "2", "exclusive": "true", "max_requeues": "2", "extra": "[--nice=3]"}
    keys = {*SlurmSection.model_fields} - {"kind", "container"}
    arguments = [f"{key}={values.get(key, 'x')}" for key in sorted(keys)]
    assert section(tmp_path, "name: p\nbackend: slurm\n", *arguments).keys() == keys
