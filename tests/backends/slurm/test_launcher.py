"""The Slurm launcher on a real cluster: the common behaviour, and what only Slurm can show."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fsdpctl.contract import StopReason
from fsdpctl.contract.control_files import read_control_file
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.runs.store import read_record
from tests.backends.contract import FORKS_AWAY, IGNORES_STOP, RECORDER, WAITS_FOR_STOP, LauncherContract
from tests.backends.harness import COMMAND, Run, fsdpctl, wait_for
from tests.backends.slurm.profile import SlurmRun, write_contained_profile, write_profile
from tests.services import require
from tests.testbed.disks import Mount
from tests.testbed.slurm import SlurmCluster

WAITS_IN_ITS_FIRST_ATTEMPT = """
import os, time
from pathlib import Path
Path(os.environ["FSDPCTL_RUN_DIR"], f"up-{os.environ['RANK']}").touch()
while os.environ["FSDPCTL_ATTEMPT"] == "1" and not Path(os.environ["FSDPCTL_STOP_FILE"]).exists():
    time.sleep(0.05)
"""
LEAVES_AT_A_USERS_STOP = """
import os, time
from pathlib import Path
stop = Path(os.environ["FSDPCTL_STOP_FILE"])
Path(os.environ["FSDPCTL_RUN_DIR"], f"up-{os.environ['RANK']}").touch()
while not stop.exists() or "user" not in stop.read_text():
    time.sleep(0.05)
