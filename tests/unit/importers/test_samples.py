"""Each sample becomes a job that loads; samples/README.md names the pages in whose format they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fsdpctl.importers.build import Wanted
from fsdpctl.importers.imported import Imported
from fsdpctl.importers.read import read
from fsdpctl.importers.write import job_text, profile_text
from fsdpctl.other_launchers.draft import Program
from fsdpctl.specs.load import job_document, parse_job, parse_profile
from fsdpctl.specs.search import find_job

SAMPLES = Path(__file__).parent / "samples"
NAMES = sorted(str(path.relative_to(SAMPLES)) for path in SAMPLES.glob("*/*"))


def load(name: str, *, bundled: bool = False) -> Imported:
    base = job_document(find_job("llm300m")).tree if bundled else None
    return read((SAMPLES / name).read_text(), name, Wanted("sample", base=base))


def load_text(text: str) -> Imported:
    return read(text, "x", Wanted("sample", base=job_document(find_job("llm300m")).tree))


def test_the_list_of_pages_has_every_sample() -> None:
    listed = re.findall(r"`([\w-]+/[\w.-]+)`", (SAMPLES / "README.md").read_text())
    assert sorted(listed) == NAMES and len(NAMES) >= 25


@pytest.mark.parametrize("bundled", [False, True], ids=["own", "bundled"])
@pytest.mark.parametrize("name", NAMES)
def test_a_sample_becomes_a_job_that_loads(name: str, bundled: bool) -> None:
    imported = load(name, bundled=bundled)
    assert imported.kind == name.partition("/")[0]
    job = parse_job(job_text(imported, name), "job.yaml")
    assert job.model_dump(mode="json", exclude_unset=True)["name"] == imported.job["name"]
    assert (job.trainer is not None) == (imported.program is Program.TRAINER)
    if imported.profile:
        parse_profile(profile_text(imported, name), "profile.yaml")
    lines = len((SAMPLES / name).read_text().splitlines())
    assert all(1 <= (note.location.line or 0) <= lines for note in imported.notes)


WORLDS = {
    "accelerate/fsdp1-numbers.yaml": (1, 2),
    "accelerate/fsdp1-names.yaml": (4, 8),
    "accelerate/fsdp2.yaml": (1, 8),
    "accelerate/multi-gpu.yaml": (2, 4),
    "deepspeed/config-json.json": (1, 8),
    "flat/hand-written.yaml": (2, 8),
    "flat/with-model.yaml": (2, 4),
    "flat/nested.yaml": (1, 8),
    "script/torchrun-two-nodes.sh": (2, 8),
    "script/multinode.sbatch": (4, 1),
    "script/accelerate-fsdp.sbatch": (4, 4),
    "script/deepspeed.sh": (2, 8),
    "script/srun-tasks.sbatch": (2, 4),
    "script/bash-c.sbatch": (2, None),
}


@pytest.mark.parametrize(("name", "world"), WORLDS.items())
def test_nodes_and_ranks(name: str, world: tuple[int, int | None]) -> None:
    job = load(name).job
    assert (job["nodes"], job.get("procs_per_node")) == world


@pytest.mark.parametrize(
    ("batch", "given", "world"),
    [
        (128, "num_nodes: 2\ngpus_per_node: 8", (2, 8)),
        (128, "num_nodes: 4", (4, 4)),
        (128, "gpus_per_node: 4", (4, 4)),
        (512, "", (8, 8)),
    ],
)
def test_the_batch_gives_only_what_the_file_does_not_have_of_the_world(
    batch: int, given: str, world: tuple[int, int]
) -> None:
    text = f"fsdp: true\nglobal_batch_size: {batch}\nmicro_batch_size: 2\ngrad_accum: 4\n{given}\n"
    imported = read(text, "x", Wanted("sample"))
    assert (imported.job["nodes"], imported.job["procs_per_node"]) == world
    assert ("global_batch_size" in {note.key for note in imported.notes}) == (not given)


TRAINERS: dict[str, dict[str, Any]] = {
    "accelerate/fsdp1-numbers.yaml": {"mesh.strategy": "FULL_SHARD", "precision": "fp32", "memory.cpu_offload": False},
    "accelerate/fsdp1-names.yaml": {
        **{"mesh.strategy": "_HYBRID_SHARD_ZERO2", "precision": "bf16", "memory.recompute": "full"},
    },
    "accelerate/fsdp2.yaml": {"mesh.strategy": "SHARD_GRAD_OP", "memory.recompute": "none"},
    "accelerate/fsdp1-reshard.yaml": {"mesh.strategy": "SHARD_GRAD_OP", "mesh.units": {"blocks": 0}, "compile": True},
    "accelerate/multi-gpu.yaml": {"mesh.strategy": "DDP", "precision": "fp16"},
    "accelerate/zero2.yaml": {"mesh.strategy": "SHARD_GRAD_OP", "optim.clip_norm": 1.0},
    "accelerate/zero3-offload.yaml": {"mesh.strategy": "FULL_SHARD", "optim.clip_norm": 0.7},
    "deepspeed/getting-started.json": {"precision": "fp16", "optim.lr": 0.00015, "batch.sequences": 8},
    "deepspeed/config-json.json": {
        **{"batch.sequences": 256, "batch.micro_batch": 4, "optim.beta1": 0.8, "optim.beta2": 0.999},
        **{"optim.schedule": "constant", "optim.warmup_steps": 1000, "log_every": 20, "optim.weight_decay": 3e-7},
    },
    "deepspeed/zero2.json": {"mesh.strategy": "SHARD_GRAD_OP", "batch.micro_batch": 2, "optim.clip_norm": 0.5},
    "deepspeed/zero3-offload.json": {
        **{"mesh.strategy": "FULL_SHARD", "memory.cpu_offload": True, "steps": 5000, "optim.schedule": "linear"},
    },
    "deepspeed/auto.json": {"mesh.strategy": "FULL_SHARD", "optim.lr": 6e-4, "batch.sequences": 256},  # of the base
    "deepspeed/mics.json": {"mesh.strategy": "HYBRID_SHARD", "mesh.shard": 2},
    "training-arguments/full-shard.json": {
        **{"mesh.strategy": "FULL_SHARD", "memory.recompute": "full", "optim.schedule": "cosine", "optim.lr": 5e-5},
    },
    "training-arguments/list-offload.json": {
        **{"mesh.strategy": "HYBRID_SHARD", "memory.cpu_offload": True, "steps": 4000, "optim.warmup_steps": 120},
        **{"checkpoint.every_steps": 500, "checkpoint.keep": 2, "eval.every_steps": 250, "seed": 7, "compile": True},
        "deterministic": True,
    },
    "flat/hand-written.yaml": {
        **{"mesh.strategy": "FULL_SHARD", "batch.sequences": 256, "batch.micro_batch": 4, "memory.recompute": "full"},
        **{"steps": 20000, "checkpoint.every_steps": 500, "optim.lr": 3e-4, "compile": True, "seed": 42},
    },
    "flat/nested.yaml": {"mesh.strategy": "SHARD_GRAD_OP", "batch.sequences": 64, "optim.schedule": "cosine"},
}


@pytest.mark.parametrize(("name", "expected"), TRAINERS.items())
def test_settings_of_the_bundled_trainer(name: str, expected: dict[str, Any]) -> None:
    trainer = load(name, bundled=True).job["trainer"]
    for key, value in expected.items():
        found = trainer
        for part in key.split("."):
            found = found[part]
        assert found == value, key
    assert trainer["model"]["d_model"] == 1024 or name.startswith("flat/"), "that of the base"


def test_a_file_with_all_sizes_is_a_job_of_the_bundled_trainer() -> None:
    imported = load("flat/with-model.yaml")
    assert imported.program is Program.TRAINER
    assert imported.job["trainer"]["model"]["head_dim"] == 64
    assert [note.key for note in imported.notes] == ["checkpoint.every_steps"]


SIZES = """fsdp: true
vocab_size: 32000
dim: 512
n_layers: 8
n_heads: 8
n_kv_heads: 4
ffn_dim: 1408
max_seq_len: 1024
"""


def test_all_sizes_of_a_model_carry_over_without_a_batch_and_single_ones_are_listed() -> None:
    base = job_document(find_job("llm300m")).tree
    expected = {"vocab_size": 32000, "d_model": 512, "layers": 8, "heads": 8, "kv_heads": 4, "head_dim": 64}
    for text in (SIZES, SIZES.replace("n_layers", "layers")):
        model = read(text, "x", Wanted("sample", base=base)).job["trainer"]["model"]
        assert model.items() >= {**expected, "ffn": 1408, "seq_len": 1024}.items()

    imported = read(SIZES.replace("ffn_dim: 1408\n", ""), "x", Wanted("sample", base=base))
    assert imported.job["trainer"]["model"] == {**base["trainer"]["model"], "seq_len": 1024}
    listed = {note.key: note.text for note in imported.notes}
    assert listed["model.d_model"] == "the model is that of --from: the file does not have its ffn"
    assert {f"model.{key}" for key in ("vocab_size", "layers", "heads", "kv_heads")} <= listed.keys()


def test_two_names_of_one_key() -> None:
    base = job_document(find_job("llm300m")).tree
    text = "fsdp: true\nbatch_size: 512\nmicro_batch_size: 2\nlr: 1e-3\nlearning_rate: 0.001\neval:\n  lr: 1e-4\n"
    imported = read(text, "x", Wanted("sample", base=base))
    assert imported.job["trainer"]["batch"] == {"sequences": 512, "micro_batch": 2}
    assert {note.key: note.text for note in imported.notes} == {
        "batch_size": "taken as the sequences of one step of all ranks",
        "eval.lr": "0.0001, but lr is 0.001, which means the same here: only one of them is taken",
    }


@pytest.mark.parametrize(
    ("text", "batch"),
    [
        (
            '{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 8, "zero_optimization": {}}',
            "16 sequences",
        ),
        ('{"gradient_accumulation_steps": 8, "zero_optimization": {}}', "8 micro-batches"),
        ('{"output_dir": "o", "gradient_accumulation_steps": 8}', "8 micro-batches"),
        ('{"output_dir": "o", "per_device_train_batch_size": 3}', "3 sequences"),
        ("fsdp: true\nmicro_batch_size: 2\ngrad_accum: 4", "8 sequences"),
        ("distributed_type: DEEPSPEED\ndeepspeed_config: {gradient_accumulation_steps: 4}", "4 micro-batches"),
        ("fsdp: true\nmicro_batch_size: 2\ngrad_accum: 4\nnodes: 2\ngpus_per_node: 4", ""),
        ('{"train_micro_batch_size_per_gpu": 2, "train_batch_size": 64}', ""),
    ],
)
def test_a_batch_that_depends_on_the_ranks_must_be_written(text: str, batch: str) -> None:
    base = job_document(find_job("llm300m")).tree
    imported = read(text, "x", Wanted("sample", base=base))
    found = [note.text for note in imported.notes if note.must_change]
    assert found == ([f"the global batch is {batch} x ranks here: write trainer.batch.sequences"] if batch else [])
    if "nodes" in text:
        assert imported.job["trainer"]["batch"]["sequences"] == 64


DUMPED = '"fsdp_config": {"min_num_params": 0, "xla": false, "xla_fsdp_v2": false, "xla_fsdp_grad_ckpt": false}'
"""Part of what `TrainingArguments.to_json_string` of transformers 4 writes, also without FSDP."""


@pytest.mark.parametrize(("fsdp", "strategy"), [("", "HYBRID_SHARD"), ("full_shard", "FULL_SHARD")])
def test_training_arguments_that_transformers_has_written(fsdp: str, strategy: str) -> None:
    imported = load_text(f'{{"output_dir": "o", "fsdp": "{fsdp}", {DUMPED}}}')
    assert imported.job["trainer"]["mesh"] == {"strategy": strategy, "units": {"blocks": 0}}  # units of the base
    assert [note.key for note in imported.notes] == ["output_dir"]


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        ('"warmup_ratio": 0.03, "warmup_steps": 0, "max_steps": 1010', 31),
        ('"warmup_ratio": 0.03, "warmup_steps": 7, "max_steps": 1010', 7),
        ('"warmup_steps": 0.05, "max_steps": 1010', 51),
        ('"warmup_steps": 100.0, "max_steps": 1010', 100),
        ('"warmup_steps": 0.0, "max_steps": 1010', 0),
        ('"warmup_steps": 0.05', None),
    ],
)
def test_a_warm_up_is_as_long_as_in_transformers(given: str, steps: int | None) -> None:
    imported = load_text(f'{{"output_dir": "o", {given}}}')
    own = job_document(find_job("llm300m")).tree["trainer"]["optim"]["warmup_steps"]
    assert imported.job["trainer"]["optim"]["warmup_steps"] == (own if steps is None else steps)
    noted = {note.key: note.text for note in imported.notes}
    assert noted.get("warmup_steps") == ("max_steps is not given: write optim.warmup_steps" if steps is None else None)


@pytest.mark.parametrize(
    ("given", "steps"), [("", 1000), (', "params": {"warmup_num_steps": 7}', 7), (', "params": {}', 1000)]
)
@pytest.mark.parametrize("kind", ["WarmupLR", "WarmupDecayLR", "WarmupCosineLR"])
def test_a_warm_up_of_deepspeed_has_its_default(kind: str, given: str, steps: int) -> None:
    imported = load_text(f'{{"zero_optimization": {{}}, "scheduler": {{"type": "{kind}"{given}}}}}')
    assert imported.job["trainer"]["optim"]["warmup_steps"] == steps


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ('{"output_dir": "o", "bf16": false, "fp16": false}', "fp32"),
        ('{"output_dir": "o", "bf16": false, "fp16": true}', "fp16"),
        ('{"output_dir": "o", "fp16": false}', None),
        ('{"zero_optimization": {}, "bf16": {"enabled": false}, "fp16": {"enabled": false}}', "fp32"),
        ('{"zero_optimization": {}, "bf16": {"enabled": false}, "fp16": {"enabled": "auto"}}', None),
    ],
)
def test_without_bf16_and_fp16_a_job_is_in_fp32(text: str, precision: str | None) -> None:
    assert load_text(text).job["trainer"].get("precision") == precision


@pytest.mark.parametrize(
    ("text", "ratio"),
    [
        ('{"output_dir": "o", "lr_scheduler_type": "cosine"}', 0),
        ('{"output_dir": "o", "lr_scheduler_type": "linear"}', 0),
        ('{"lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs": {"min_lr_rate": 0.2}}', 0.2),
        ('{"output_dir": "o", "lr_scheduler_type": "constant"}', None),
        ('{"scheduler": {"type": "WarmupDecayLR"}, "fp16": {}}', 0),
        ('{"scheduler": {"type": "WarmupCosineLR"}, "fp16": {}}', 0.0001),
        ('{"scheduler": {"type": "WarmupCosineLR", "params": {"cos_min_ratio": 0.3}}, "fp16": {}}', 0.3),
        ('{"scheduler": {"type": "WarmupLR"}, "fp16": {}}', None),
    ],
)
def test_the_learning_rate_ends_where_the_other_program_ends_it(text: str, ratio: float | None) -> None:
    base = job_document(find_job("llm300m")).tree
    before = base["trainer"]["optim"].get("min_lr_ratio")
    imported = read(text, "x", Wanted("sample", base=base))
    assert imported.job["trainer"]["optim"].get("min_lr_ratio") == (before if ratio is None else ratio)
    listed = {note.key: note.text for note in imported.notes}
    if "scheduler" in text and "lr_scheduler" not in text:
        assert listed["scheduler.params.warmup_type"] == "the warm-up is linear here; DeepSpeed's default is log"


ENVIRONMENTS = {
    "accelerate/fsdp1-numbers.yaml": {"FSDP_SHARDING_STRATEGY": "FULL_SHARD", "ACCELERATE_USE_FSDP": "true"},
    "accelerate/fsdp1-names.yaml": {
        **{"FSDP_SHARDING_STRATEGY": "HYBRID_SHARD_ZERO2", "FSDP_TRANSFORMER_CLS_TO_WRAP": "LlamaDecoderLayer"},
        **{"FSDP_ACTIVATION_CHECKPOINTING": "true", "ACCELERATE_MIXED_PRECISION": "bf16"},
    },
    "accelerate/fsdp2.yaml": {"FSDP_VERSION": "2", "FSDP_RESHARD_AFTER_FORWARD": "false"},
    "accelerate/size-based.yaml": {"FSDP_MIN_NUM_PARAMS": "2000000", "ACCELERATE_MIXED_PRECISION": "fp8"},
    "accelerate/zero2.yaml": {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_ZERO_STAGE": "2"},
    "script/accelerate-fsdp.sbatch": {"FSDP_SHARDING_STRATEGY": "HYBRID_SHARD", "GPUS_PER_NODE": "4"},
}


@pytest.mark.parametrize(("name", "expected"), ENVIRONMENTS.items())
def test_a_script_of_the_user_gets_the_variables_of_accelerate(name: str, expected: dict[str, str]) -> None:
    env = load(name).job["env"]
    assert {key: env.get(key) for key in expected} == expected


PROFILES: dict[str, dict[str, Any]] = {
    "accelerate/fsdp1-names.yaml": {
        **{"backend": "ssh", "nodes": [{"id": "node-0", "address": "10.1.2.3"}], "gpus_per_node": 8},
        **{"ports": {"first": 29511, "last": 29511}, "rendezvous": "c10d"},
    },
    "accelerate/cpu.yaml": {"gpus_per_node": 0},
    "script/torchrun-two-nodes.sh": {
        **{"backend": "ssh", "nodes": [{"id": "node-0", "address": "10.0.0.5"}], "gpus_per_node": 8},
        **{"ports": {"first": 29400, "last": 29400}},
    },
    "script/multinode.sbatch": {
        "backend": {"kind": "slurm", "partition": "gpu", "cpus_per_task": 4, "extra": ["--mail-type=END"]},
        "gpus_per_node": 1,
    },
    "script/srun-tasks.sbatch": {
        "backend": {
            **{"kind": "slurm", "partition": "gpu", "account": "my-project", "gres": "gpu:h100:4"},
            **{"cpus_per_task": 48, "mem": "0", "exclusive": True},
        },
        **{"gpus_per_node": 4, "modules": ["cuda/12.4"], "pass_env": ["HF_TOKEN"]},
    },
    "script/bash-c.sbatch": {
        "backend": {"kind": "slurm"},
        "environment": {"kind": "apptainer", "image": "image.sif", "mounts": ["/data:/data"]},
        **{"gpus_per_node": 8, "network": {"interface": "ib0"}},
        "setup": ["ulimit -l unlimited", 'export LD_LIBRARY_PATH="/opt/ofi/lib:$LD_LIBRARY_PATH"'],
    },
}


@pytest.mark.parametrize("name", NAMES)
def test_profiles(name: str) -> None:
    imported = load(name)
    if name in PROFILES:
        assert {key: value for key, value in imported.profile.items() if key != "name"} == PROFILES[name]
    elif "script/" not in name and name != "accelerate/multi-gpu.yaml":
        assert not imported.profile


@pytest.mark.parametrize("bundled", [False, True], ids=["own", "bundled"])
def test_a_recipe_for_fp8_is_named(bundled: bool) -> None:
    notes = load("accelerate/fp8.yaml", bundled=bundled).notes
    assert [(note.key, note.location.line) for note in notes if note.key.startswith("fp8")] == [("fp8_config", 9)]
