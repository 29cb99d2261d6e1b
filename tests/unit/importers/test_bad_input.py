"""What is no configuration, contradicts itself or is meant to do harm: all problems, with their lines, and no job."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsdpctl.errors import UsageError
from fsdpctl.importers.build import Wanted
from fsdpctl.importers.imported import Imported
from fsdpctl.importers.read import read
from fsdpctl.importers.table import KINDS
from fsdpctl.importers.write import profile_text
from fsdpctl.schema.dump import dump_tree
from fsdpctl.specs.load import job_document, parse_job, parse_profile
from fsdpctl.specs.search import find_job
from tests.processor_time import done_within

BASE = job_document(find_job("llm300m")).tree


def load(text: str, *, bundled: bool = False, kind: str | None = None) -> Imported:
    return read(text, "x", Wanted("sample", base=BASE if bundled else None), kind)


def refused(text: str, **given: object) -> str:
    with pytest.raises(UsageError) as caught:
        load(text, **given)  # type: ignore[arg-type]
    return caught.value.message


BOMB = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [*{last}, *{last}]\n" for last, name in zip("abcdef", "bcdefg", strict=True)
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BOMB, "anchors (&) and aliases (*) are not allowed"),
        ("fsdp: !!python/object/apply:os.system ['touch owned']\n", "the tag tag:yaml.org,2002:python/object/apply"),
        ("fsdp: true\n---\nlr: 1\n", "a second document"),
        ("[" * 100, "nested more than 50 deep"),
        ("fsdp: true\nlr: 1\nlr: 2\n", "x:3: lr: given twice, first on line 2"),
        ("", "empty; must be a mapping"),
        ("just text", "must be a mapping of keys to values"),
        ("- 1\n- 2\n", "must be a mapping of keys to values"),
        ("{'fsdp': ", "not valid YAML"),
        ("hello: 1\nworld: 2\n", "no key of it is one by which a kind of file is known"),
        ("\x00\x01", "the character U+0000 is not allowed"),
        ("name: x\nentrypoint: {script: a.py}\n", "is a job of fsdpctl already"),
    ],
)
def test_no_configuration(text: str, expected: str) -> None:
    assert expected in refused(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "fsdp: true\nsharding_strategy: FULL_SHRAD",
            'x:2: sharding_strategy: "FULL_SHRAD" is no sharding strategy; did you mean FULL_SHARD?',
        ),
        (
            "fsdp: true\nsharding_strategy: 7",
            "x:2: sharding_strategy: no sharding strategy has the number 7; there are 1 FULL_SHARD",
        ),
        (
            "fsdp: false\nsharding_strategy: FULL_SHARD",
            "x:1: fsdp: is false, but the strategy is FULL_SHARD; keep one of them",
        ),
        (
            "fsdp: true\nworld_size: 16\nnodes: 2\ngpus_per_node: 4",
            "x:2: world_size: 16, but nodes 2 x gpus_per_node 4 = 8",
        ),
        ("fsdp: true\nworld_size: 10\nnodes: 4", "x:2: world_size: 10 does not divide over nodes 4"),
        ("fsdp: true\nworld_size: 10\ngpus_per_node: 4", "x:2: world_size: 10 is no multiple of gpus_per_node 4"),
        (
            "fsdp: true\ntrain_batch: 100\nmicro_batch: 4\ngrad_accum: 2\nworld_size: 16",
            "x:2: train_batch: 100, but micro_batch 4 x grad_accum 2 x 16 ranks = 128",
        ),
        ("fsdp: true\ntrain_batch: 100\nmicro_batch: 8", "x:2: train_batch: 100 is no multiple of micro_batch 8 = 8"),
        (
            "fsdp: true\ntrain_batch: 128\nmicro_batch: 8\nworld_size: 6",
            "x:2: train_batch: 128 is no multiple of micro_batch 8 x 6 ranks = 48",
        ),
        (
            "fsdp: true\nglobal_batch_size: 512\nbatch_size: 2\ngrad_accum: 4\nnnodes: 2\nnproc_per_node: 8",
            "x:2: global_batch_size: 512, but batch_size 2 x grad_accum 4 x 16 ranks = 128",
        ),
        (
            "fsdp: true\nglobal_batch_size: 56\nmicro_batch_size: 2\ngrad_accum: 4\nnum_nodes: 2",
            "x:2: global_batch_size: is for 7 ranks, no multiple of nodes 2",
        ),
        ("fsdp: true\nlr: 1e-3\nlearning_rate: 2e-3", "x:3: learning_rate: 0.002, but lr is 0.001; keep one of them"),
        (
            "fsdp: true\nglobal_batch_size: 64\ntrain_batch_size: 32",
            "x:3: train_batch_size: 32, but global_batch_size is 64; keep one of them",
        ),
        ("fsdp: true\nnodes: 2\nnnodes: 4", "x:3: nnodes: 4, but nodes is 2; keep one of them"),
        ("fsdp: true\nprecision: bf61", 'x:2: precision: "bf61" is no precision; did you mean bf16?'),
    ],
)
def test_flat_files_that_contradict_themselves(text: str, expected: str) -> None:
    assert expected in refused(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("distributed_type: FSPD", "x:1: distributed_type: must be one of fsdp, deepspeed, no, multi_gpu, multi_cpu"),
        ("distributed_type: MEGATRON_LM", "x:1: distributed_type: must be one of"),
        ("compute_environment: AMAZON_SAGEMAKER\ndistributed_type: NO", "x:1: compute_environment: must be one of"),
        (
            "distributed_type: FSDP\nnum_machines: 3\nnum_processes: 8",
            "x:3: num_processes: 8 does not divide over num_machines 3",
        ),
        ("distributed_type: FSDP\nnum_machines: 2\nmachine_rank: 2", "x:3: machine_rank: 2, but num_machines is 2"),
        (
            "distributed_type: FSDP\nnum_machines: two",
            'x:2: num_machines: must be a whole number of at least 1, got "two"',
        ),
        (
            "distributed_type: MULTI_GPU\nfsdp_config:\n  fsdp_version: 2",
            "x:2: fsdp_config: it has no effect with distributed_type MULTI_GPU",
        ),
        (
            "distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n"
            "  fsdp_reshard_after_forward: false",
            "x:4: fsdp_config.fsdp_reshard_after_forward: contradicts fsdp_sharding_strategy FULL_SHARD",
        ),
        (
            "distributed_type: FSDP\nfsdp_config:\n  fsdp_cpu_ram_efficient_loading: true\n"
            "  fsdp_sync_module_states: false",
            "x:4: fsdp_config.fsdp_sync_module_states: must be true with fsdp_cpu_ram_efficient_loading",
        ),
        (
            "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 3",
            "x:3: fsdp_config.fsdp_version: must be 1 or 2, got 3",
        ),
        (
            "distributed_type: FSDP\nmain_process_ip: 10.0.0.999\nnum_machines: 2",
            "x:2: nodes[0].address: not an IPv4 address",
        ),
    ],
)
def test_accelerate_files_that_contradict_themselves(text: str, expected: str) -> None:
    assert expected in refused(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"train_batch_size": 100,\n "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 3}',
            "x:1: train_batch_size: 100 is no multiple of train_micro_batch_size_per_gpu 4"
            " x gradient_accumulation_steps 3 = 12",
        ),
        (
            '{"bf16": {"enabled": true},\n"fp16": {"enabled": true}}',
            "x:2: fp16.enabled: bf16 is enabled, too; keep one of them",
        ),
        (
            '{"zero_optimization": {"stage": 4}}',
            "x:1: zero_optimization.stage: the stages of ZeRO are 0, 1, 2 and 3, got 4",
        ),
        (
            '{"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}',
            "offload_param needs stage 3 or more, and stage is 2",
        ),
        (
            '{"optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},\n'
            '"scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1e-4}}}',
            "x:2: scheduler.params.warmup_max_lr: 0.0001, but optimizer.params.lr is 0.001: keep one",
        ),
        ('{"optimizer": {"type": "AdamW", "params": {"betas": [0.9]}}}', "optimizer.params.betas: must be two numbers"),
    ],
)
def test_deepspeed_files_that_contradict_themselves(text: str, expected: str) -> None:
    assert expected in refused(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"output_dir": "o", "fsdp": "full_shrad auto_wrap"}',
            'fsdp: "full_shrad" is no option; did you mean full_shard?',
        ),
        (
            '{"output_dir": "o", "fsdp": ["full_shard", "hybrid_shard"]}',
            "fsdp: has 2 strategies, FULL_SHARD and HYBRID_SHARD",
        ),
        ('{"output_dir": "o", "fsdp": "offload"}', 'fsdp: "offload" has no strategy; add full_shard'),
        ('{"output_dir": "o", "bf16": true, "fp16": true}', "fp16: bf16 is true, too; keep one of them"),
        (
            '{"output_dir": "o", "fsdp_config": {"min_num_params": 1000, "xla": false}}',
            "fsdp_config: has no effect while `fsdp` names no strategy",
        ),
    ],
)
def test_training_arguments_that_contradict_themselves(text: str, expected: str) -> None:
    assert expected in refused(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#!/bin/bash\necho hello\n", "x:1: no command starts ranks"),
        ("torchrun a.py\ntorchrun b.py\n", "x:2: torchrun: a second command that starts ranks, after line 1"),
        ("torchrun --nnodes 2\n", "x:1: torchrun: starts no script"),
        ("torchrun --nnodes=0 a.py\n", "x:1: --nnodes: must be a whole number of at least 1"),
        ("#!/bin/bash\n#SBATCH -N 2\ntorchrun --nnodes=4 a.py\n", "x:3: --nnodes: 4, but x:2 has 2 nodes"),
        (
            "#!/bin/bash\n#SBATCH --gpus-per-node=4\ntorchrun --nproc-per-node=8 a.py\n",
            "x:3: --nproc-per-node: 8 ranks a node, but it is given 4 GPUs",
        ),
        (
            "#!/bin/bash\n#SBATCH --gres=gpu:4 --gpus-per-node=8\ntorchrun a.py\n",
            "requests 8 GPUs a node, another option 4",
        ),
        ("#!/bin/bash\n#SBATCH --time=soon\ntorchrun a.py\n", "x:2: --time: soon is no time of sbatch"),
        (
            "#!/bin/bash\n#SBATCH -N 3\n#SBATCH -n 8\ntorchrun a.py\n",
            "x:3: --ntasks: 8 tasks do not divide over 3 nodes",
        ),
        (
            "#!/bin/bash\n#SBATCH --job-name='a\ntorchrun a.py\n",
            "x:2: #SBATCH: cannot be split into words: no closing quotation",
        ),
        ("#!/bin/bash\n#SBATCH nodes=2\ntorchrun a.py\n", "x:2: #SBATCH: nodes=2 is no option"),
        ("#!/bin/bash\ntorchrun 'a.py\n", "x:2: the quote ' is not closed"),
        ("torchrun --no-python a.sh\n", "x:1: --no-python: ranks of a run are Python programs"),
    ],
)
def test_scripts_that_start_no_run(text: str, expected: str) -> None:
    assert expected in refused(text)


def test_all_problems_are_named_at_once() -> None:
    text = """distributed_type: FSDP
