from __future__ import annotations

from fsdpctl.schema.keys import walk
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.specs.profile import ClusterProfile


def test_every_key_of_a_full_spec_is_walked() -> None:
    for spec, model in ((load_job("llm-tiny"), JobSpec), (load_profile("ssh-h100"), ClusterProfile)):
        known = {key.dotted: key for key in walk(model)}
        below = {key: value for key, value in spec.model_dump(mode="json").items() if isinstance(value, dict)}
        assert set(spec.model_dump()) <= set(known)
        for name, tree in below.items():
            assert known[name].is_mapping or {f"{name}.{key}" for key in tree} <= set(known)


def test_a_leaf_takes_a_value_and_a_group_does_not() -> None:
    known = {key.dotted: key for key in walk(JobSpec)}
    assert known["trainer"].has_keys and known["trainer.model"].has_keys and known["entrypoint"].has_keys
    assert not known["trainer.steps"].has_keys and not known["args"].has_keys
    assert known["env"].is_mapping and not known["trainer"].is_mapping
    assert "nodes.id" in {key.dotted for key in walk(ClusterProfile)}, "lists of mappings too"
