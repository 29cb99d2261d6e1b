"""The local launcher: the common behaviour, and what only a local run can show."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import venv
from pathlib import Path

import pytest

from fsdpctl.commands.torchrun import TORCHRUN
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.evidence import read_plan
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.runs.store import read_record
from tests.backends.contract import RECORDER, WAITS_FOR_STOP, LauncherContract
from tests.backends.harness import COMMAND, Run, fsdpctl, submit, wait_for
from tests.backends.killed_submit import kill_at_each_step
from tests.services import require
from tests.testbed.disks import Mount

FAILS_ON_REQUEST = """
import os, time
from pathlib import Path
run = Path(os.environ["FSDPCTL_RUN_DIR"])
(run / f"up-{os.environ['RANK']}").touch()
while not (run / "fail").exists():
    time.sleep(0.05)
raise SystemExit(3)
"""

TAKES_TURNS = """
import ctypes, os, time
from pathlib import Path
root, rank = Path(os.environ["FSDPCTL_RUN_DIR"]), int(os.environ["RANK"])
libc = ctypes.CDLL(None)
for turn in range(rank, 8, 4):
    while turn and not (root / f"turn-{turn - 1}").exists():
        time.sleep(0.01)
    time.sleep(0.25)
    if rank == 1:
        libc.puts(b"turn %d" % turn)
        libc.fflush(None)
    else:
        os.write(1 + turn % 2, b"turn %d\\n" % turn)
    (root / f"turn-{turn}").touch()
if rank == 3:
    os.write(1, b"last words")
    os.kill(os.getpid(), 9)