num_machines: 3
num_processes: 8
mixed_precision: bf61
machine_rank: 9
fsdp_config:
  fsdp_sharding_strategy: HYBIRD_SHARD
"""
    message = refused(text)
    assert [line.split(": ")[1] for line in message.splitlines()[1:]] == [
        *("num_processes", "mixed_precision", "machine_rank", "fsdp_config.fsdp_sharding_strategy"),
    ]


def test_values_that_only_another_program_knows() -> None:
    text = "fsdp: true\nlr: $LR\nworld_size: ${WORLD_SIZE}\nsteps: auto\nsharding_strategy: FULL_SHARD\nshardin: 1\n"
    notes = {note.key: note.text for note in load(text, bundled=True).notes}
    assert notes["lr"] == "$LR is a shell variable, which no program fills in here: write the value as trainer.optim.lr"
    assert notes["world_size"].startswith("${WORLD_SIZE} is a shell variable")
    assert notes["steps"].startswith('"auto" is decided by the other program')
    assert notes["shardin"] == "not known here; did you mean shard?"


def test_variables_of_the_shell_are_named_and_nothing_is_written_of_secrets() -> None:
    text = """#!/bin/bash
export HF_TOKEN=hf_secretsecretsecret
export OUT=$SCRATCH/out
torchrun train.py --out $OUT/x --api-key 0123456789abcdef0123 "$@" --user=$(whoami)
"""
    imported = load(text)
    notes = {note.key: note for note in imported.notes}
    assert imported.job["args"] == ["--out", "$SCRATCH/out/x", "$@", "--user=$(whoami)"]
    assert [notes[f"args[{place}]"].text for place in (1, 2, 3)] == [
        *("no shell fills in $SCRATCH: write the value", "no shell fills in $@: write the value"),
        "no shell fills in $(whoami): write the value",
    ]
    assert all(note.must_change for key, note in notes.items() if key.startswith("args"))
    assert imported.profile["pass_env"] == ["HF_TOKEN"] and "env" not in imported.job
    assert "secret" not in str(imported.job) and "0123456789" not in str(imported.job)


def test_a_short_secret_of_an_option_is_left_out_with_a_note() -> None:
    text = "torchrun a.py --hf_token hf_x --pad_token x --my-password=pw --api-key $KEY --use_auth_token --lr 1\n"
    imported = load(text)
    assert imported.job["args"] == ["--pad_token", "x", "--api-key", "$KEY", "--use_auth_token", "--lr", "1"]
    assert {note.key for note in imported.notes if note.must_change} == {"--hf_token", "--my-password", "args[3]"}


def test_a_number_or_a_token_of_text_is_no_secret() -> None:
    imported = load("torchrun a.py --token-dropout 0.1 --image-token '<image>' --token-shift -1\n")
    assert imported.job["args"] == ["--token-dropout", "0.1", "--image-token", "<image>", "--token-shift", "-1"]


def test_a_class_of_characters_is_marked_and_an_index_is_not() -> None:
    imported = load("torchrun a.py data[0-9].bin [!a]x [[:digit:]] layers[0] [0,1] '[0-9]'\n")
    marked = {note.key: note.text.removeprefix("no shell fills in ") for note in imported.notes if note.must_change}
    found = {0: "[0-9]", 1: "[!a]", 2: "[[:digit:]]"}
    assert marked == {f"args[{place}]": f"{text}: write the value" for place, text in found.items()}


def test_an_operator_in_quotes_is_a_word() -> None:
    imported = load("torchrun a.py ';' \"&&\" \\; '>' x && echo done\n")
    assert imported.job["args"] == [";", "&&", ";", ">", "x"]


@pytest.mark.parametrize("line", ["micromamba activate llm", "conda activate $NAME", "conda activate ./env"])
def test_an_environment_that_is_activated_has_an_advice(line: str) -> None:
    (note,) = load(f"#!/bin/bash\n{line}\ntorchrun a.py\n").notes
    assert note.text.endswith("as `environment` of the profile: {kind: conda, name: NAME}")
    assert note.location.line == 2


ENTERED = {
    "conda activate llm": {"environment": {"kind": "conda", "name": "llm"}},
    "source activate llm": {"environment": {"kind": "conda", "name": "llm"}},
    "conda activate /shared/envs/llm": {"environment": {"kind": "conda", "prefix": "/shared/envs/llm"}},
    "source /shared/venv/bin/activate": {"environment": {"kind": "venv", "path": "/shared/venv"}},
}
"""A line of a script, and the keys of a profile."""


@pytest.mark.parametrize("line", ENTERED)
def test_the_environment_of_a_script_is_that_of_the_profile(line: str) -> None:
    imported = load(f"#!/bin/bash\n#SBATCH -N 2\n{line}\nsrun torchrun a.py\n")
    assert ENTERED[line].items() <= imported.profile.items()
    parse_profile(profile_text(imported, "run.sh"), "profile.yaml")


@pytest.mark.parametrize(
    ("step", "environment"),
    [
        (
            "srun --container-mounts=/a,/b:/c --container-image=me/train torchrun a.py",
            {"kind": "pyxis", "image": "me/train", "mounts": ["/a", "/b:/c"]},
        ),
        (
            "srun apptainer exec --nv --bind /a /me.sif torchrun a.py",
            {"kind": "apptainer", "image": "/me.sif", "mounts": ["/a"]},
        ),
    ],
)
def test_a_container_is_the_environment_and_a_venv_stays_outside(step: str, environment: dict[str, object]) -> None:
    imported = load(f"#!/bin/bash\n#SBATCH -N 2\nsource /shared/venv/bin/activate\n{step}\n")
    assert imported.profile["environment"] == environment and imported.profile["venv"] == "/shared/venv"
    assert "container" not in imported.profile["backend"]
    parse_profile(profile_text(imported, "run.sh"), "profile.yaml")


SHAPES: dict[str, tuple[tuple[int | None, int | None, int], set[str]]] = {
    "--ntasks=8 --ntasks-per-node=4 --gpus-per-node=4": ((2, 4, 4), set()),
    "--ntasks-per-node=4 --gpus-per-task=1 -n 8": ((2, 4, 4), set()),
    "--ntasks=8 --nodes=2 --gpus-per-task=1": ((2, 4, 4), set()),
    "--ntasks=16 --gpus-per-task=1": ((None, 16, 16), {"--ntasks"}),
    "--gpus=16": ((None, 16, 16), {"--gpus"}),
    "--gpus=a100:16 -N 2": ((2, 8, 8), set()),
    "--gpus=16 --gpus-per-node=8": ((2, 8, 8), set()),
    "--ntasks=16 --gpus=16": ((None, 16, 16), {"--ntasks", "--gpus"}),
    "--ntasks=1 --gpus=1": ((None, 1, 1), set()),
    "--ntasks=4 --gpus-per-task=1": ((None, 4, 4), set()),  # with a note that needs no change
}


@pytest.mark.parametrize("options", SHAPES)
def test_tasks_and_gpus_of_all_nodes_keep_their_number(options: str) -> None:
    imported = load(f"#!/bin/bash\n#SBATCH {options}\nsrun python train.py\n")
    shape = (imported.job.get("nodes"), imported.job.get("procs_per_node"), imported.profile["gpus_per_node"])
    assert (shape, {note.key for note in imported.notes if note.must_change}) == SHAPES[options]


def test_gpus_of_all_nodes_are_divided_by_the_nodes_of_the_launcher() -> None:
    imported = load("#!/bin/bash\n#SBATCH --gpus=16 --ntasks=2\nsrun torchrun --nnodes 2 --nproc-per-node 8 a.py\n")
    assert (imported.job["nodes"], imported.job["procs_per_node"], imported.profile["gpus_per_node"]) == (2, 8, 8)
    assert not [note for note in imported.notes if note.must_change]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--ntasks=6 --ntasks-per-node=4", "--ntasks: 6 tasks are no multiple of 4 on each node"),
        ("--gpus-per-node=4 --ntasks-per-node=8 --gpus-per-task=1", "requests 8 GPUs a node, another option 4"),
        ("--gpus=5 -N 2", "--gpus: 5 GPUs do not divide over 2 nodes"),
    ],
)
def test_tasks_and_gpus_that_do_not_divide_are_refused(options: str, expected: str) -> None:
    assert expected in refused(f"#!/bin/bash\n#SBATCH {options}\nsrun python train.py\n")


def test_a_range_of_nodes_is_marked() -> None:
    imported = load("torchrun --nnodes=1:4 --nproc-per-node 2 a.py\n")
    (note,) = imported.notes
    assert imported.job["nodes"] == 4 and note.must_change and "not 1:4: 4 is taken" in note.text


@pytest.mark.parametrize("option", ["--same_network", "--debug", "--dynamo_use_dynamic", "--enable_cpu_affinity", "-q"])
def test_flags_of_accelerate_take_no_value(option: str) -> None:
    imported = load(f"accelerate launch {option} --num_processes 2 a.py --lr 1\n")
    assert (imported.job["entrypoint"], imported.job["args"]) == ({"script": "a.py"}, ["--lr", "1"])


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("gpus: 16", (2, 8)),  # the same number
        ("gpus: 8", (2, 8)),
        ("gpus: 4\nnodes: 4", (4, 4)),
        ("gpus: 8\nprocs_per_node: 8", (2, 8)),
        ("gpus: 8\nnodes: 4", "gpus: 8, but world_size is 16; keep one of them"),
        ("gpus: 6", "gpus: 6, but world_size is 16; keep one of them"),
        ("gpus: 8\nprocs_per_node: 4", "gpus: 8, but world_size is 16; keep one of them"),
    ],
)
def test_gpus_beside_a_world_size_are_those_of_a_node_or_a_contradiction(
    keys: str, expected: str | tuple[int, int]
) -> None:
    text = f"sharding_strategy: FULL_SHARD\nlr: 1\nworld_size: 16\n{keys}\n"
    if isinstance(expected, str):
        assert expected in refused(text)
    else:
        job = load(text).job
        assert (job["nodes"], job["procs_per_node"]) == expected


@pytest.mark.parametrize("no", ['"no"', "false"])
def test_a_strategy_of_never_becomes_a_job_that_never_does_it(no: str) -> None:
    text = f'{{"output_dir": "x", "max_steps": 1000, "eval_steps": 5, "eval_strategy": {no}, "save_strategy": {no}}}'
    trainer = load(text, bundled=True).job["trainer"]
    assert trainer["eval"]["sequences"] == 0 and trainer["checkpoint"]["mode"] == "none"
    text = '{"output_dir": "x", "max_steps": 1000, "eval_strategy": "steps", "save_strategy": "steps"}'
    imported = load(text, bundled=True)
    assert imported.job["trainer"].get("eval", {}).get("sequences") != 0
    assert {note.key for note in imported.notes} >= {"eval_strategy", "save_strategy"}


def test_what_only_a_shell_would_replace_is_marked() -> None:
    text = """FILES=*.bin HOME_DATA=~/data
