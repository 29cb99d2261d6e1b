"""Notices of real runs: of a good end, a failure and a hang, to servers that work, break, wait and are not there."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from fsdpctl.contract.events import EventKind
from fsdpctl.runs.events import notice_events
from tests.backends.harness import Run, fsdpctl, wait_for
from tests.services import require
from tests.unit.notify.servers import SECRET_PATH, http_server
from tests.unit.notify.test_mail import mail_by, smtp_server

JOB = """\
name: noticed
entrypoint: {script: script.py}
hang: {after: 2s}
restarts: 1
"""


def write(directory: Path, script: str, notify: str) -> None:
    (directory / "script.py").write_text(script)
    (directory / "job.yaml").write_text(JOB)
    (directory / "p.yaml").write_text(f"name: here\nprocs_per_node: 1\nnotify:\n{notify}")


def wait_for_notices(run: Run, count: int) -> list[str]:
    wait_for(lambda: len(notice_events(run.paths)) >= count, 240, lambda: f"{count} notices; {run.describe()}")
    return sorted(f"{event.kind}: {event.text}" for event in notice_events(run.paths))


def assert_is_nowhere(secret: str, run: Run) -> None:
    files = [path for path in run.paths.root.rglob("*") if path.is_file()]
    assert len(files) > 10 and not [path for path in files if secret.encode() in path.read_bytes()]


def test_a_good_end_reaches_a_server_that_breaks_twice_and_waits_for_no_other(tmp_path: Path) -> None:
    require("torch")
    write(
        tmp_path,
        "print('done')\n",
        "  - {kind: slack, url_env: HOOK}\n  - {kind: json, url_file: ~/slow}\n"
        "  - {kind: command, command: [sh, -c, 'cat > notice.json; env > env.txt'], on: [end]}\n"
        "  - {kind: json, url_env: NOT_SET, on: [hang, failure]}\n",
    )
    with http_server(500, 500, 200) as server, http_server(is_slow=True) as slow:
        (Path.home() / "slow").write_text(slow.url)
        run = _submit(tmp_path, {"HOOK": server.url})
        assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()  # although a server does not answer
        wait_for(lambda: slow.requests, 60, "the slow server to be asked")
        assert wait_for_notices(run, 2) == [
            "notice_sent: notice of end to command sh sent",
            "notice_sent: notice of end to slack webhook of $HOOK sent after 3 tries",
        ]
        slow.hold.set()
        assert wait_for_notices(run, 3)[1].startswith("notice_sent: notice of end to json webhook of ~/slow sent")
    assert server.requests[2][0] == SECRET_PATH and f"fsdpctl: {run.run_id} SUCCEEDED" in server.bodies[2]["text"]
    assert json.loads((run.paths.root / "notice.json").read_text())["state"] == "SUCCEEDED"
    assert str(run.paths.code) not in (run.paths.root / "env.txt").read_text()
    (run.paths.root / "env.txt").unlink()  # of the command, which has the variable
    assert_is_nowhere("5ecret", run)
    assert run.status()["unsent_notice"] is None


def test_a_failure_a_hang_and_an_end_reach_mail_while_a_server_is_dead(tmp_path: Path) -> None:
    require("torch")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    script = (
        "import os, time\nfrom fsdpctl.report import step\n"
        "step(1)\nif os.environ['FSDPCTL_ATTEMPT'] == '1':\n    raise SystemExit(3)\ntime.sleep(1000)\n"
    )
    with smtp_server("none") as (inbox, mail_port):
        assert mail_by(mail_port).smtp is not None
        mail = f"kind: mail, to: [me@example.org], sender: runs@example.org, smtp: localhost, smtp_port: {mail_port}"
        write(
            tmp_path,
            script,
            f"  - {{{mail}, on: [end, failure]}}\n  - {{kind: json, url_env: HOOK, on: [hang]}}\n"
            "  - {kind: json, url_file: /no/such/file}\n",
        )
        run = _submit(tmp_path, {"HOOK": f"http://127.0.0.1:{port}{SECRET_PATH}"})
        assert run.wait_ended()["cause"] == "hang", run.describe()
        found = wait_for_notices(run, 5)
    (failed, ended) = sorted(inbox.mails, key=lambda mail: "attempt    2" in mail[2].get_content())
    assert failed[2]["Subject"] == f"fsdpctl: {run.run_id} failed and restarts"
    assert "rank 0 on node 0: SystemExit: 3" in failed[2].get_content()
    assert ended[2]["Subject"] == f"fsdpctl: {run.run_id} FAILED"
    assert "\nwhy        hang" in ended[2].get_content() and "\nchange " in ended[2].get_content()
    unsent = [text for text in found if text.startswith(EventKind.NOTICE_FAILED)]
    assert len(unsent) == 3 and any("$HOOK not sent after 4 tries: the server cannot be" in text for text in unsent)
    assert_is_nowhere("5ecret", run)
    assert "notices    notice of " in fsdpctl("status", run.run_id, cwd=tmp_path).stdout
    assert "not sent" in run.status()["unsent_notice"]
    assert "notice failed" in fsdpctl("events", run.run_id, cwd=tmp_path).stdout


def _submit(directory: Path, env: dict[str, str]) -> Run:
    row: dict[str, Any] = json.loads(
        fsdpctl("submit", "job.yaml", "-p", "p.yaml", "--json", cwd=directory, env=env).stdout
    )
    return Run.of(row, directory)


def test_a_spike_of_the_loss_is_sent_while_the_run_continues(tmp_path: Path) -> None:
    require("torch")
    script = (
        "import os, time\nfrom pathlib import Path\nfrom fsdpctl.report import step\n"
        "for number in range(1, 104):\n    step(number, loss=2.0 if number <= 100 else 9.0)\n"
        "while not Path(os.environ['FSDPCTL_STOP_FILE']).exists():\n    time.sleep(0.1)\n"
    )
    write(tmp_path, script, "  - {kind: json, url_env: HOOK, on: [spike]}\n")
    (tmp_path / "job.yaml").write_text(JOB.replace("hang: {after: 2s}\n", ""))
    with http_server() as server:
        run = _submit(tmp_path, {"HOOK": server.url})
        assert wait_for_notices(run, 1) == ["notice_sent: notice of spike to json webhook of $HOOK sent"]
        fsdpctl("stop", run.run_id, cwd=tmp_path)
        assert run.wait_ended()["state"] in ("STOPPED", "SUCCEEDED"), run.describe()
    (body,) = server.bodies
    assert body["title"] == f"fsdpctl: {run.run_id} has a loss spike" and body["state"] == "RUNNING"
    assert (body["step"], body["reason"]) == (101, "the loss of step 101 is 9, and was about 2 before")
    lines = [json.loads(line) for line in fsdpctl("events", run.run_id, "--json", cwd=tmp_path).stdout.splitlines()]
    (event,) = [line for line in lines if line["kind"] == "loss_spike"]
    assert (event["step"], event["who"], event["attempt"]) == (101, "supervisor", 1)