time.sleep(1000)
"""


def indented(script: str) -> str:
    return script.replace("\n", "\n    ")


class TestLocal(LauncherContract):
    profile = "local"

    def submit_under(self, project: Path, profile: str, script: str = RECORDER, nodes: int = 2) -> Run:
        """Submit a script under a profile with this text."""
        (project / "own profile.yaml").write_text(profile)
        return self.submit_script(project, script, "--profile", "./own profile.yaml", nodes=nodes)

    def test_the_dry_run_is_the_real_run(self, project: Path) -> None:
        (project / "script.py").write_text(WAITS_FOR_STOP)
        (project / "job.yaml").write_text(
            'name: probe\nnodes: 2\nentrypoint: {script: script.py}\nargs: ["a b", "$c"]\nenv: {X: "1 2"}\n'
        )
        planned = json.loads(fsdpctl("submit", "./job.yaml", "--dry-run", "--json", cwd=project).stdout)
        run = submit("./job.yaml", cwd=project)
        self.wait_up(run)
        for rank, node in enumerate(planned["nodes"]):
            (pid,) = run.find(rank, TORCHRUN)
            argv = Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
            real = [word.replace(run.run_id, planned["plan"]["run_id"]) for word in argv]
            port = [word for word in real if word.startswith("--master-port=")]
            assert [word if word not in port else "--master-port=<port>" for word in real] == node["argv"]
            environ = dict(v.split("=", 1) for v in Path(f"/proc/{pid}/environ").read_text().split("\0") if v)
            for name, value in node["env"].items():
                assert environ[name].replace(run.run_id, planned["plan"]["run_id"]) == value
        fsdpctl("stop", run.run_id, cwd=project)

    def test_lines_without_a_stamp_come_in_the_order_in_which_ranks_wrote_them(self, project: Path) -> None:
        """Of both streams and of C libraries, on two nodes, while following and afterwards; the last rank is killed."""
        run = self.submit_script(project, TAKES_TURNS)
        follow = subprocess.run([COMMAND, "logs", "-f", run.run_id], capture_output=True, text=True, timeout=120)
        later = fsdpctl("logs", run.run_id, "--timestamps", cwd=project).stdout

        def turns(text: str) -> list[str]:
            return [line.partition("| ")[2] for line in text.splitlines() if "| turn" in line or "| last" in line]

        assert turns(follow.stdout) == [*(f"turn {turn}" for turn in range(8)), "last words"]
        assert turns(later) == turns(follow.stdout)
        clocks = [line[:21] for line in later.splitlines() if "| turn" in line]
        assert clocks == sorted(clocks) and len(set(clocks)) == 8
        assert re.search(r"^ +state +\| FAILED: rank 3 on node 1: ended with signal 9", follow.stderr, re.MULTILINE)

    def test_the_size_of_a_large_project_is_printed_whenever_it_is_copied(self, project: Path) -> None:
        with open(project / "weights.bin", "wb") as file:
            file.truncate(60_000_000)
        (project / "script.py").write_text(WAITS_FOR_STOP)
        (project / "job.yaml").write_text("name: large\nnodes: 1\nentrypoint: {script: script.py}\n")
        said = f"copying {len(list(project.iterdir()))} files of {project}: 60 MB, kept with the run\nhint: with git"
        assert said in fsdpctl("submit", "job.yaml", cwd=project).stderr
        fsdpctl("cancel", cwd=project)
        status = json.loads(fsdpctl("status", "--json", cwd=project).stdout)
        by_rank = Path(status["working_directory"], "out", "model.pt")
        by_rank.parent.mkdir()
        by_rank.write_text("weights")
        for words, is_told in (("resume", False), ("resume --update-code", True)):
            printed = fsdpctl(*words.split(), cwd=project.parent).stderr
            assert (said in printed, f"with the code of {project}" in printed) == (is_told, is_told)
            fsdpctl("cancel", cwd=project)
        assert by_rank.read_text() == "weights"
        project.rename(project.with_name("moved"))
        refused = fsdpctl("resume", "--update-code", cwd=project.parent, expect=2).stderr
        assert f"{project}, the directory of the project, is not there" in refused and "--from DIR" in refused
        (project.parent / "other.yaml").write_text("name: other\nbackend: local\nprocs_per_node: 1\n")
        words = ("--update-code", "--from", "moved", "--profile", "other.yaml")
        resumed = fsdpctl("resume", *words, cwd=project.parent).stderr
        assert f"with the code of {project.with_name('moved')}" in resumed
        fsdpctl("cancel", cwd=project.parent)
        record = read_record(RunPaths.of(status["run_dir"]))
        assert (record.profile, read_plan(RunPaths.of(status["run_dir"])).world_size) == ("other", 1)

    def test_a_port_in_use_is_skipped(self, project: Path) -> None:
        first, last = 23_801, 23_802
        text = fsdpctl("profiles", "show", "local", cwd=project).stdout
        text = text.replace("first: 24000", f"first: {first}").replace("last: 24999", f"last: {last}")
        with socket.create_server(("", first)):
            run = self.submit_under(project, text, nodes=1)
            assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
            (seen, _) = self.seen(run, ranks=2)
            assert isinstance(seen["env"], dict)
            assert seen["env"]["MASTER_PORT"] == str(last)
            with socket.create_server(("", last)):
                status = self.submit_under(project, text).wait_ended()
        assert status["state"] == "FAILED"
        assert f"no free port in {first}-{last}" in status["reason"]

    def test_loopback_is_refused_where_nodes_are_machines(self, project: Path) -> None:
        run = self.submit_under(project, "name: strict\nbackend: local\nmaster_address: localhost\n")
        status = run.wait_ended()
        assert status["state"] == "FAILED"
        assert "localhost (127.0.0.1) is loopback" in status["reason"]
        assert "master_address of profile strict" in status["reason"]

    def test_a_setup_line_that_fails_is_the_reason(self, project: Path) -> None:
        run = self.submit_under(project, "name: strict\nbackend: local\nsetup: ['echo loading', 'cat /nowhere']\n")
        status = run.wait_ended()
        assert (status["state"], status["reason"]) == (
            "FAILED",
            "node 0: a line of `setup` or `environment` failed; see agent.log",
        )
        category, first = run.initiating()
        assert (category, first[0][0]) == ("configuration", None)
        assert "/nowhere" in fsdpctl("logs", run.run_id, "--agent", cwd=project).stdout

    def test_a_missing_package_is_named_once(self, project: Path) -> None:
        """As after an install of fsdpctl alone: llm-tiny would restart twice."""
        venv.create(project / "bare")
        bare = project / "bare" / "bin" / "python"
        (project / "own.yaml").write_text(f"name: bare\nbackend: local\npython: {bare}\n")
        run = submit("llm-tiny", "--nodes=2", "--profile=./own.yaml", "--set=restarts=2", cwd=project)
        status = run.wait_ended()
        assert (status["state"], status["cause"], status["attempt"]) == ("FAILED", "package", 1), run.describe()
        assert run.initiating()[0] == "missing_module"
        assert f"{bare} does not have torch and numpy, which the ranks import" in status["reason"]
        assert f"{bare} -m pip install torch numpy" in status["reason"]

    def test_a_rank_that_ended_before_the_others_is_named(self, project: Path) -> None:
        run = self.submit_script(project, f"import os\nif os.environ['RANK'] != '1':{indented(WAITS_FOR_STOP)}")
        wait_for(lambda: run.status()["reason"].endswith("; still running: 0,2,3"), 60, run.describe)
        assert run.status()["reason"].startswith("rank 1 ended at ")
        refused = fsdpctl("logs", run.run_id, "--rank", "99", cwd=project, expect=2)
        assert f"{run.run_id} has no rank 99; its ranks are 0-3" in refused.stderr
        assert "no node 2; its nodes are 0-1" in fsdpctl("logs", "--node", "2", cwd=project, expect=2).stderr
        fsdpctl("stop", run.run_id, cwd=project)
        assert run.status()["state"] == "STOPPED", run.describe()

    def test_the_time_limit_ends_in_a_stop(self, project: Path) -> None:
        run = self.submit_script(project, WAITS_FOR_STOP, nodes=1, extra="time_limit: 40s\n")  # less the grace: 10 s
        status = run.wait_ended()
        assert (status["state"], status["reason"]) == ("STOPPED", "stopped (time)"), run.describe()

    def test_a_train_package_of_the_user_does_not_replace_the_bundled_one(self, project: Path) -> None:
        (project / "train.py").write_text("raise SystemExit('the wrong train')")
        (project / "train").mkdir()
        (project / "train" / "__main__.py").write_text("raise SystemExit('the wrong train')")
        (project / "fsdpctl").mkdir()
        (project / "fsdpctl" / "__init__.py").write_text("raise SystemExit('the wrong fsdpctl')")
        run = submit("llm-tiny", "--smoke", "--procs-per-node", "1", cwd=project)
        assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()

    def test_a_submit_killed_at_any_step_leaves_nothing_or_a_visible_run(
        self, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (project / "script.py").write_text("print('done')")
        (project / "job.yaml").write_text("name: probe\nentrypoint: {script: script.py}\n")
        states: list[str | None] = []
        for run in kill_at_each_step("./job.yaml", cwd=project, homes=tmp_path, monkeypatch=monkeypatch):
            states.append(run.status()["state"] if run else None)
            if run and states[-2:] == [None, "PLANNED"]:
                fsdpctl("resume", run.run_id, cwd=project)
                assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
            if run:
                fsdpctl("cancel", run.run_id, cwd=project)
                run.assert_nothing_left()
        assert states[0] is None and "PLANNED" in states, "some kills came before the run existed, some after"

    def test_on_a_full_disk_a_run_shows_it_and_obeys_stop_and_cancel(self, project: Path, small_disk: Mount) -> None:
        """One without inodes, and one without bytes."""
        profile = f"{fsdpctl('profiles', 'show', 'local', cwd=project).stdout}\nruns_root: {small_disk.path}\n"
        leaves = self.submit_under(project, profile, WAITS_FOR_STOP)
        self.wait_up(leaves)
        small_disk.use_up_inodes()
        assert "it has no inodes left" in leaves.status()["reason"]
        fsdpctl("stop", leaves.run_id, cwd=project)
        assert leaves.status()["state"] == "STOPPED", leaves.describe()
        small_disk.empty()
        stays = self.submit_under(project, profile, WAITS_FOR_STOP, nodes=1)
        self.wait_up(stays, ranks=2)
        small_disk.fill()
        assert "no space is left on the disk" in stays.status()["reason"]
        fsdpctl("cancel", stays.run_id, cwd=project)
        assert not stays.pids(), stays.describe()
        assert stays.status()["state"] == "CANCELLED", stays.describe()

    def test_a_run_that_fails_on_a_full_disk_is_failed_not_lost(self, project: Path, small_disk: Mount) -> None:
        profile = f"{fsdpctl('profiles', 'show', 'local', cwd=project).stdout}\nruns_root: {small_disk.path}\n"
        run = self.submit_under(project, profile, FAILS_ON_REQUEST, nodes=1)
        self.wait_up(run, ranks=2)
        small_disk.fill()
        (run.paths.root / "fail").touch()
        status = run.wait_ended()
        assert (status["state"], status["reason"][:5]) == ("FAILED", "node "), run.describe()

    def test_two_resumes_at_once_start_one_attempt(self, project: Path) -> None:
        run = self.submit_script(project, WAITS_FOR_STOP, nodes=1)
        self.wait_up(run, ranks=2)
        fsdpctl("stop", run.run_id, cwd=project)
        words = [COMMAND, "resume", run.run_id]
        racers = [subprocess.Popen(words, cwd=project, stderr=subprocess.PIPE) for _ in range(3)]
        codes = sorted(racer.wait() for racer in racers)
        for racer in racers:
            assert racer.stderr is not None
            racer.stderr.close()
        assert codes == [0, 5, 5]
        wait_for(lambda: run.status()["reason"] == "training, attempt 2", 60, run.describe())
        fsdpctl("stop", run.run_id, cwd=project)
        assert [attempt.number for attempt in run.paths.attempts()] == [1, 2]


@pytest.mark.parametrize("word", ["--nodes=0", "--nodes=x", "--procs-per-node=-1"])
def test_bad_numbers_are_usage_errors(word: str, tmp_path: Path) -> None:
    fsdpctl("submit", "llm-tiny", word, cwd=tmp_path, expect=2)


def test_slow_steps_without_a_gpu_are_started_with_yes(tmp_path: Path) -> None:
    require("torch")
    model = "{vocab_size: 256, d_model: 16, layers: 1, heads: 1, kv_heads: 1, head_dim: 16, ffn: 16, seq_len: 16}"
    batch = "{sequences: 8000000, micro_batch: 2}"
    trainer = f"trainer:\n  steps: 2\n  model: {model}\n  batch: {batch}\n  optim: {{lr: 1.0e-3}}\n"
    trainer += "  checkpoint: {every_steps: 1, keep: 1}\n"
    (tmp_path / "slow.yaml").write_text(f"name: slow\nnodes: 1\nprocs_per_node: 1\n{trainer}")
    refused = fsdpctl("submit", "./slow.yaml", cwd=tmp_path, expect=2)
    assert "expect minutes for each of the 2 steps" in refused.stderr and not default_runs_root().exists()
    run = submit("./slow.yaml", "--yes", cwd=tmp_path)
    wait_for(lambda: "starting at step 0" in fsdpctl("logs", run.run_id, cwd=tmp_path).stdout, 120, run.describe)
    fsdpctl("cancel", run.run_id, cwd=tmp_path)
    run.assert_nothing_left()