export KEPT=a*b
torchrun a.py --files data/*.txt 'x*' "y?" z? ~/d {a,b} "{a,b}" \\* a=~/x {} $FILES "$FILES" "$HOME_DATA/x" $?
"""
    imported = load(text)
    args = "--files data/*.txt x* y? z? ~/d {a,b} {a,b} * a=~/x {} *.bin *.bin ~/data/x $?"
    assert imported.job["args"] == args.split() and imported.job["env"] == {"KEPT": "a*b"}
    marked = {note.key: note.text.removeprefix("no shell fills in ") for note in imported.notes if note.must_change}
    found = {1: "*", 4: "?", 5: "~", 6: "{a,b}", 9: "~", 11: "*", 13: "~", 14: "$?"}
    assert marked == {f"args[{place}]": f"{text}: write the value" for place, text in found.items()}


@pytest.mark.parametrize(
    ("text", "script", "must_change"),
    [
        ("cd src\ntorchrun train.py", "src/train.py", False),
        ("(cd src && torchrun ./train.py)", "src/train.py", False),
        ("A=a\ncd $A/b; cd ../c; torchrun train.py", "a/c/train.py", False),
        ("srun bash -c 'cd src && torchrun train.py'", "src/train.py", False),
        ("torchrun train.py; cd src", "train.py", False),
        ("(cd build && make)\ntorchrun train.py", "train.py", False),
        ("cd src\n(cd build\n make\n)\n(cd a; (cd b; torchrun train.py))", "src/a/b/train.py", False),
        ("case $X in a) cd src ;; esac\ntorchrun train.py", "train.py", False),
        ("cd src; cd ..; torchrun train.py", "train.py", False),
        ("cd src; cd $SLURM_SUBMIT_DIR; torchrun train.py", "train.py", False),
        ("cd src; torchrun /x/train.py", "/x/train.py", True),
        ("cd ../other && torchrun train.py", "train.py", True),
        ("cd src && torchrun -m pkg.train", "pkg.train", True),
    ],
)
def test_the_entrypoint_is_where_cd_has_gone(text: str, script: str, must_change: bool) -> None:
    imported = load(text, kind="script")
    (entry,) = imported.job["entrypoint"].values()
    assert entry == script
    assert any(note.must_change and "entrypoint" in note.key for note in imported.notes) == must_change


@pytest.mark.parametrize(
    "text",
    [
        'srun bash -c "python -u train.py --lr 1"',
        "srun bash -c \"sleep 1; bash -c 'exec python train.py --lr 1'\"",
    ],
)
def test_a_script_that_srun_starts_by_a_shell(text: str) -> None:
    imported = load(text, kind="script")
    assert (imported.job["entrypoint"], imported.job["args"]) == ({"script": "train.py"}, ["--lr", "1"])


@pytest.mark.parametrize(
    ("before", "noted"),
    [
        ("uv run", "uv run"),
        ("uv run --frozen --with x --", "uv run"),
        ("conda run -n x --no-capture-output", "conda run"),
        ("poetry run", "poetry run"),
        ("timeout 3600", "timeout"),
        ("timeout -s INT --foreground 1h", "timeout"),
    ],
)
def test_programs_before_torchrun_are_seen_through_and_noted(before: str, noted: str) -> None:
    imported = load(f"{before} torchrun --nnodes=2 train.py --lr 1\n")
    assert (imported.job["nodes"], imported.job["entrypoint"]) == (2, {"script": "train.py"})
    assert noted in {note.key for note in imported.notes}


@pytest.mark.parametrize("text", ["deepspeed --num_gpus 4 train.py\n", "export A=1\n  srun -n 4 python train.py\n"])
def test_a_script_without_a_first_line_is_no_yaml(text: str) -> None:
    imported = load(text)
    assert (imported.kind, imported.job["entrypoint"]) == ("script", {"script": "train.py"})


def test_windows_line_ends_are_named() -> None:
    imported = load("#!/bin/bash\ntorchrun \\\r\n  --nnodes=2 train.py \\\r\n  --lr 1\r\n")
    assert (imported.job["nodes"], imported.job["args"]) == (2, ["--lr", "1"])
    (note,) = [note for note in imported.notes if note.key == "line end"]
    assert note.location.line == 2 and "Windows (CR LF)" in note.text


NONSENSE = {
    "words": "lorem ipsum ",
    "quotes": "torchrun '",
    "substitutions": "$(",
    "closed substitutions": "$(a)",
    "quoted lines": "$(a) \\\n b\n",
    "separators": "torchrun x;",
    "flags": "--a ",
    "directives": "#SBATCH --nodes=2 -N 2\n",
    "assignments": "A=$A$A$A$A\n",
    "keys": "",
    "lists": "[",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_answered_soon(name: str) -> None:
    """In processor time, which another program on the machine does not change."""
    start = {"lists": '{"fsdp": ', "keys": "fsdp: true\n", "quoted lines": 'torchrun "'}.get(name, "torchrun ")
    size = 200_000
    body = (
        NONSENSE[name] * (size // len(NONSENSE[name]))
        if name != "keys"
        else "".join(f"k{i}: 1\n" for i in range(20_000))
    )

    def answer() -> None:
        try:
            load(start + body)
        except UsageError as error:
            assert len(error.message) < 20_000

    done_within(3, answer)


def test_what_a_script_sets_up_becomes_a_profile_unless_it_would_run_something() -> None:
    text = """#!/bin/bash
#SBATCH -N 2 --gpus-per-node=8
if [ -n "$DEBUG" ]; then export NCCL_DEBUG=INFO; fi
export PATH=/opt/x/bin:$PATH
export PATH=$(evil):$PATH LD_LIBRARY_PATH=$UNKNOWN/lib:$LD_LIBRARY_PATH
cd /work && srun -l python -u -m torch.distributed.run --nnodes 2 train.py -u "a b" > out 2>&1 &
"""
    imported = load(text)
    assert imported.job["args"] == ["-u", "a b"] and imported.job["env"] == {"NCCL_DEBUG": "INFO"}
    assert imported.profile["setup"] == ['export PATH="/opt/x/bin:$PATH"']
    assert [(note.location.line, note.key, note.must_change) for note in imported.notes] == [
        *((3, "NCCL_DEBUG", False), (5, "PATH", True), (5, "LD_LIBRARY_PATH", True), (6, "cd", False)),
    ]


VALUES = st.one_of(
    st.sampled_from(["auto", "$X", "${X:-1}", "no", "true", "", "cpu", "FULL_SHARD", "1", "-1", "1e400", "\ue000"]),
    st.integers(-3, 10**6),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.sampled_from(["enabled", "stage", "x"]), st.integers(0, 4), max_size=2),
)


@pytest.mark.slow
@pytest.mark.parametrize("bundled", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_values_are_carried_over_or_refused(kind: str, bundled: bool, data: st.DataObject) -> None:
    """No value of a known key may be an error of the program."""
    tree: dict[str, Any] = {}
    for row in data.draw(st.lists(st.sampled_from(KINDS[kind].rows), max_size=8, unique_by=lambda row: row.key)):
        *above, last = row.key.split(".")
        place = tree
        for part in above:
            place = place.setdefault(part, {}) if isinstance(place.get(part, {}), dict) else {}
        place[last] = data.draw(VALUES)
    with contextlib.suppress(UsageError):
        imported = load(dump_tree(tree) if tree else "{}", bundled=bundled, kind=kind)
        parse_job(dump_tree(dict(imported.job)), "job.yaml")


@pytest.mark.parametrize("nodes", ["[]", "abc", "-3"])
def test_nodes_that_are_no_number_are_named_and_left_out(nodes: str) -> None:
    imported = load(f"nodes: {nodes}\nworld_size: 4\n", bundled=False, kind="flat")
    assert (imported.job["nodes"], imported.job["procs_per_node"]) == (1, 4)
    assert [note.key for note in imported.notes if "no number of ranks or nodes" in note.text] == ["nodes"]


SHELL_WORDS = (
    *("#SBATCH", "-N", "2", "torchrun", "--nnodes=2", "--nproc-per-node", "srun", "python", "-m", "bash", "-c", "a.py"),
    *("accelerate", "launch", "--num_processes", "--fsdp_version", "deepspeed", "apptainer", "exec", "env", "export"),
    *("x=1", "$X", "$(a)", "'", '"', "\\", ";", "&&", "|", "(", ")", "<<EOF", "EOF", ">", "--", *["\n"] * 6),
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(SHELL_WORDS), max_size=25))
def test_any_words_are_a_script_or_refused(words: list[str]) -> None:
    with contextlib.suppress(UsageError):
        imported = load(" ".join(words).replace("\n ", "\n"), kind="script")
        parse_job(dump_tree(dict(imported.job)), "job.yaml")
