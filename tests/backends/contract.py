"""The behaviour of every launcher, written once. A subclass names the profile; the servers behind it are real.

Jobs here are plain scripts: what is tested is launching, and a script without torch starts four times faster.
"""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fsdpctl.cli.output import safe
from fsdpctl.commands.torchrun import TORCHRUN
from fsdpctl.node.os.usage import find_wait
from tests.backends.harness import Run, command_line, find_variable, fsdpctl, kill, paused, submit, wait_for
from tests.services import require

RECORDER = """
import json, os, sys
from pathlib import Path
rank = os.environ["RANK"]
Path(os.environ["FSDPCTL_RUN_DIR"], f"seen-{rank}.json").write_text(
    json.dumps({"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}))
print("rank", rank, "was here")
"""

WAITS_FOR_STOP = """
import os, time
from pathlib import Path
print("waiting", flush=True)
Path(os.environ["FSDPCTL_RUN_DIR"], f"up-{os.environ['RANK']}").touch()
while not Path(os.environ["FSDPCTL_STOP_FILE"]).exists():
    time.sleep(0.05)
"""

WAITS_FOR_GO = WAITS_FOR_STOP.replace('os.environ["FSDPCTL_STOP_FILE"]', 'os.environ["FSDPCTL_RUN_DIR"], "go"')

IGNORES_STOP = """
import os, signal, time
from pathlib import Path
def note(number, frame):
    Path(os.environ["FSDPCTL_RUN_DIR"], f"term-{os.environ['RANK']}").touch()
signal.signal(signal.SIGTERM, note)
Path(os.environ["FSDPCTL_RUN_DIR"], f"up-{os.environ['RANK']}").touch()
while True:
    time.sleep(0.05)
"""

HAS_CHILDREN = f"""
import subprocess
subprocess.Popen(["sleep", "1000"], start_new_session=True)
{IGNORES_STOP}
"""

SAVES_ON_USR1 = """
import os, signal, sys, time
from pathlib import Path
root, rank = os.environ["FSDPCTL_RUN_DIR"], os.environ["RANK"]
def save(number, frame):
    time.sleep(1)
    Path(root, f"saved-{rank}").touch()
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
Path(root, f"up-{rank}").touch()
while True:
    time.sleep(0.05)
"""

FAILS_OR_STEPS = """
import os, time
from pathlib import Path
from fsdpctl.report import step
if "FAIL" in os.environ:
    raise RuntimeError("no data on this node")
step(int(os.environ["WORLD_SIZE"]))
while not Path(os.environ["FSDPCTL_STOP_FILE"]).exists():
    time.sleep(0.05)
"""

DEAF_PEERS = """
import os, signal, time
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN)
Path(os.environ["FSDPCTL_RUN_DIR"], f"up-{os.environ['RANK']}").touch()
time.sleep(1000)
"""

RANK_2_STOPS = """
import os, signal, time
if os.environ["RANK"] == "2":
    os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(1000)
"""

FORKS_AWAY = """
import os, time
from pathlib import Path
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", "1000"], {"FORGOT": os.environ["FSDPCTL_RUN_ID"]})
    if os.fork() == 0:
        Path(os.environ["FSDPCTL_RUN_DIR"], f"up-{os.environ['RANK']}").touch()
        time.sleep(1000)
    os._exit(0)
time.sleep(1000)
"""

RANK_2_FAILS = """
import os, time
if os.environ["RANK"] == "2":
    time.sleep(0.3)
    raise ValueError("the data is \\x1b[31mbroken")
time.sleep(1000)
"""

AWKWARD = [
    "plain",
    "",
    "two words",
    "$(touch pwned)",
    "`id`",
    "a;b&c|d",
    "it's",
    '"q"',
    "-x",
    "--y=1",
    "*?~!",
    "\u00e9",
]


def forgetful(run: Run) -> list[int]:
    """Processes of the FORKS_AWAY script that have nothing of their run but a variable of its own."""
    return find_variable("FORGOT", run.run_id)


def status_that_names(run: Run, awaited: Run) -> dict[str, Any] | None:
    """The status of a run, once it is known for which other run it waits."""
    status = run.status()
    return status if awaited.run_id in status["reason"] else None


