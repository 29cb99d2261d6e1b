"""`fsdpctl tensorboard` starts the real one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from fsdpctl.cli.tensorboard import describe
from fsdpctl.errors import UsageError
from tests.backends.harness import COMMAND
from tests.unit.ended_runs import make_run

LIMIT_S = 120


def test_two_runs_are_served_under_their_names(tmp_path: Path) -> None:
    writer = pytest.importorskip("tensorboard.summary").Writer
    for run_id in ("mine-aaaa", "other-bbbb"):
        events = writer(str(make_run(run_id, steps=2).tensorboard))
        events.add_scalar("loss", 1.0, 1)
        events.close()
    command = [COMMAND, "tensorboard", "mine", "other", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "http://" in line)
        url = next(word for word in line.split() if word.startswith("http://"))
        deadline, found = time.monotonic() + LIMIT_S, []
        while len(found) < 2 and time.monotonic() < deadline:
            with urllib.request.urlopen(f"{url}data/runs", timeout=LIMIT_S) as answer:
                found = json.load(answer)
        assert sorted(name.partition("/")[0] for name in found) == ["mine-aaaa", "other-bbbb"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT_S)


def test_what_is_missing_is_named() -> None:
    run = make_run("mine-aaaa", steps=2)
    command = [COMMAND, "tensorboard"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 2 and "report_to: [tensorboard]" in done.stderr, done
    run.tensorboard.mkdir()
    (run.tensorboard / "events.out.tfevents.1").touch()
    program = "import sys; sys.modules['tensorboard'] = None; from fsdpctl.cli.app import main; main()"
    command = [sys.executable, "-c", program, "tensorboard"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 1 and "tensorboard is missing" in done.stderr and "[train]" in done.stderr, done


@pytest.mark.parametrize("port", ["99999999", "-1"])
def test_a_port_that_does_not_exist_is_refused(port: str) -> None:
    command = [COMMAND, "tensorboard", "--json", "--port", port]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout) == (2, "") and "Invalid value for '--port'" in done.stderr, done


def test_paths_that_tensorboard_would_split_are_refused() -> None:
    assert describe({"a": "/x:y"}) == ["--logdir", "/x:y"]
    with pytest.raises(UsageError, match="comma or colon"):
        describe({"a": "/x:y", "b": "/z"})
