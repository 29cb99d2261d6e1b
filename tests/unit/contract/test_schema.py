"""The node side of a run reads what a later `resume` writes: a new key there needs a new SCHEMA."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from pathlib import Path

from fsdpctl.contract import SCHEMA
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.runs.record import RunRecord

KEYS = Path(__file__).parents[2] / "older_runs" / "keys.txt"


def test_the_code_of_a_run_knows_every_key_of_its_schema() -> None:
    keys = [f"{name} {key}" for name, cls in WRITTEN.items() for key in sorted(set(_keys(cls)))]
    schema, *known = KEYS.read_text().splitlines()
    remedy = (
        f"the code in runs of schema {schema} refuses other keys than those in {KEYS}: if that schema was released,"
        " raise SCHEMA and put a run of it into tests/older_runs; then write schema and keys into that file"
    )
    assert [schema, *known] == [str(SCHEMA), *keys], remedy


WRITTEN = {"plan.json": LaunchPlan, "trainer.json": TrainerConfig, "run.json": RunRecord}


def _keys(hint: typing.Any) -> Iterator[str]:
    """Yield the key paths of a record; what a mapping has as keys is free."""
    if dataclasses.is_dataclass(hint):
        for name, of in typing.get_type_hints(hint).items():
            if name in {field.name for field in dataclasses.fields(hint)}:
                yield name
                yield from (f"{name}.{key}" for key in _keys(of))
    for of in typing.get_args(hint):
        yield from _keys(of)