class LauncherContract:
    """Subclass it, name the class TestXxx, and say which profile."""

    profile: str
    leaves_within_s = 10.0

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        require("torch")  # torchrun is part of it
        directory = tmp_path / "my project"
        directory.mkdir()
        return directory

    def submit_script(
        self, project: Path, text: str, *words: str, nodes: int = 2, grace: str = "30s", extra: str = ""
    ) -> Run:
        (project / "script.py").write_text(text)
        (project / "job.yaml").write_text(
            f"name: probe\nnodes: {nodes}\nprocs_per_node: 2\ngrace: {grace}\n"
            f"entrypoint: {{script: script.py}}\n{extra}"
        )
        return self.submit("./job.yaml", "--profile", self.profile, *words, cwd=project)

    def submit(self, *words: str, cwd: Path) -> Run:
        return submit(*words, cwd=cwd)

    def node_directory(self, run: Run) -> Path:
        """The run directory on a node, where it has no own one."""
        return run.paths.root

    def written(self, run: Run, pattern: str) -> list[Path]:
        """What ranks have written into their run directory, by name."""
        return sorted(run.paths.root.glob(pattern))

    def wait_up(self, run: Run, ranks: int = 4) -> None:
        wait_for(lambda: len(self.written(run, "up-*")) == ranks, 60, lambda: f"all ranks up; {run.describe()}")

    def seen(self, run: Run, ranks: int = 4) -> list[dict[str, object]]:
        seen = [json.loads(path.read_text()) for path in self.written(run, "seen-*.json")]
        assert len(seen) == ranks
        return seen

    def test_ranks_get_their_environment_arguments_and_secrets(
        self, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Byte for byte, and none of it can be read by other users, whatever the umask."""
        monkeypatch.setenv("TOKEN_CANARY", "s3cret-canary")
        profile = tmp_path / "with-secret.yaml"
        base = fsdpctl("profiles", "show", self.profile, cwd=project).stdout
        profile.write_text(base.replace("pass_env: []", "") + "\npass_env: [TOKEN_CANARY]\n")
        args, value = json.dumps(AWKWARD), 'a b & $(touch pwned) "q" \\n'
        (project / "script.py").write_text(RECORDER)
        (project / "job.yaml").write_text(
            f"name: probe\nnodes: 2\nprocs_per_node: 2\nentrypoint: {{script: script.py}}\nargs: {args}\n"
            f"env: {{ODD: {json.dumps(value)}}}\n"
        )
        before = os.umask(0)
        try:
            run = self.submit("./job.yaml", "--profile", str(profile), cwd=project)
        finally:
            os.umask(before)
        assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
        for rank, seen in enumerate(self.seen(run)):
            env = seen["env"]
            assert isinstance(env, dict)
            assert (env["RANK"], env["WORLD_SIZE"], env["LOCAL_RANK"]) == (str(rank), "4", str(rank % 2))
            assert env["FSDPCTL_NODE_RANK"] == str(rank // 2)
            assert env["FSDPCTL_RUN_ID"] == run.run_id
            assert seen["cwd"] == f"{env['FSDPCTL_RUN_DIR']}/code/src"
            assert seen["argv"] == AWKWARD
            assert (env["ODD"], env["TOKEN_CANARY"]) == (value, "s3cret-canary")
        assert not list(tmp_path.rglob("pwned"))
        holders = [
            p for p in run.paths.root.rglob("*") if p.is_file() and "s3cret-canary" in p.read_text(errors="replace")
        ]
        assert [p for p in holders if not p.name.startswith("seen-")] == [run.paths.secrets]
        assert run.paths.secrets.stat().st_mode & 0o777 == 0o600
        assert run.paths.root.stat().st_mode & 0o777 == 0o700
        open_to_others = [p for p in run.paths.root.rglob("*") if not p.is_symlink() and p.stat().st_mode & 0o077]
        assert open_to_others == []
        run.assert_nothing_left(self.leaves_within_s)
        refused = fsdpctl("resume", run.run_id, cwd=project, expect=2)
        assert f"run {run.run_id} has succeeded" in refused.stderr

    def test_of_two_runs_at_once_one_is_stopped_and_resumed(self, project: Path, tmp_path: Path) -> None:
        """From another directory, when the job is gone and the script is another one: the run has its own copies."""
        run = self.submit_script(project, WAITS_FOR_STOP, "--name", "one")
        fsdpctl("resume", run.run_id, cwd=project, expect=5)
        other = self.submit_script(project, WAITS_FOR_STOP, "--name", "two", nodes=1)
        self.wait_up(run)
        self.wait_up(other, ranks=2)
        assert run.status()["state"] == "RUNNING"
        asked = 'echo "$PWD $FSDPCTL_NODE_RANK $FSDPCTL_ATTEMPT $FSDPCTL_RUN_DIR $FSDPCTL_RUN_ID|"; exit 7'
        shown = fsdpctl("shell", run.run_id, "--node", "1", cwd=project, stdin=asked, expect=7).stdout
        at = self.node_directory(run)
        assert shown == f"{at}/code/src 1 1 {at} |\n", "and it is no process of the run, which would end it"
        fsdpctl("shell", run.run_id, "--node", "2", cwd=project, expect=2)
        ranks = json.loads(fsdpctl("stacks", run.run_id, "--json", cwd=project).stdout)["ranks"]
        assert [(one["rank"], one["node_rank"], one["problem"]) for one in ranks] == [
            (0, 0, ""),
            (1, 0, ""),
            (2, 1, ""),
            (3, 1, ""),
        ]
        files = [{frame["file"].rpartition("/")[2] for frame in one["threads"][0]["frames"]} for one in ranks]
        assert all("script.py" in names for names in files), files
        fsdpctl("resume", run.run_id, cwd=project, expect=5)
        ranks_of_other = other.find(None, "script.py")

        fsdpctl("stop", run.run_id, cwd=project)
        status = run.status()
        assert (status["state"], status["reason"]) == ("STOPPED", "stopped (user)")
        run.assert_nothing_left(self.leaves_within_s)
        (project / "job.yaml").unlink()
        for directory in (project, tmp_path):
            (directory / "script.py").write_text("raise SystemExit(9)")
        for path in self.written(run, "up-*"):
            path.unlink()
        fsdpctl("resume", run.run_id, cwd=tmp_path)
        self.wait_up(run)
        fsdpctl("stop", run.run_id, cwd=tmp_path)
        assert run.status()["state"] == "STOPPED", run.describe()

        assert ranks_of_other and other.find(None, "script.py") == ranks_of_other, other.describe()
        fsdpctl("stop", other.run_id, cwd=project)
        assert other.status()["state"] == "STOPPED", other.describe()

    def test_a_script_that_ignores_the_stop_gets_term_then_kill(self, project: Path) -> None:
        run = self.submit_script(project, IGNORES_STOP, grace="2s")
        self.wait_up(run)
        stopped = fsdpctl("stop", run.run_id, cwd=project)
        assert "hint: the script did not exit by itself in its grace" in stopped.stderr, stopped.stderr
        status = run.status()
        assert status["state"] == "STOPPED", run.describe()
        assert status["reason"] == "stopped (user); ended by force 2 s after the stop, a resume starts the script again"
        assert len(self.written(run, "term-*")) == 4
        run.assert_nothing_left(self.leaves_within_s)

    def test_a_run_starts_after_another_has_succeeded_and_never_after_one_that_has_not(self, project: Path) -> None:
        first = self.submit_script(project, WAITS_FOR_GO, "--name", "first", nodes=1)
        stopped = self.submit_script(project, WAITS_FOR_STOP, "--name", "stopped", nodes=1)
        second, cancelled = (
            self.submit_script(project, "print('done')", "--name", name, "--after", first.run_id, nodes=1)
            for name in ("second", "cancelled")
        )
        never = self.submit_script(project, "print('done')", "--name", "never", "--after", stopped.run_id, nodes=1)
        for run, awaited in ((second, first), (cancelled, first), (never, stopped)):
            status = wait_for(partial(status_that_names, run, awaited), 20, run.describe)
            assert status["state"] == "QUEUED", run.describe()
        fsdpctl("cancel", cancelled.run_id, cwd=project)
        self.wait_up(stopped, ranks=2)
        fsdpctl("stop", stopped.run_id, cwd=project)
        end = never.wait_ended()
        assert (end["state"], end["cause"]) == ("CANCELLED", "start"), never.describe()
        assert end["reason"] == f"not started: run {stopped.run_id}, for which it waited, is STOPPED"
        refused = fsdpctl(
            "submit", "./job.yaml", "--profile", self.profile, "--after", "stopped", cwd=project, expect=2
        )
        assert f"run {stopped.run_id} is STOPPED, so nothing can start after it" in refused.stderr
        self.wait_up(first, ranks=2)
        assert second.status()["state"] == "QUEUED", second.describe()
        (first.paths.root / "go").touch()
        assert second.wait_ended()["state"] == "SUCCEEDED", second.describe()
        assert cancelled.status()["state"] == "CANCELLED", cancelled.describe()
        assert not cancelled.pids()

    def test_a_stop_signal_reaches_all_ranks_at_once_and_the_grace_is_the_time_to_obey(self, project: Path) -> None:
        """The script does not know of the stop file: it saves when it gets the signal."""
        run = self.submit_script(project, SAVES_ON_USR1, extra="stop_signal: USR1\n")
        self.wait_up(run)
        fsdpctl("stop", run.run_id, cwd=project)
        status = run.status()
        assert (status["state"], status["reason"]) == ("STOPPED", "stopped (user)"), run.describe()
        assert len(self.written(run, "saved-*")) == 4

    def rehearsals(self, run: Run) -> set[str]:
        """Return the names of the directories of rehearsals beside a run."""
        return {path.name for path in run.paths.root.parent.glob("*-rehearsal-*")}

    def test_a_rehearsal_on_a_node_comes_first_and_one_that_fails_is_all_there_is(self, project: Path) -> None:
        (project / "script.py").write_text(FAILS_OR_STEPS)
        (project / "job.yaml").write_text("name: probe\nnodes: 2\nprocs_per_node: 2\nentrypoint: {script: script.py}\n")
        words = ["submit", "./job.yaml", "--profile", self.profile, "--rehearse-node", "--json"]
        failed = fsdpctl(*words, "--set", 'env.FAIL="1"', cwd=project, timeout=120, expect=1)
        assert "the rehearsal failed; nothing was queued" in failed.stderr, failed.stderr
        assert "RuntimeError: no data on this node" in failed.stderr, failed.stderr
        (kept,) = json.loads(fsdpctl("ls", "--json", cwd=project).stdout)
        assert (kept["job"], kept["state"]) == ("probe-rehearsal", "FAILED")
        started = fsdpctl(*words, cwd=project, timeout=120)
        assert "rehearsal: 2 ranks finished step 2 after" in started.stderr, started.stderr
        run = Run.of(json.loads(started.stdout), project)
        rows = json.loads(fsdpctl("ls", "--json", cwd=project).stdout)
        assert [row["run_id"] for row in rows] == [run.run_id, kept["run_id"]]
        assert self.rehearsals(run) == {kept["run_id"]}
        fsdpctl("cancel", run.run_id, cwd=project)
        run.assert_nothing_left()

    def test_cancel_ends_detached_child_processes_too(self, project: Path) -> None:
        run = self.submit_script(project, FORKS_AWAY)
        other = self.submit_script(project, FORKS_AWAY, nodes=1)
        self.wait_up(run)
        self.wait_up(other, ranks=2)
        fsdpctl("cancel", run.run_id, cwd=project)
        assert not run.pids(), run.describe()
        assert not forgetful(run), "those that threw away their environment are gone as well"
        assert forgetful(other)
        assert run.status()["state"] == "CANCELLED"
        assert len([p for p in other.pids() if "script.py" in command_line(p)]) >= 2, "the other run of the same script"
        fsdpctl("cancel", other.run_id, cwd=project)
        assert not other.pids(), other.describe()

    def test_the_first_failing_rank_is_named_and_the_same_failure_is_not_tried_again(self, project: Path) -> None:
        run = self.submit_script(project, RANK_2_FAILS, extra="restarts: 9\n")
        status = run.wait_ended()
        assert (status["state"], status["attempt"]) == ("FAILED", 2)
        assert "rank 2 on node 1: ValueError: the data is" in status["reason"]
        assert "the same exception at the same place ended two attempts without a step" in status["reason"]
        assert len(status["hosts"]) == 2 and "" not in status["hosts"]
        acts = [(event["attempt"], event["text"].partition(":")[0]) for event in status["events"]]
        assert acts == [(1, "started on 2 nodes"), (1, "FAILED"), (2, "started on 2 nodes"), (2, "FAILED")]
        assert "rank 2 on node 1: ValueError: the data is" in status["events"][1]["text"]
        assert status["events"][1]["text"].endswith("; comes back")
        for words in ((), ("--attempt", "1")):
            shown = fsdpctl("logs", run.run_id, *words, cwd=project).stdout
            assert shown.splitlines()[0].startswith("rank 2 on node 1 failed first: ValueError: the data is"), shown
            assert "ValueError: the data is \\x1b[31mbroken" in shown
        assert "supervisor | " in shown and safe(status["events"][1]["text"]) in shown
        (listed,) = [
            row for row in json.loads(fsdpctl("ls", "--json", cwd=project).stdout) if row["run_id"] == run.run_id
        ]
        assert listed["reason"] == status["reason"]
        assert run.initiating() == ("exception", [(2, status["hosts"][1])])
        assert 'script.py:5 in <module>: raise ValueError("the data is' in fsdpctl("explain", cwd=project).stdout
        run.assert_nothing_left(self.leaves_within_s)

    def test_a_stopped_rank_is_found_and_named(self, project: Path) -> None:
        """Within the limits of a job without the key `hang`."""
        run = self.submit_script(project, RANK_2_STOPS)
        status = run.wait_ended()
        assert (status["state"], status["cause"]) == ("FAILED", "hang"), run.describe()
        assert status["reason"].startswith("node 1: rank 2 hangs: its process is stopped, no progress for")
        assert run.initiating() == ("hang", [(2, status["hosts"][1])])
        run.assert_nothing_left(self.leaves_within_s)

    def test_hanging_peers_of_a_dead_rank_do_not_delay_the_end(self, project: Path) -> None:
        """As under NCCL: a rank dies, and its peers on the node neither fail nor hear TERM."""
        run = self.submit_script(project, DEAF_PEERS)
        self.wait_up(run)
        victims = [pid for pid in run.find(1, "script.py") if TORCHRUN not in command_line(pid)]
        kill(victims[:1])
        status = run.wait_ended(limit_s=25)
        assert "signal 9 (SIGKILL)" in status["reason"]
        assert run.initiating()[0] == "signal" and [rank for rank, _ in run.initiating()[1]] in ([2], [3])
        run.assert_nothing_left(self.leaves_within_s)

    def test_a_dead_agent_leaves_no_orphan(self, project: Path) -> None:
        run = self.submit_script(project, IGNORES_STOP)
        self.wait_up(run)
        kill(sorted(run.find(1, "fsdpctl.node.agent"))[:1], signal.SIGKILL)
        run.assert_nothing_left(self.leaves_within_s)
        status = run.status()
        assert (status["state"], status["reason"]) == ("FAILED", "node 1: the node agent was killed")
        assert run.initiating() == ("node_failure", [(None, status["hosts"][1])])

    def test_an_agent_and_its_guard_killed_together_leave_no_orphan(self, project: Path) -> None:
        """A guard that is killed alone is replaced. After both, the ranks end with torchrun, which ends with the agent,
        even while the supervisor cannot help; it ends their children and the run.
        """
        run = self.submit_script(project, HAS_CHILDREN, nodes=1)
        self.wait_up(run, ranks=2)
        agent, first = sorted(run.find(0, "fsdpctl.node.agent --run-dir"))
        kill([first])
        wait_for(lambda: set(run.find(0, "fsdpctl.node.agent --run-dir")) - {agent, first}, 10, run.describe)
        with paused(run.find(None, "fsdpctl.backends.")):
            kill([agent], signal.SIGSTOP)
            wait_for(lambda: find_wait(agent).state == "T", 10, run.describe)  # so that it replaces no guard meanwhile
            kill(sorted(run.find(0, "fsdpctl.node.agent --run-dir"), reverse=True))
            wait_for(lambda: not run.find(0, "script.py"), 10, run.describe)
        status = run.wait_ended(limit_s=60)
        run.assert_nothing_left(self.leaves_within_s)
        assert (status["state"] in ("LOST", "FAILED"), status["cause"]) == (True, "lost"), run.describe()
        assert run.initiating() == ("node_failure", [(None, status["hosts"][0])])
        assert "the agent of node 0 vanished without an exit record" in status["events"][-1]["text"]
