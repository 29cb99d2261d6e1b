"""Each kind of environment on each backend: what it becomes, and what a real shell does with its lines."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fsdpctl.backends.fanout import HostError
from fsdpctl.backends.local.probe_transport import LocalProbeTransport
from fsdpctl.backends.slurm.batch_script import batch_script
from fsdpctl.backends.slurm.job.srun import srun_argv
from fsdpctl.backends.ssh.transport.answer import module_argv
from fsdpctl.commands.container import enter, step_options, task_setup
from fsdpctl.commands.setup_lines import UNUSABLE, with_setup
from fsdpctl.contract.codec import decode, encode
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.doctor.payload import build_payload, last_line, probe_argv
from fsdpctl.errors import UsageError
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.load import parse_job, parse_profile
from tests.services import require

HOST = SubmitHost("mine-k3f9", "/runs/mine-k3f9", "/home/me/project", "/venv/bin/python", ())
BACKENDS = {
    "local": "backend: local\n",
    "ssh": "backend: ssh\nnodes: [{id: a, address: h1}]\n",
    "slurm": "backend: slurm\n",
}


def plan_of(environment: str, backend: str = "local", extra: str = "") -> LaunchPlan:
    text = f"name: p\n{BACKENDS[backend]}{extra}environment: {environment}\n"
    job = parse_job("name: mine\nentrypoint: {script: train.py}\n", "j.yaml")
    made = build_plan(parse_profile(text, "p.yaml"), job, HOST)
    assert decode(LaunchPlan, json.loads(json.dumps(encode(made)))) == made
    return made


def enter_here(environment: str, *argv: str, path: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": path or os.environ["PATH"]}
    return subprocess.run(with_setup(plan_of(environment).setup, list(argv)), env=env, capture_output=True, text=True)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("environment", "python"),
    [
        ("{kind: venv, path: /shared/venv}", "/shared/venv/bin/python"),
        ("{kind: uv, project: /shared/llm}", "/shared/llm/.venv/bin/python"),
        ("{kind: conda, name: llm}", "python"),
        ("{kind: modules, load: [cuda/13], python: /shared/venv/bin/python}", "/shared/venv/bin/python"),
        ("{kind: modules, load: [cuda/13]}", "python3"),
    ],
)
def test_the_python_of_the_ranks(environment: str, python: str, backend: str) -> None:
    made = plan_of(environment, backend)
    assert made.python == made.host_python == python
    assert (made.container, enter(made), step_options(made)) == (None, [], [])
    if made.slurm is not None:
        assert made.slurm.python == python, "the batch script runs in it, too"


def test_the_older_keys_are_the_same_plan() -> None:
    older = parse_profile(f"name: p\n{BACKENDS['ssh']}venv: /shared/venv\n", "p.yaml")
    job = parse_job("name: mine\nentrypoint: {script: train.py}\n", "j.yaml")
    assert build_plan(older, job, HOST) == plan_of("{kind: venv, path: /shared/venv}", "ssh")


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (
            "backend: local\nenvironment: {kind: venv, path: /a}\nvenv: /b\n",
            "p.yaml:4: venv: `environment` is given, too; keep one: environment: {kind: venv, path: /b}",
        ),
        (
            "backend: local\nenvironment: {kind: modules, load: [x]}\npython: /b/python\n",
            "p.yaml:4: python: `environment` has the Python of the ranks; leave `python` out",
        ),
        (
            "backend: {kind: slurm, container: {runtime: pyxis, image: /i}}\nenvironment: {kind: venv, path: /a}\n",
            "p.yaml:2: backend.container: `environment` is given, too; keep one: environment: {kind: pyxis, image: /i}",
        ),
        ("backend: local\nenvironment: {kind: pyxis, image: /i}\n", "pyxis is a plugin of Slurm"),
        ("backend: slurm\nenvironment: {kind: docker, image: i}\n", "Slurm does not account for docker's processes"),
        ("backend: local\nenvironment: {kind: conda}\n", "p.yaml:3: environment: give either `name` or `prefix`"),
        ("backend: local\nenvironment: {kind: venv, path: here}\n", "p.yaml:3: environment.path: "),
        (
            "backend: local\nenvironment: {kind: nix}\n",
            "p.yaml:3: environment: must be one of venv, uv, conda, modules, apptainer, pyxis, docker",
        ),
        ("backend: local\nenvironment: {kind: apptainer, image: /i, mounts: [data]}\n", "a mount is written"),
    ],
)
def test_what_cannot_be_is_named_with_its_line(profile: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_profile(f"name: p\n{profile}", "p.yaml")
    assert message in str(caught.value)


@pytest.mark.parametrize("backend", ["local", "ssh"])
def test_apptainer_and_docker_run_the_agent_and_nothing_else(backend: str) -> None:
    made = plan_of(
        "{kind: apptainer, image: /i.sif, mounts: [/data:/d], options: [--no-home]}", backend, "gpus_per_node: 0\n"
    )
    assert enter(made) == ["apptainer", "exec", "--bind=/runs", "--bind=/data:/d", "--no-home", "/i.sif"]
    assert (made.python, made.host_python) == ("python3", {"local": HOST.python, "ssh": "python3"}[backend])
    made = plan_of(
        "{kind: docker, image: 'pt:2.13', python: python, mounts: [/data]}", backend, "python: /py/bin/python3\n"
    )
    assert (made.python, made.host_python) == ("python", "/py/bin/python3")
    assert shlex.join(enter(made)) == (
        """bash -c 'exec docker run --user="$(id -u):$(id -g)" "$@"' docker --rm --interactive --network=host"""
        " --pid=host --ipc=host --uts=host --ulimit=memlock=-1 --ulimit=stack=67108864 --env=USER --env=HOME=/tmp"
        " --env=FSDPCTL_RUN_ID --env=FSDPCTL_ATTEMPT --env=FSDPCTL_NODE_RANK --env=FSDPCTL_USER_PYTHONPATH"
        " --env=PYTHONPATH --env=PYTHONSAFEPATH --volume=/runs:/runs --volume=/data:/data pt:2.13"
    )


def test_over_ssh_queries_run_outside_of_the_container() -> None:
    made = plan_of("{kind: apptainer, image: /i.sif}", "ssh", "python: /usr/bin/python3.12\n")
    argv = module_argv(made, RunPaths.of(made.run_dir), "fsdpctl.node.queries.agent_control", "look")
    assert argv[4:] == ["env", "PYTHONPATH=/runs/mine-k3f9/code", "PYTHONSAFEPATH=1", "/usr/bin/python3.12", "-m",
                        "fsdpctl.node.queries.agent_control", "look"]  # fmt: skip


def test_slurm_runs_its_batch_script_outside_of_the_container() -> None:
    made = plan_of("{kind: pyxis, image: /i.sqsh, options: [--no-container-mount-home]}", "slurm")
    options = ["--container-image=/i.sqsh", "--container-mounts=/runs:/runs", "--no-container-mount-home"]
    assert step_options(made) == options and set(options) < set(srun_argv(made, RunPaths.of(made.run_dir).attempt(1)))
    assert task_setup(made) == ()
    script = batch_script(made)
    assert "test -e /i.sqsh || {" in script and "exec python3 -m fsdpctl.backends.slurm.job" in script
    older = parse_profile(
        "name: p\nbackend: {kind: slurm, container: {runtime: pyxis, image: /i.sqsh, "
        "options: [--no-container-mount-home]}}\n", "p.yaml"
    )  # fmt: skip
    job = parse_job("name: mine\nentrypoint: {script: train.py}\n", "j.yaml")
    assert step_options(build_plan(older, job, HOST)) == options


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ("{kind: conda, name: llm}", "environment: this node has no program conda; set environment.conda to its path"),
        ("{kind: apptainer, image: /no/i.sif}", "environment: this node has no program apptainer; install it there"),
        ("{kind: pyxis, image: /no/i.sqsh}", "environment: no image /no/i.sqsh on this node; copy it there, or change"),
        ("{kind: docker, image: x}", "environment: this node has no program docker; install it there"),
    ],
)
def test_what_is_missing_on_a_node_is_named_with_a_remedy(environment: str, reason: str, tmp_path: Path) -> None:
    backend = "slurm" if "pyxis" in environment else "local"
    lines = plan_of(environment, backend).setup
    (tmp_path / "bash").symlink_to("/bin/bash")
    done = subprocess.run(with_setup(lines, ["true"]), env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (UNUSABLE, "")
    assert done.stderr.startswith(reason) and done.stderr.count("\n") == 1


def test_conda_is_activated_by_its_own_hook(tmp_path: Path) -> None:
    """A program that prints what conda prints: a function that changes PATH."""
    conda = tmp_path / "bin dir" / "conda"
    conda.parent.mkdir()
    conda.write_text(
        '#!/bin/bash\ntest "$*" = "shell.bash hook" && '
        """echo 'conda() { test "$*" = "activate llm" && export CONDA_PREFIX=/envs/llm; }'\n"""
    )
    conda.chmod(0o700)
    done = enter_here(f"{{kind: conda, name: llm, conda: {conda}}}", "printenv", "CONDA_PREFIX")
    assert (done.returncode, done.stdout) == (0, "/envs/llm\n"), done.stderr
    done = enter_here(f"{{kind: conda, name: other, conda: {conda}}}", "printenv", "CONDA_PREFIX")
    assert (done.returncode, done.stdout) == (UNUSABLE, "")
    assert "conda cannot activate other on this node" in done.stderr


def test_modules_are_loaded_in_a_shell_without_login(tmp_path: Path) -> None:
    require("modules")
    (tmp_path / "good").write_text("#%Module\nsetenv FROM_MODULE yes\n")
    environment = f"{{kind: modules, use: [{tmp_path}], load: [%s], python: {sys.executable}}}"
    done = enter_here(environment % "good", "printenv", "FROM_MODULE")
    assert (done.returncode, done.stdout) == (0, "yes\n"), done.stderr
    done = enter_here(environment % "good, nope", "printenv", "FROM_MODULE")
    assert (done.returncode, done.stdout) == (UNUSABLE, "")
    expected = "environment: module load good nope failed on this node; `module avail` lists those that it has"
    assert done.stderr.splitlines()[-1] == expected


def test_doctor_reports_it() -> None:
    made = plan_of("{kind: conda, name: llm, conda: /no/conda}")
    answer = LocalProbeTransport(made).run(made.nodes[0], probe_argv(made.python), build_payload("{}"), 20)
    with pytest.raises(HostError, match=r"^environment: this node has no program /no/conda; set environment.conda"):
        last_line(answer, made.python)
