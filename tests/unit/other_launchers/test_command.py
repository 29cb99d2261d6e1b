"""`command` of a job: what the words of other launchers become, and what is refused or named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsdpctl.errors import UsageError
from fsdpctl.schema.dump import dump_tree
from fsdpctl.schema.problems import SpecError
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.load import job_document, load_job_with_notices, parse_job

FSDP = """\
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_machines: 1
num_processes: 4
main_process_ip: 10.0.0.5
fsdp_config: {fsdp_version: 2, fsdp_offload_params: false, state_dict_type: SHARDED_STATE_DICT}
"""


def job_of(command: str | list[Any], **keys: Any) -> JobSpec:
    return parse_job(dump_tree({"name": "x", **keys, "command": command}), "j.yaml")


def refused(command: str | list[Any], **keys: Any) -> str:
    with pytest.raises(SpecError) as error:
        job_of(command, **keys)
    return error.value.message


def notices(command: str, folder: Path, **keys: Any) -> str:
    path = folder / "j.yaml"
    path.write_text(dump_tree({"name": "x", **keys, "command": command}))
    return "\n".join(load_job_with_notices(str(path))[1])


@pytest.mark.parametrize(
    ("command", "nodes", "procs", "entry", "args"),
    [
        ("torchrun --nproc_per_node 2 train.py", 1, 2, "train.py", ()),
        ("torchrun --nnodes=2 --nproc-per-node=gpu train.py --lr 1e-3", 2, None, "train.py", ("--lr", "1e-3")),
        ("python -m torch.distributed.run --nproc-per-node 4 -m my.train x", 1, 4, "my.train", ("x",)),
        ("torchrun --nproc_per_node 2 --max_restarts 3 --log_dir /tmp/x a/train.py", 1, 2, "a/train.py", ()),
        ("accelerate launch --num_processes 8 --num_machines 2 --same_network train.py", 2, 4, "train.py", ()),
        ("accelerate-launch --multi_gpu --num_processes 4 --debug train.py 'a b'", 1, 4, "train.py", ("a b",)),
        (
            "deepspeed --num_gpus 2 --no_local_rank train.py --deepspeed ds.json",
            1,
            2,
            "train.py",
            ("--deepspeed", "ds.json"),
        ),
        ("python train.py --lr 1e-3", 1, None, "train.py", ("--lr", "1e-3")),
        ("python3.11 -u -m pkg.train", 1, None, "pkg.train", ()),
        ("srun -N 2 --ntasks-per-node=1 torchrun --nnodes 2 --nproc-per-node 8 train.py", 2, 8, "train.py", ()),
        ("srun --nodes=2 --ntasks-per-node=4 python train.py", 2, 4, "train.py", ()),
        ("srun -n 8 --ntasks-per-node=4 python train.py", 2, 4, "train.py", ()),
        ("srun -n 8 -N 2 python train.py", 2, 4, "train.py", ()),
        ("NCCL_DEBUG=INFO uv run torchrun --nproc-per-node 2 train.py ';'", 1, 2, "train.py", (";",)),
        (["torchrun", "--nproc_per_node", 2, "train.py", 1.50, "$HOME", "*"], 1, 2, "train.py", ("1.5", "$HOME", "*")),
        ("torchrun \\\n  --nproc_per_node 2 \\\n  train.py", 1, 2, "train.py", ()),
        ("torchrun \\ --nproc_per_node 2 \\ train.py", 1, 2, "train.py", ()),  # lines that `>` of YAML has joined
        ("bash -c 'torchrun --nproc_per_node 2 train.py'", 1, 2, "train.py", ()),
    ],
)
def test_a_command_becomes_the_keys_of_a_job(
    command: str | list[Any], nodes: int, procs: int | None, entry: str, args: tuple[str, ...]
) -> None:
    job = job_of(command)
    assert (job.nodes, job.procs_per_node, job.args) == (nodes, procs, args)
    assert entry in (job.entrypoint.script, job.entrypoint.module) and job.command is None


def test_numbers_in_a_list_are_taken_as_they_are_written() -> None:
    text = "name: x\ncommand: [torchrun, --nproc_per_node, 2, train.py, --lr, 1e-3, --flag, true]\n"
    assert parse_job(text, "j.yaml").args == ("--lr", "1e-3", "--flag", "true")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("torchrun --master_addr 10.0.0.1 train.py", "--master-addr: fsdpctl finds the address of the head"),
        ("torchrun --rdzv_endpoint=node1:29500 train.py", "--rdzv-endpoint: fsdpctl finds the address of the head"),
        (
            "torchrun --nnodes 2 --node_rank 1 train.py",
            "--node-rank: fsdpctl numbers the nodes, and one command is for",
        ),
        ("torchrun --rdzv_backend etcd train.py", "--rdzv-backend: etcd: there are static and c10d"),
        ("accelerate launch --main_process_ip 10.1.1.1 train.py", "--main_process_ip: fsdpctl finds the address"),
        ("torchrun --nproc_per_nod 2 train.py", "--nproc-per-nod: not known here; did you mean nproc-per-node?"),
        ("accelerate launch --num_proceses 2 train.py", "--num_proceses: not known here; did you mean num_processes?"),
        ("deepspeed --num_gpu 2 train.py", "--num-gpu: not known here; did you mean num-gpus?"),
        ("deepspeed --hostfile hosts train.py", "--hostfile: it is not opened"),
        ("torchrun --nnodes=1:4 train.py", "--nnodes: a run has a fixed number of nodes, not 1:4"),
        ("torchrun --nproc-per-node 0 train.py", "--nproc-per-node: must be a whole number of at least 1"),
        ("torchrun --no-python run.sh", "--no-python: ranks of a run are Python programs"),
        ("torchrun train.py --lr $LR", "args[1]: no shell fills in $LR: write the value"),
        ("torchrun train.py data/*.bin", "args[0]: no shell fills in *: write the value"),
        ("torchrun train.py --hf_token hf_abc", "--hf_token: a secret is not written into a job"),
        ("HF_TOKEN=hf_abc torchrun train.py", "HF_TOKEN: a secret does not belong into a file"),
        ("torchrun /home/me/train.py", "entrypoint.script: scripts are copied with the project"),
        ("torchrun train.py | tee log", "| is for a shell, and no shell reads it: leave it away, as logs"),
        ("torchrun train.py > log 2>&1", "> is for a shell, and no shell reads it: leave it away, as logs"),
        ("torchrun train.py &", "& is for a shell, and no shell reads it: leave it away, as `submit` returns"),
        ("cd x && torchrun train.py", "&& is for a shell, and no shell reads it: write one command"),
        ("bash -c 'cd x && torchrun train.py'", "runs `cd x` first, in a shell"),
        ("torchrun 'train.py", "cannot be split into words: no closing quotation"),
        ("torchrun a.py\ntorchrun b.py", "has several lines: one command"),
        ("train.py --lr 1", "a script is started by Python: python train.py --lr 1"),
        ("bash run.sh", "run.sh is a script of a shell: `fsdpctl jobs import run.sh` reads it"),
        ("mpirun -n 4 train", "mpirun starts no Python program here: it must be torchrun"),
        ("torchrun --nproc-per-node 2", "torchrun: starts no script"),
        ("accelerate launch --config_file no.yaml train.py", "--config_file: no.yaml: cannot read this configuration"),
        ("accelerate launch --config_file $C train.py", "--config_file: no shell fills in $C: write the path"),
        ("accelerate launch --use_megatron_lm train.py", "--use_megatron_lm: settings of Megatron-LM"),
        ("", "must be text, or a list of words"),
        ([], "must be text, or a list of words"),
        ([["torchrun"]], "must be text, or a list of words"),
    ],
)
def test_what_fsdpctl_decides_or_no_shell_reads_is_refused_with_its_line(
    command: str | list[Any], expected: str
) -> None:
    message = refused(command)
    assert f"j.yaml:2: command: {expected}" in message
    assert "trainer" not in message  # no problem that only follows from the first


def test_all_problems_of_a_job_are_named_at_once() -> None:
    message = refused("torchrun --master_addr 10.0.0.1 --node_rank 3 train.py", grace="1")
    assert "job j.yaml has 3 problems" in message and "j.yaml:2: grace" in message


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("torchrun --nnodes 2 --node_rank 0 train.py", "--node-rank: fsdpctl numbers the nodes"),
        ("torchrun --nnodes 2 --node_rank $SLURM_NODEID train.py", "--node-rank: fsdpctl numbers the nodes"),
        ("torchrun --rdzv-endpoint=localhost:0 train.py", "--rdzv-endpoint: fsdpctl finds the address of the head"),
        ("torchrun --master_addr $HEAD --master_port 29500 train.py", "--master-port: fsdpctl chooses a free port"),
        ("torchrun --rdzv-backend c10d --rdzv-id 7 train.py", "--rdzv-backend: `rendezvous: c10d` in the profile"),
        ("torchrun --standalone --nproc-per-node 2 train.py", "--standalone: fsdpctl starts torchrun"),
        ("torchrun --tee 3 train.py", "--tee: logs of all ranks are in the run directory"),
        ("torchrun train.py", "torchrun: one rank on each GPU is the default here"),
        ("python train.py", "python: each rank runs it: one on each GPU"),
        ("deepspeed train.py", "deepspeed: ranks find LOCAL_RANK in the environment"),
        ("/opt/env/bin/torchrun --nproc-per-node 2 train.py", 'python: "/opt/env/bin/python" is for the profile'),
        ("srun -p gpu -N 1 torchrun --nproc-per-node 2 train.py", 'backend.partition: "gpu" is for the profile'),
        ("accelerate launch --cpu --num_processes 2 train.py", "gpus_per_node: 0 is for the profile: write it there"),
    ],
)
def test_what_changes_nothing_is_left_out_with_a_notice(command: str, expected: str, tmp_path: Path) -> None:
    assert f"j.yaml:2: command: {expected}" in notices(command, tmp_path)


def test_a_number_for_all_nodes_of_the_job_is_named_as_one(tmp_path: Path) -> None:
    found = notices("accelerate launch --num_processes 4 train.py", tmp_path, nodes=2)
    assert "num_processes: 4 are the ranks of all 2 nodes: 2 on each" in found
    alone = "accelerate launch --num_processes 4 --num_machines 2 train.py"
    assert "all 2 nodes" not in notices(alone, tmp_path)


def test_a_command_without_more_needs_no_notice(tmp_path: Path) -> None:
    assert notices("torchrun --nproc-per-node 2 --nnodes 1 train.py --lr 1", tmp_path) == ""


def test_keys_of_the_job_must_not_contradict_its_command() -> None:
    message = refused("torchrun --nnodes 2 --nproc-per-node 4 train.py", nodes=3, procs_per_node=4)
    assert message.endswith("j.yaml:2: nodes: 3, but j.yaml:4 has 2 by its command: keep one of them")
    for key, value in (("entrypoint", {"script": "a.py"}), ("args", ["x"])):
        message = refused("torchrun train.py", **{key: value})
        assert f"j.yaml:2: {key}: `command` has the program and its arguments" in message


def test_options_replace_what_the_command_has() -> None:
    text = "name: x\ncommand: torchrun --nnodes 2 --nproc-per-node 4 train.py --lr 1\n"
    job = parse_job(text, "j.yaml", ["--nodes=3", "procs_per_node=1", "args=[--lr, '2']", "env.A=b"])
    assert (job.nodes, job.procs_per_node, job.args, job.env) == (3, 1, ("--lr", "2"), {"A": "b"})
    assert job.entrypoint.script == "train.py"
    assert parse_job(text, "j.yaml", ["command=python b.py"]).entrypoint.script == "b.py"


def test_a_command_that_is_an_option_replaces_what_the_file_has() -> None:
    text = "name: x\nnodes: 1\nentrypoint: {script: a.py}\nargs: [x]\n"
    job = parse_job(text, "j.yaml", ["command=torchrun --nnodes 2 b.py y"])
    assert (job.nodes, job.entrypoint.script, job.args) == (2, "b.py", ("y",))
    assert parse_job(text, "j.yaml", ["command=torchrun --nnodes 2 b.py", "--nodes=3"]).nodes == 3


def test_variables_of_the_job_replace_those_of_the_command() -> None:
    job = job_of("A=1 B=2 torchrun --nproc-per-node 2 train.py", env={"B": "3", "C": "4"})
    assert job.env == {"A": "1", "B": "3", "C": "4"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    (tmp_path / "fsdp.yaml").write_text(FSDP)
    return tmp_path


def test_the_configuration_of_accelerate_is_read_and_options_replace_its_keys(project: Path) -> None:
    job = job_of("accelerate launch --config_file fsdp.yaml --fsdp_offload_params true train.py --lr 1e-3", nodes=2)
    assert (job.nodes, job.procs_per_node, job.args) == (2, 4, ("--lr", "1e-3"))
    assert job.env["ACCELERATE_USE_FSDP"] == "true" and job.env["FSDP_OFFLOAD_PARAMS"] == "true"
    assert job.env["ACCELERATE_MIXED_PRECISION"] == "bf16" and job.env["FSDP_STATE_DICT_TYPE"] == "SHARDED_STATE_DICT"
    found = notices("accelerate launch --config_file fsdp.yaml train.py", project, nodes=2)
    assert "j.yaml:2: nodes: 2, but fsdp.yaml:4 has 1: that of the job counts" in found


def test_problems_of_the_configuration_have_its_own_lines(project: Path) -> None:
    (project / "fsdp.yaml").write_text(FSDP.replace("bf16", "bf17"))
    assert 'fsdp.yaml:3: command: mixed_precision: "bf17" is no precision' in refused(
        "accelerate launch --config_file fsdp.yaml train.py"
    )
    (project / "fsdp.yaml").write_text("a: [\n")
    with pytest.raises(UsageError, match=r"fsdp.yaml:2: not valid YAML"):
        job_of("accelerate launch --config_file fsdp.yaml train.py")


def test_the_users_default_configuration_is_read_as_accelerate_does(project: Path) -> None:
    command = "accelerate launch --num_processes 2 train.py"
    assert "FSDP_VERSION" not in job_of(command).env
    (project / "hf" / "accelerate").mkdir(parents=True)
    (project / "hf" / "accelerate" / "default_config.yaml").write_text(FSDP)
    assert job_of(command).env["FSDP_VERSION"] == "2" and job_of(command).procs_per_node == 2
    assert "default_config.yaml is read, the default configuration" in notices(command, project)


def test_a_run_stores_the_keys_and_needs_no_other_file_again(project: Path) -> None:
    (project / "j.yaml").write_text("name: x\ncommand: accelerate launch --config_file fsdp.yaml train.py\n")
    tree = job_document(project / "j.yaml").tree
    assert "command" not in tree and tree["entrypoint"] == {"script": "train.py"}


WORDS = (
    *("torchrun", "accelerate", "launch", "deepspeed", "python", "srun", "env", "-m", "bash", "-c", "a.py", "--cpu"),
    *("--nnodes=1:2", "--nnodes", "2", "--num_processes", "--num_machines", "--master_addr", "1.2.3.4:5", "--use_fsdp"),
    *(
        "$X",
        "$(a)",
        "'",
        '"',
        "\\",
        ";",
        "|",
        ">",
        "(",
        "x=1",
        "--",
        "-",
        "HF_TOKEN=x",
        "-N",
        "--config_file",
        "\ue004",
    ),
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(WORDS), max_size=10), st.booleans())
def test_any_words_are_a_command_or_refused(words: list[str], is_text: bool) -> None:
    try:
        job = job_of(" ".join(words) if is_text else list(words), nodes=2)
    except UsageError as error:
        assert "j.yaml" in error.message
    else:
        assert job.entrypoint.script or job.entrypoint.module != "train"
