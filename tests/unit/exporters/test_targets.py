"""Each target of `jobs export`: its text against the format of the program that reads it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fsdpctl.errors import UsageError
from fsdpctl.exporters.exportable import Exportable, Exported
from fsdpctl.exporters.table import TARGETS, write
from fsdpctl.importers.build import Wanted
from fsdpctl.importers.read import read
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.schema.dump import dump_tree
from fsdpctl.specs.load import job_document, load_job, load_profile, parse_job, parse_profile
from fsdpctl.specs.search import find_job
from tests.services import require

AWKWARD = "a 'b' \"c\" $HOME $(d) $$e f$$(g) `h` \\ # %x"
OWN = f"""
name: My.Job_1
nodes: 2
entrypoint: {{script: train.py}}
args: [--text, {json.dumps(AWKWARD)}]
env: {{TEXT: {json.dumps(AWKWARD)}}}
time_limit: 2h
restarts: 3
stop_signal: USR1
"""
PROFILE = """
name: cluster
backend: {kind: slurm, partition: gpu, comment: "a # b", mem: "0"}
gpus_per_node: 8
venv: /shared/venv
setup: ["ulimit -n 65536", 'export LD_LIBRARY_PATH=/opt/x/lib:$LD_LIBRARY_PATH', "false | true"]
modules: [cuda/13]
network: {interface: ib0, nccl: {NCCL_DEBUG: WARN}}
pass_env: [WANDB_API_KEY]
"""
HOST = SubmitHost("run", "/shared/runs/run", "/home/me", "/usr/bin/python3", ())


def export(target: str, job: str = OWN, profile: str = PROFILE) -> Exported:
    spec = parse_job(job, "job.yaml")
    return TARGETS[target](Exportable(spec, build_plan(parse_profile(profile, "profile.yaml"), spec, HOST)))


def export_bundled(target: str, name: str = "llm7b", profile: str = "slurm-h100") -> Exported:
    job = load_job(name, ["nodes=4"])
    return TARGETS[target](Exportable(job, build_plan(load_profile(profile), job, HOST)))


@pytest.mark.parametrize("target", ["sbatch", "torchrun"])
@pytest.mark.parametrize("name", ["own", "bundled"])
def test_scripts_are_read_by_bash_and_hold_no_secret(
    target: str, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "the-secret")
    text = (export(target) if name == "own" else export_bundled(target)).text
    assert "the-secret" not in text
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_the_words_of_a_batch_script_reach_the_program_unchanged(tmp_path: Path) -> None:
    """Run it with a shell that has functions in place of srun, scontrol and the setup."""
    text = export("sbatch").text.replace("exec srun", "srun")
    fakes = (
        'scontrol() { echo node1; echo node2; }; module() { :; }; srun() { printf "%s\\0" "$@"; printenv -0 TEXT; }\n'
    )
    script = text.replace("set -e\n", f"set -e\n{fakes}", 1)
    env = {"SLURM_JOB_ID": "1234", "SLURM_JOB_NODELIST": "node[1-2]", "WANDB_API_KEY": "x", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", script], env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    words = done.stdout.split("\0")
    assert words[-5:] == ["train.py", "--text", AWKWARD, AWKWARD, ""]
    assert words[words.index("/shared/venv/bin/python") : -5] == [
        *("/shared/venv/bin/python", "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=8"),
        *("--master-addr=node1", f"--master-port={24000 + 1234 % 1000}"),
    ]


@pytest.mark.parametrize("target", ["sbatch", "torchrun"])
def test_an_exported_script_is_imported_as_the_same_job(target: str) -> None:
    imported = read(export(target).text, "run.sh", Wanted("My.Job_1"))
    before = parse_job(OWN, "job.yaml").model_dump(mode="json", exclude_unset=True)
    after = parse_job(dump_tree(dict(imported.job)), "job.yaml").model_dump(mode="json", exclude_unset=True)
    only_here = {"sbatch": {"restarts"}, "torchrun": {"time_limit", "stop_signal"}}[target]
    assert {key: after.get(key) for key in before if key not in {*only_here, "env"}} == {
        key: value for key, value in before.items() if key not in {*only_here, "env"}
    }
    assert after["env"]["TEXT"] == AWKWARD and after["procs_per_node"] == 8
    assert "WANDB_API_KEY" not in str(imported.job)
    if target == "sbatch":
        assert imported.profile["backend"]["partition"] == "gpu" and imported.profile["gpus_per_node"] == 8


@pytest.mark.parametrize("target", ["sbatch", "torchrun"])
@pytest.mark.parametrize("name", ["llm7b", "llm-tiny"])
def test_an_exported_job_of_the_bundled_trainer_is_imported_as_the_same(target: str, name: str) -> None:
    imported = read(export_bundled(target, name).text, "run.sh", Wanted("x"))
    after, before = parse_job(dump_tree(dict(imported.job)), "job.yaml"), load_job(name)
    assert after.trainer == before.trainer and after.nodes == 4 and not after.args and not after.env


def test_a_batch_script_has_the_options_of_the_profile() -> None:
    options = [
        line.removeprefix("#SBATCH ") for line in export("sbatch").text.splitlines() if line.startswith("#SBATCH")
    ]
    assert options == [
        *(
            "--job-name=My.Job_1",
            "--nodes=2",
            "--ntasks-per-node=1",
            "--time=0-02:00:00",
            "--signal=USR1@60",
            "--requeue",
        ),
        *("--open-mode=append", "--output=%x-%j.log", "--partition=gpu", "--gpus-per-node=8", "--mem=0"),
    ]


@pytest.mark.parametrize("runtime", ["apptainer", "pyxis"])
def test_the_container_of_a_profile_is_around_torchrun(runtime: str) -> None:
    container = f"container: {{runtime: {runtime}, image: /image.sqsh, mounts: [/data], python: /usr/bin/python3}}"
    text = export("sbatch", profile=PROFILE.replace("kind: slurm,", f"kind: slurm, {container},")).text
    words = shlex.split(text[text.index("exec srun") :])
    torchrun = words.index("torch.distributed.run")
    assert words[torchrun - 2] == "/usr/bin/python3"
    if runtime == "apptainer":
        inside = ["apptainer", "exec", "--nv", "--bind=/shared/runs", "--bind=/data", "/image.sqsh"]
        assert words[torchrun - 2 - len(inside) : torchrun - 2] == inside
        assert "module load cuda/13" in words[words.index("-c") + 1], "on each node, outside of the container"
    else:
        assert {"--container-image=/image.sqsh", "--container-mounts=/shared/runs:/shared/runs,/data:/data"} <= {*words}
        assert "module load cuda/13" in text[: text.index("exec srun")].splitlines()
    imported = read(text, "run.sh", Wanted("x")).profile["environment"]
    assert (imported["kind"], imported["image"]) == (runtime, "/image.sqsh")


def test_a_script_without_the_secret_ends_with_its_name(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", export("sbatch").text],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode != 0 and "WANDB_API_KEY: must be set" in done.stderr


@pytest.mark.parametrize("target", TARGETS)
def test_what_seems_to_be_a_secret_is_in_no_file_and_named(target: str) -> None:
    args = "args: [--token, hf_inargs, --api-key=key_inargs, --lr, '1']"
    job = OWN.replace("env: {", "env: {HF_TOKEN: hf_inenv, MY_PASSWORD: pw_inenv, ").replace("args:", "args_: ")
    job = "\n".join(args if line.startswith("args_") else line for line in job.splitlines())
    spec = parse_job(job, "job.yaml")
    profile = parse_profile(PROFILE.replace("setup: [", 'setup: ["export DB_PASSWORD=pw_insetup", '), "profile.yaml")
    exported = write(target, Exportable(spec, build_plan(profile, spec, HOST)))
    said = exported.text + " ".join(exported.notes)
    assert not any(value in said for value in ("inargs", "inenv", "insetup"))
    assert all(name in said for name in ("HF_TOKEN", "MY_PASSWORD", "DB_PASSWORD"))
    assert "--token: its secret is not written: replace CHANGE-ME" in exported.notes
    if target in ("sbatch", "torchrun"):
        assert ': "${HF_TOKEN:?must be set}"' in exported.text and "--token CHANGE-ME" in exported.text


def test_a_local_profile_gives_its_loopback_to_no_cluster() -> None:
    job = load_job("llm-tiny", ["nodes=2"])
    local = Exportable(job, build_plan(load_profile("local"), job, HOST))
    for target in ("sbatch", "accelerate", "trainjob", "jobset"):
        assert "127.0.0.1" not in TARGETS[target](local).text and "=lo\n" not in TARGETS[target](local).text
    assert "127.0.0.1" in TARGETS["torchrun"](local).text


def test_the_configuration_of_the_trainer_has_what_the_job_sets() -> None:
    from fsdpctl.contract.codec import decode
    from fsdpctl.contract.trainer.trainer_config import TrainerConfig

    text = export_bundled("sbatch").text
    (line,) = [line for line in text.splitlines() if line.startswith("printf")]
    config = json.loads(shlex.split(line)[2])
    assert decode(TrainerConfig, config) == load_job("llm7b").trainer
    assert "beta1" not in config["optim"], "no defaults"


def strict(schema: Any) -> Any:
    """Return a schema that refuses unknown keys, as `kubectl apply` does."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: strict(value) for key, value in schema.items() if key != "source"}
    if isinstance(inner.get("properties"), dict) and inner.get("type") == "object":
        inner.setdefault("additionalProperties", False)
    return inner