"""
URGENT = ("--partition=high", "--nodes=4", "--exclusive", "--output=/dev/null", "--wrap=sleep 0")
FOLLOW = """
import sys
from fsdpctl.cli.follow import follow_run
from fsdpctl.runs.find import find_run
sys.exit(follow_run(find_run(sys.argv[1])))
"""


class TestSlurm(LauncherContract):
    @pytest.fixture(autouse=True)
    def cluster(self, slurm: SlurmCluster, tmp_path: Path) -> SlurmCluster:
        self.slurm = slurm
        self.profile = write_profile(tmp_path)
        return slurm

    def submit_script(
        self, project: Path, text: str, *words: str, nodes: int = 2, grace: str = "30s", extra: str = ""
    ) -> SlurmRun:
        run = super().submit_script(project, text, *words, nodes=nodes, grace=grace, extra=extra)
        return SlurmRun(run.run_id, run.paths, run.cwd, self.slurm)

    def test_the_dry_run_shows_the_submitted_batch_script(self, project: Path) -> None:
        (project / "script.py").write_text(WAITS_FOR_STOP)
        (project / "job.yaml").write_text("name: probe\nnodes: 2\ntime_limit: 1h\nentrypoint: {script: script.py}\n")
        words = ("submit", "./job.yaml", "--profile", self.profile)
        done = fsdpctl(*words, "--dry-run", "--json", cwd=project)
        assert "preempted (REQUEUE) with TERM, and KILL 5 s later, TERM 20 s before that" in done.stderr
        planned = json.loads(done.stdout)
        row = json.loads(fsdpctl(*words, "--json", cwd=project).stdout)
        run = SlurmRun(row["run_id"], Run.of(row, project).paths, project, self.slurm)
        told = self.slurm.run("scontrol", "write", "batch_script", run.job_id, "-")
        assert told.replace(run.run_id, planned["plan"]["run_id"]) + "\n" == planned["batch_script"]
        assert "WCKey" not in self.slurm.job(run.job_id) or self.slurm.job(run.job_id)["WCKey"] in ("*", "(null)")
        self.wait_up(run)
        said = fsdpctl("cancel", run.run_id, cwd=project, env=self.slurm.cut_off()).stderr
        run.assert_nothing_left()
        assert "Slurm does not answer: " in said and "the run is ended through its directory" in said
        assert run.status()["state"] == "CANCELLED"

    def test_a_waiting_run_reports_why_and_can_be_stopped_or_cancelled(self, project: Path) -> None:
        blocker = self.slurm.run(
            "sbatch", "--parsable", "--nodes=4", "--exclusive", "--output=/dev/null", "--wrap=sleep 600"
        )
        wait_for(lambda: self.slurm.job(blocker)["JobState"] == "RUNNING", 20, "the blocker to run")
        first, second = (self.submit_script(project, RECORDER, nodes=1) for _ in range(2))
        wait_for(lambda: "the nodes are in use" in first.status()["reason"], 30, first.status)
        after = f"dependency=afterok:{first.job_id}"
        third = self.submit_script(project, RECORDER, "--backend", after, "--backend", "mail-type=NONE", nodes=1)
        assert first.status()["state"] == second.status()["state"] == third.status()["state"] == "QUEUED"
        assert (first.status()["job_id"], first.status()["hosts"]) == (first.job_id, [])
        wait_for(lambda: "Dependency (waits for another job)" in third.status()["reason"], 30, third.status)
        fsdpctl("resume", first.run_id, cwd=project, expect=5)
        fsdpctl("stop", first.run_id, cwd=project)
        assert first.status()["state"] == "STOPPED"
        fsdpctl("cancel", second.run_id, cwd=project)
        assert second.status()["state"] == "CANCELLED"
        wait_for(lambda: "never starts: `fsdpctl cancel`" in third.status()["reason"], 30, third.status)
        fsdpctl("cancel", third.run_id, cwd=project)
        assert self.slurm.run("squeue", "--noheader", "--format=%i") == blocker
        self.slurm.run("scancel", blocker)
        fsdpctl("resume", first.run_id, cwd=project)
        assert first.wait_ended()["state"] == "SUCCEEDED", first.describe()

    def test_submit_warns_of_a_grace_that_is_too_short(self, project: Path, tmp_path: Path) -> None:
        (project / "script.py").write_text(RECORDER)
        (project / "job.yaml").write_text("name: probe\ngrace: 2m\nentrypoint: {script: script.py}\n")
        short = "can preempt the run with 6 s to save (GraceTime 1, KillWait 5), but its grace is 2m"
        for partition, said in (("brief", short), ("high", "")):
            done = fsdpctl("submit", "./job.yaml", "--profile", write_profile(tmp_path, partition), cwd=project)
            assert [line for line in done.stderr.splitlines() if "warning" in line and said in line] or not said
            assert said or "warning" not in done.stderr
        words = ("--dry-run", "--backend", "partition=high,brief")
        assert short in fsdpctl("submit", "./job.yaml", "--profile", self.profile, *words, cwd=project).stderr

    def test_scancel_cancels_the_run_and_a_requeue_does_not_restart_it(self, project: Path) -> None:
        run = self.submit_script(project, FORKS_AWAY)
        self.wait_up(run)
        self.slurm.run("scancel", run.job_id)
        run.assert_nothing_left()
        assert run.wait_ended()["state"] == "CANCELLED", run.describe()
        wait_for(lambda: self.slurm.job(run.job_id)["JobState"] == "CANCELLED", 20, run.describe)
        self.slurm.run("scontrol", "requeue", run.job_id)
        self.slurm.run("scontrol", "update", f"JobId={run.job_id}", "StartTime=now+2")
        wait_for(lambda: self.slurm.job(run.job_id)["JobState"] == "COMPLETED", 60, run.describe)
        assert (run.status()["state"], len(run.paths.attempts())) == ("CANCELLED", 1)

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (", constraint: none-such", "Invalid feature specification"),
            (", cpus_per_task: 64", "never start the job: PartitionConfig (the partition has no such nodes"),
            (", nodelist: node77", "Invalid node name specified"),
            (", reservation: none-such", "Requested reservation is invalid"),
        ],
    )
    def test_refused_options_are_reported_with_the_error_of_slurm(
        self, more: str, said: str, project: Path, tmp_path: Path
    ) -> None:
        self.refused(write_profile(tmp_path, more=more), project, said)

    def test_an_unknown_partition(self, project: Path, tmp_path: Path) -> None:
        self.refused(write_profile(tmp_path, "none-such"), project, "Invalid partition name specified")

    def test_too_many_nodes(self, project: Path) -> None:
        self.refused(
            self.profile,
            project,
            "never start the job: PartitionConfig (the partition has no such nodes, or not so many",
            "--nodes=9",
        )

    def test_a_controller_that_is_down(self, project: Path) -> None:
        self.slurm.kill("slurmctld")
        self.refused(self.profile, project, "Unable to contact slurm controller")

    def refused(self, profile: str, project: Path, said: str, *words: str) -> None:
        (project / "script.py").write_text(RECORDER)
        (project / "job.yaml").write_text("name: probe\nnodes: 2\nentrypoint: {script: script.py}\n")
        done = fsdpctl("submit", "./job.yaml", "--profile", profile, *words, cwd=project, expect=4)
        assert said.lower() in done.stderr.lower()
        assert len([line for line in done.stderr.splitlines() if "error" in line]) == 1
        assert json.loads(fsdpctl("ls", "--json", cwd=project).stdout) == []
        assert self.slurm.run("squeue", "--noheader") in ("",) or "Unable to contact" in said

    @pytest.mark.parametrize("moment", ["run.json", "slurm.json", ".submission_file_*", "the job", "*_submission.sh"])
    def test_a_killed_submit_starts_at_most_one_attempt(self, moment: str, project: Path, home: Path) -> None:
        (project / "script.py").write_text(RECORDER)
        (project / "job.yaml").write_text("name: probe\nprocs_per_node: 1\nentrypoint: {script: script.py}\n")
        runs = home / "fsdpctl" / "runs"

        def has_come() -> bool:
            if moment == "the job":
                return bool(self.slurm.run("squeue", "--noheader"))
            return bool(list(runs.glob(f"probe-*/{moment}")))

        words = [COMMAND, "submit", "./job.yaml", "--profile", self.profile, "--json"]
        process = subprocess.Popen(words, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not has_come():
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()
        (row,) = json.loads(fsdpctl("ls", "--json", cwd=project).stdout)
        run = Run.of(row, project)
        if run.status()["state"] == "PLANNED":
            fsdpctl("resume", run.run_id, cwd=project)
        assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
        assert [attempt.number for attempt in run.paths.attempts()] == [1]
        wait_for(lambda: not self.slurm.run("squeue", "--noheader"), 60, "no job left")

    def test_outer_variables_are_not_inherited_and_runs_root_is_quoted_for_the_container_too(
        self, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        foreign = {"SLURM_CPU_BIND": "x", "SBATCH_PARTITION": "none-such", "RANK": "7", "MASTER_ADDR": "x"}
        for name, value in foreign.items():
            monkeypatch.setenv(name, value)
        root = tmp_path / "a b'c\"d#e$(touch pwned)%j;&f"
        self.profile = write_contained_profile(tmp_path, runs_root=root, comment='it\'s "mine" | #1')
        run = self.submit_script(project, RECORDER)
        comment = f'Comment=fsdpctl:{run.run_id} it\'s "mine" | #1'
        assert comment in self.slurm.run("scontrol", "show", "job", run.job_id)
        assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
        for rank, seen in enumerate(self.seen(run)):
            env = seen["env"]
            assert isinstance(env, dict)
            assert (env["LOADED"], env["INSIDE"]) == ("fake/1", f"--bind={root} {tmp_path}/bin/apptainer")
            assert (env["RANK"], env["MASTER_ADDR"]) == (str(rank), "127.0.0.1")
            assert env.get("SLURM_CPU_BIND") != "x"
        assert run.paths.root.parent == root
        assert run.paths.batch_log.is_file()
        assert not list(tmp_path.rglob("pwned*"))

    def test_a_job_that_cannot_begin_reports_why(self, project: Path) -> None:
        """Its node does not see the run directory, or the code is gone; a log is named only where there is one."""
        unseen, emptied = (self.submit_script(project, RECORDER, "--backend", "hold", nodes=1) for _ in range(2))
        jobs, hidden = [unseen.job_id, emptied.job_id], unseen.paths.root.with_name("hidden")
        unseen.paths.root.rename(hidden)
        shutil.rmtree(emptied.paths.code)
        self.slurm.run("scontrol", "release", ",".join(jobs))
        wait_for(lambda: {self.slurm.job(job_id)["JobState"] for job_id in jobs} == {"FAILED"}, 30, "both jobs to fail")
        hidden.rename(unseen.paths.root)
        assert f"exit code 0:53): its node does not see {unseen.paths.root}" in unseen.status()["reason"]
        assert f"the run's code is missing, {emptied.paths.code}" in emptied.status()["reason"]
        assert f"the code of the run is missing: {emptied.paths.code}" in emptied.paths.batch_log.read_text()
        assert "the run's code is missing" in fsdpctl("resume", emptied.run_id, cwd=project, expect=1).stderr
        fsdpctl("resume", emptied.run_id, "--update-code", cwd=project)
        assert (emptied.paths.source / "script.py").is_file() and emptied.status()["state"] == "QUEUED"

    def test_a_disk_that_a_node_mounts_late_is_waited_for(self, project: Path) -> None:
        require("mount")
        runs = default_runs_root()
        runs.mkdir(parents=True)
        self.slurm.give_own_mounts("node2")
        self.slurm.run_in_mounts("node2", "mount", "-t", "tmpfs", "tmpfs", str(runs))
        try:
            run = self.submit_script(project, "print('done')", "--backend", "nodelist=node[1-2]")
            told = f"{run.paths.root} is not there yet on node2: waiting for up to 60 s"
            wait_for(lambda: run.paths.batch_log.exists() and told in run.paths.batch_log.read_text(), 60, run.describe)
        finally:
            self.slurm.run_in_mounts("node2", "umount", str(runs))
        status = run.wait_ended()
        assert (status["state"], status["attempt"]) == ("SUCCEEDED", 1), run.describe()
        self.slurm.kill("node2", signal.SIGTERM)  # the next test starts it again, with the mounts of all

    def test_a_second_job_starts_no_attempt_and_a_stop_needs_no_controller(self, project: Path) -> None:
        run = self.submit_script(project, WAITS_FOR_STOP, nodes=1)
        self.wait_up(run, ranks=2)
        (script,) = run.paths.root.glob("*_submission.sh")
        second = self.slurm.run("sbatch", "--parsable", str(script))
        wait_for(lambda: self.slurm.job(second)["JobState"] == "COMPLETED", 60, run.describe)
        assert len(run.paths.attempts()) == 1
        status, hosts = run.status(), run.nodes(1)
        assert (status["state"], status["reason"], status["job_id"], status["hosts"]) == (
            *("RUNNING", "training", run.job_id, hosts),
        )
        self.slurm.run("scontrol", "suspend", run.job_id)
        status = run.status()
        assert (status["state"], status["phase"]) == ("RUNNING", "suspended"), status
        self.slurm.run("scontrol", "resume", run.job_id)
        said = fsdpctl("stop", run.run_id, cwd=project, env=self.slurm.cut_off()).stderr
        assert "Slurm does not answer: " in said and "the run is asked through its directory" in said
        wait_for(lambda: run.status()["state"] == "STOPPED", 30, run.describe)
        assert (run.status()["job_id"], run.status()["hosts"]) == (run.job_id, hosts)
        fsdpctl("resume", run.run_id, "--profile", "local", cwd=project)
        wait_for(lambda: run.status()["phase"] == "training", 30, run.describe)
        assert (run.status()["job_id"], run.status()["hosts"]) == (None, [socket.gethostname()])
        fsdpctl("stop", run.run_id, cwd=project)
        assert run.wait_ended()["state"] == "STOPPED"

    def test_in_an_interactive_allocation_runs_use_its_nodes_and_end_with_it(self, project: Path) -> None:
        """One on fewer nodes, which is cancelled, and one that has the allocation until its end."""
        (project / "script.py").write_text(WAITS_FOR_STOP)
        (project / "job.yaml").write_text("name: probe\nprocs_per_node: 1\nentrypoint: {script: script.py}\n")
        submit = f"{COMMAND} submit ./job.yaml --profile {self.profile}"
        lines = [
            "set -e; echo $SLURM_JOB_ID >job",
            f"{submit} --nodes 1; until test -e cancel; do sleep 0.1; done; {COMMAND} cancel",
            f"{submit} --nodes 2; {submit} --nodes 3 || echo exit code $? >&2",
            "touch up; until test -e done; do sleep 0.1; done",
        ]
        words = ["salloc", "--nodes=2", "--partition=main", "bash", "-c", "\n".join(lines)]
        with open(project / "said", "w") as said:
            shell = subprocess.Popen(words, cwd=project, stdout=subprocess.DEVNULL, stderr=said)

        def rows() -> list[dict[str, Any]]:
            return list(json.loads(fsdpctl("ls", "--json", cwd=project).stdout))

        wait_for(lambda: [row["phase"] for row in rows()] == ["training"], 60, rows)
        (first,), job_id = rows(), (project / "job").read_text().strip()
        assert (first["state"], first["job_id"], first["hosts"]) == ("RUNNING", job_id, ["node1"])
        shown = fsdpctl("shell", cwd=project, stdin='echo "$SLURMD_NODENAME"').stdout
        assert shown == "node1\n"
        assert self.slurm.run("squeue", "--noheader", "--format=%i") == job_id, "no run has a job of its own"
        (project / "cancel").touch()
        wait_for((project / "up").exists, 60, rows)
        second, first = rows()
        assert (second["state"], first["state"]) == ("RUNNING", "CANCELLED")
        Run.of(first, project).assert_nothing_left()
        wait_for(lambda: rows()[0]["hosts"] == ["node1", "node2"], 60, rows)
        self.wait_up(Run.of(second, project), ranks=2)
        self.slurm.run("scancel", job_id)
        status = Run.of(second, project).wait_ended(60)
        assert (status["state"], status["job_id"]) == ("STOPPED", job_id), status
        Run.of(second, project).assert_nothing_left()
        (project / "done").touch()
        shell.wait(60)
        text = (project / "said").read_text()
        assert f"the run starts in allocation {job_id} of this shell, and ends with it at the latest" in text
        assert f"this shell has allocation {job_id} of 2 nodes, and the run needs 3" in text and "exit code 4" in text

    def test_a_node_at_fault_is_excluded_from_the_requeue(self, project: Path) -> None:
        bad = project / "bad-node.yaml"
        bad.write_text(Path(self.profile).read_text() + "setup: ['test \"$SLURMD_NODENAME\" != node2']\n")
        self.profile = str(bad)
        run = self.submit_script(project, RECORDER, extra="restarts: 2\n")
        wait_for(lambda: self.slurm.job(run.job_id)["ExcNodeList"] == "node2", 120, run.describe)
        self.slurm.release(run.job_id, restarts=1)
        assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
        assert "node2" in run.nodes(1) and "node2" not in run.nodes(2)
        assert (
            run.reasons()[0]
            == "without node2, asks for a requeue; node 1: a line of `setup` or `environment` failed; see agent.log"
        )
        (listed,) = json.loads(fsdpctl("nodes", "--json", cwd=project).stdout)
        assert (listed["node"], listed["run_id"], listed["attempt"]) == ("node2", run.run_id, 1)
        script = ["submit", "./job.yaml", "--profile", self.profile]
        planned = fsdpctl(*script, "--dry-run", cwd=project)
        assert "#SBATCH --exclude=node2\n" in planned.stdout
        assert f"node2 is left out: suspect ({run.run_id}: a line of `setup`" in planned.stderr
        other = self.submit_script(project, WAITS_FOR_STOP, nodes=4)  # there are not enough others: it gets them all
        assert self.slurm.job(other.job_id)["ExcNodeList"] == "(null)"
        fsdpctl("cancel", other.run_id, cwd=project)
        fsdpctl("nodes", "forgive", "node2", cwd=project)
        assert "--exclude" not in fsdpctl(*script, "--dry-run", cwd=project).stdout

    def test_time_limits_without_a_step_end_the_run(self, project: Path) -> None:
        """As where a start takes longer than the allocation."""
        run = self.submit_script(project, IGNORES_STOP, nodes=1, grace="1s")
        for restarts in (1, 2, 3):
            self.wait_up(run, ranks=2)
            for path in self.written(run, "up-*"):
                path.unlink()
            self.slurm.run("scancel", "--signal=USR2", "--batch", run.job_id)
            if restarts < 3:
                self.slurm.release(run.job_id, restarts)
        status = run.wait_ended()
        assert (status["state"], status["cause"]) == ("FAILED", "time_limit"), run.describe()
        assert run.initiating() == ("time_limit", [])
        assert len(run.reasons()) == 3
        assert run.reasons()[2].startswith("time limit; 3 attempts in a row made no step, so it does not try again")
        run.assert_nothing_left()

    def test_a_stop_during_a_preemption_and_a_requeue_during_a_stop_end_the_run(self, project: Path) -> None:
        run = self.submit_script(project, LEAVES_AT_A_USERS_STOP, nodes=1)
        self.wait_up(run, ranks=2)
        urgent = self.slurm.run("sbatch", "--parsable", *URGENT)
        stop = run.paths.attempt(1).stop
        wait_for(lambda: (found := read_control_file(stop)) and found.cause == StopReason.PREEMPT, 60, run.describe)
        assert "STOPPED: stopped (user)" in fsdpctl("stop", run.run_id, cwd=project).stderr
        assert self.slurm.job(run.job_id)["Restarts"] == "0" and len(run.paths.attempts()) == 1
        history = fsdpctl("events", run.run_id, cwd=project).stdout
        assert "slurm       preempted" in history and "user        stop requested" in history, history
        wait_for(lambda: self.slurm.job(urgent)["JobState"] == "COMPLETED", 60, run.describe)

        run = self.submit_script(project, IGNORES_STOP, nodes=1, grace="2m")
        self.wait_up(run, ranks=2)
        with ThreadPoolExecutor() as pool:
            stopping = pool.submit(fsdpctl, "stop", run.run_id, cwd=project)
            wait_for(run.paths.attempt(1).stop.exists, 60, run.describe)
            self.slurm.run("scontrol", "requeue", run.job_id)
            said = stopping.result().stderr
        job = self.slurm.job(run.job_id)
        assert (job["JobState"], job["Restarts"], len(run.paths.attempts())) == ("CANCELLED", "1", 1), said
        assert run.status()["state"] == "STOPPED", said

    def test_a_run_requeues_itself_where_preemption_cancels_jobs(self, project: Path, tmp_path: Path) -> None:
        """The batch script puts its job back into the queue, even with JobRequeue=0: jobs ask for themselves."""
        self.slurm.reconfigure("JobRequeue=0")
        self.profile = write_profile(tmp_path, "cancel")
        run = self.submit_script(project, WAITS_IN_ITS_FIRST_ATTEMPT, nodes=1)
        self.wait_up(run, ranks=2)
        self.slurm.preempt(seconds=0)
        self.slurm.release(run.job_id, restarts=1)
        assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
        assert len(run.reasons()) == 2 and "requeue" in run.reasons()[0]

    @pytest.mark.parametrize(("partition", "nodes"), [("main", 2), ("cancel", 1)])
    def test_a_run_preempted_on_a_full_disk_is_requeued_and_succeeds(
        self, partition: str, nodes: int, project: Path, tmp_path: Path, small_disk: Mount
    ) -> None:
        """The stop is not taken for the user's, a verdict that cannot be written does not end the job, and the next
        attempt waits for the disk.
        """
        self.profile = write_profile(tmp_path, partition)
        Path(self.profile).write_text(f"{Path(self.profile).read_text()}runs_root: {small_disk.path}\n")
        run = self.submit_script(project, WAITS_IN_ITS_FIRST_ATTEMPT, nodes=nodes)
        self.wait_up(run, ranks=2 * nodes)
        small_disk.fill()
        self.slurm.preempt(seconds=0)
        self.slurm.release(run.job_id, restarts=1)
        small_disk.empty()
        assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
        assert len(run.paths.attempts()) == 2
        stop = read_control_file(run.paths.attempt(1).stop)
        assert stop is not None and stop.cause == StopReason.PREEMPT

    def test_a_run_that_slurm_will_not_requeue_is_submitted_again_once(self, project: Path, tmp_path: Path) -> None:
        self.profile = write_profile(tmp_path, "cancel")
        run = self.submit_script(project, WAITS_IN_ITS_FIRST_ATTEMPT, nodes=1)
        self.wait_up(run, ranks=2)
        first = run.job_id
        self.slurm.run("scontrol", "update", f"JobId={first}", "Requeue=0")  # as a plugin of the site would
        followers = [
            subprocess.Popen([sys.executable, "-c", FOLLOW, run.run_id], cwd=project, stderr=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        self.slurm.preempt(seconds=0)
        said = [follower.communicate(timeout=120)[1] for follower in followers]
        assert [follower.returncode for follower in followers] == [0, 0], said
        assert run.status()["state"] == "SUCCEEDED", run.describe()
        assert sum("submitted again" in text for text in said) == 1
        assert len(read_record(run.paths).submissions) == 2
        assert run.job_id != first

    def test_an_srun_that_starts_no_agent_is_killed(self, project: Path, tmp_path: Path) -> None:
        """As where the controller was restarted while srun asked for its step."""
        srun = tmp_path / "bin" / "srun"
        srun.parent.mkdir()
        srun.write_text(f'#!/bin/bash\nmkdir {tmp_path}/hung && exec sleep 1000\nexec {shutil.which("srun")} "$@"\n')
        srun.chmod(0o755)
        profile = Path(self.profile)
        profile.write_text(f"{profile.read_text()}join_timeout: 10s\nsetup: ['PATH={srun.parent}:$PATH']\n")
        run = self.submit_script(project, RECORDER, extra="restarts: 3\n")
        assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
        assert run.reasons()[0] == "srun started no agent; see batch.log"