@pytest.mark.parametrize("kind", ["trainjob", "jobset"])
@pytest.mark.parametrize("exported", [export, export_bundled])
def test_kubernetes_objects_fit_the_published_schemas(kind: str, exported: Any) -> None:
    require("jsonschema")
    import jsonschema

    schema = strict(json.loads((Path(__file__).parent / "schemas" / f"{kind}.json").read_text()))
    tree = yaml.safe_load(exported(kind).text)
    (tree["spec"]["trainer"] if kind == "trainjob" else {})["image"] = "me/train"
    jsonschema.Draft202012Validator(schema).validate(tree)
    tree["spec"]["nodes"] = 2
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(tree)


def container(kind: str, **given: str) -> dict[str, Any]:
    tree = yaml.safe_load(export(kind, **given).text)
    if kind == "trainjob":
        return dict(tree["spec"]["trainer"])
    pod = tree["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return dict(pod["containers"][0])


IMAGES = {
    "{kind: pyxis, image: 'nvcr.io#nvidia/pytorch:26.08-py3'}": "nvcr.io/nvidia/pytorch:26.08-py3",
    "{kind: pyxis, image: pytorch/pytorch}": "pytorch/pytorch",
    "{kind: apptainer, image: 'docker://ghcr.io/me/train:1'}": "ghcr.io/me/train:1",
    "{kind: apptainer, image: 'library://me/train:1'}": None,
    "{kind: apptainer, image: /shared/train.sif}": None,
}


@pytest.mark.parametrize("kind", ["trainjob", "jobset"])
@pytest.mark.parametrize(("environment", "image"), IMAGES.items())
def test_kubernetes_gets_the_image_of_the_profile(kind: str, environment: str, image: str | None) -> None:
    profile = PROFILE.replace("venv: /shared/venv", f"environment: {environment}")
    assert container(kind, profile=profile)["image"] == (image or "CHANGE-ME/image:tag")
    notes = " ".join(export(kind, profile=profile).notes)
    if image is None:
        assert "is a file of the cluster; write its name in a registry in place of CHANGE-ME/image:tag" in notes
    else:
        assert f"image: {image} is that of the profile" in notes


def test_kubernetes_without_a_container_gets_no_image_of_a_profile() -> None:
    assert "image" not in container("trainjob")
    assert container("jobset")["image"] == "CHANGE-ME/image:tag"
    older = PROFILE.replace("kind: slurm,", "kind: slurm, container: {runtime: pyxis, image: me/train},")
    assert container("trainjob", profile=older)["image"] == container("jobset", profile=older)["image"] == "me/train"


def expand(text: str) -> str:
    """Return what a pod gets of a text, as by `expansion.Expand` of Kubernetes, where all variables are empty."""
    return re.sub(r"\$(\$|\([^)]*\))", lambda found: "$" if found[1] == "$" else "", text)


@pytest.mark.parametrize("kind", ["trainjob", "jobset"])
def test_pods_get_each_word_as_it_is_in_the_job(kind: str) -> None:
    found = container(kind)
    assert expand(found["command"][-1]) == AWKWARD
    env = {item["name"]: item for item in found["env"]}
    assert expand(env["TEXT"]["value"]) == AWKWARD
    assert env["WANDB_API_KEY"]["valueFrom"]["secretKeyRef"] == {"name": "my-job-1-secrets", "key": "WANDB_API_KEY"}
    assert "NCCL_SOCKET_IFNAME" not in env and env["NCCL_DEBUG"]["value"] == "WARN"


def test_a_jobset_restarts_all_pods_and_gives_each_its_rank() -> None:
    tree = yaml.safe_load(export("jobset").text)
    assert tree["metadata"]["name"] == "my-job-1" and tree["spec"]["failurePolicy"] == {"maxRestarts": 3}
    job = tree["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert (job["parallelism"], job["completions"], job["completionMode"]) == (2, 2, "Indexed")
    found = container("jobset")
    assert "--master-addr=my-job-1-node-0-0.my-job-1" in found["command"]
    assert found["resources"] == {"limits": {"nvidia.com/gpu": 8}}


def test_an_accelerate_configuration_survives_both_ways() -> None:
    """Import, export, import: the variables of the script are the same."""
    before = {
        **{"distributed_type": "FSDP", "mixed_precision": "bf16", "num_machines": 2, "num_processes": 16},
        "fsdp_config": {
            **{"fsdp_version": 2, "fsdp_reshard_after_forward": True, "fsdp_offload_params": False},
            **{
                "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
                "fsdp_transformer_layer_cls_to_wrap": "LlamaDecoderLayer",
            },
        },
    }
    job = read(dump_tree(before), "before.yaml", Wanted("x")).job
    text = export("accelerate", job=dump_tree(dict(job))).text
    tree = yaml.safe_load(text)
    assert tree["fsdp_config"].items() >= before["fsdp_config"].items() and tree["num_processes"] == 16
    again = read(text, "after.yaml", Wanted("x")).job
    assert {name: value for name, value in again["env"].items() if name in job["env"]} == job["env"]


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("trainer.mesh.strategy=FULL_SHARD", {"fsdp_reshard_after_forward": True}),
        ("trainer.mesh.strategy=SHARD_GRAD_OP", {"fsdp_reshard_after_forward": False}),
        ("trainer.memory.recompute=full", {"fsdp_activation_checkpointing": True}),
        ("trainer.mesh.units.blocks=0", {"fsdp_auto_wrap_policy": "NO_WRAP"}),
        (
            "trainer.mesh.units.parameters=1000",
            {"fsdp_auto_wrap_policy": "SIZE_BASED_WRAP", "fsdp_min_num_params": 1000},
        ),
    ],
)
def test_settings_of_the_trainer_become_those_of_fsdp_2(override: str, expected: dict[str, Any]) -> None:
    job = load_job("llm7b", [override])
    plan = build_plan(load_profile("slurm-h100"), job, HOST)
    section = yaml.safe_load(TARGETS["accelerate"](Exportable(job, plan)).text)["fsdp_config"]
    assert {key: section[key] for key in expected} == expected


def test_a_mesh_of_replicas_survives_both_ways() -> None:
    text = export_bundled("accelerate").text
    sizes = {"parallelism_config_dp_replicate_size": 4, "parallelism_config_dp_shard_size": 8}
    assert yaml.safe_load(text)["parallelism_config"] == sizes
    base = job_document(find_job("llm7b")).tree
    mesh = read(text, "after.yaml", Wanted("x", base=base)).job["trainer"]["mesh"]
    assert mesh == {"strategy": "HYBRID_SHARD", "replicate": 4, "shard": 8}


def test_a_job_that_does_not_fit_its_profile_is_not_exported() -> None:
    with pytest.raises(UsageError, match="procs_per_node"):
        export("sbatch", job=OWN + "procs_per_node: 9\n")
