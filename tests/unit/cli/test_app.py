"""The app as a whole: commands, streams, and errors of the disk."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fsdpctl.cli import app
from fsdpctl.cli.app import COMMANDS, GROUPS
from fsdpctl.contract import CliExit
from fsdpctl.contract.files import FULL_DISK, NOT_THERE, PASSING
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.runs.store import create
from tests.backends.harness import COMMAND
from tests.testbed.disks import Mount


def test_a_directory_instead_of_a_file_is_no_bug() -> None:
    run = create(default_runs_root(), RunRecord.new("llm-aaaa", "llm", "local", "local", 1.0, 1), lambda run: None)
    run.attempt(1).events.mkdir(parents=True)
    done = subprocess.run([COMMAND, "logs"], capture_output=True, text=True, timeout=60)
    assert done.returncode == CliExit.FAILED
    assert done.stderr.startswith(f"error: not a regular file: {run.attempt(1).events}\n")


@pytest.mark.parametrize(
    ("number", "code"),
    [
        *((number, CliExit.FAILED) for number in (*FULL_DISK, *NOT_THERE, *PASSING)),
        *((number, CliExit.FAILED) for number in (errno.EIO, errno.EFBIG, errno.ENOSYS)),
        *((number, CliExit.BUG) for number in (errno.EBADF, errno.EINVAL)),
    ],
    ids=lambda value: errno.errorcode.get(value, "") if not isinstance(value, CliExit) else value.name,
)
def test_an_error_of_a_file_server_is_no_bug(
    number: int, code: CliExit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise OSError(number, os.strerror(number), "/nfs/runs")

    monkeypatch.setattr(sys, "argv", ["fsdpctl", "ls"])
    monkeypatch.setattr(app, "build_app", lambda *_: fail)
    monkeypatch.setattr("fsdpctl.cli.crash.write_report", lambda: "crash.txt")
    with pytest.raises(SystemExit) as ended:
        app._run()
    assert ended.value.code == code
    text = f"{os.strerror(number)}: /nfs/runs\n" if code is CliExit.FAILED else "a bug in fsdpctl: "
    assert capsys.readouterr().err.startswith(f"error: {text}")


@pytest.mark.parametrize("arguments", ["jobs ls", "ls", "ls --json", "submit llm-tiny --dry-run"])
def test_a_full_disk_of_standard_output_is_reported(arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([COMMAND, *arguments.split()], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == CliExit.FAILED
    text = "standard output cannot be written: No space left on device"
    last = done.stderr.splitlines()[-1]
    assert json.loads(last)["error"]["message"] == text if "--json" in arguments else last == f"error: {text}"


@pytest.mark.slow
@pytest.mark.parametrize("left", [0, 4096, 40_000, 300_000])
def test_a_full_disk_is_named_at_each_stage_of_a_submit(
    left: int, small_disk: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FSDPCTL_HOME", str(small_disk.path / "home"))
    small_disk.fill(leave=left)
    done = subprocess.run([COMMAND, "submit", "llm-tiny"], capture_output=True, text=True, timeout=60)
    assert done.returncode == CliExit.FAILED
    _profile, first, *_ = done.stderr.splitlines()
    assert first.startswith("error: No space left on device: ")
    assert str(small_disk.path) in first
    assert not list(small_disk.path.glob("home/*/*"))


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize(
    "arguments", [("jobs", "ls"), ("profiles", "ls"), ("jobs", "show", "llm-tiny"), ("ls",), ("logs",)]
)
def test_a_reader_that_has_exited_ends_a_command_without_a_message(arguments: tuple[str, ...], stream: str) -> None:
    """Like `fsdpctl ls | head -1`. A shell reports 141 for what SIGPIPE has ended."""
    create(default_runs_root(), RunRecord.new("llm-aaaa", "llm", "local", "local", 1.0, 1), lambda run: None)
    read_end, write_end = os.pipe()
    os.close(read_end)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: write_end}
    done = subprocess.run([COMMAND, *arguments], **streams, text=True, timeout=60)
    os.close(write_end)
    has_written = (arguments == ("logs",)) == (stream == "stderr")  # there are none, which is reported on stderr
    assert done.returncode == (CliExit.BROKEN_PIPE if has_written else CliExit.OK)
    assert not done.stderr if has_written else True


@pytest.mark.parametrize(
    "arguments", ["--help", "--version", "submit --help", "jobs --help", "--show-completion bash", "submt"]
)
def test_a_reader_that_has_exited_ends_typers_output_the_same_way(
    arguments: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run([COMMAND, *arguments.split()], stdout=write_end, stderr=write_end, timeout=60)
    os.close(write_end)
    assert done.returncode == CliExit.BROKEN_PIPE
    assert not list(tmp_path.iterdir()), "no crash report"


@pytest.mark.parametrize("instruction", ["source_bash", "complete_bash"])
def test_a_shell_that_has_exited_ends_a_completion_the_same_way(
    instruction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("_FSDPCTL_COMPLETE", instruction), ("COMP_WORDS", "fsdpctl st"), ("COMP_CWORD", "1")):
        monkeypatch.setenv(name, value)
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run([COMMAND], stdout=write_end, stderr=subprocess.PIPE, timeout=60)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (CliExit.BROKEN_PIPE, b"")


@pytest.mark.parametrize(
    "arguments", [("submit", "llm-tiny"), ("submit", "llm-tiny", "--dry-run"), ("doctor", "local")]
)
def test_a_current_directory_that_was_deleted_is_named(arguments: tuple[str, ...], tmp_path: Path) -> None:
    shell = [
        "bash",
        "-c",
        'cd "$1" && rmdir "$1" && exec "$0" "${@:2}"',
        str(COMMAND),
        str(tmp_path / "gone"),
        *arguments,
    ]
    (tmp_path / "gone").mkdir()
    done = subprocess.run(shell, capture_output=True, text=True, timeout=60)
    assert done.returncode == CliExit.FAILED
    assert done.stderr == "error: the current directory does not exist any more\nhint: cd to another one\n"
    assert not default_runs_root().exists()


def test_every_command_is_built_if_none_is_named() -> None:
    done = subprocess.run([COMMAND, "--help"], capture_output=True, text=True, timeout=60)
    assert {line.split()[0] for line in done.stdout.split("Commands:\n")[1].splitlines()} == {*COMMANDS, *GROUPS}
    done = subprocess.run([COMMAND, "submt"], capture_output=True, text=True, timeout=60)
    assert done.returncode == CliExit.USAGE
    assert "Did you mean 'submit'?" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("arguments", "code"), [("jobs ls", CliExit.OK), ("jobs check nosuch", CliExit.USAGE)])
def test_a_closed_stream_is_no_bug(closed: str, arguments: str, code: int) -> None:
    shell = ["bash", "-c", f'"$0" {arguments} {closed}', str(COMMAND)]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=60)
    assert done.returncode == code
    assert "bug" not in done.stderr


def test_what_the_locale_cannot_write_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "j\xf6b.yaml").write_text("name: mine\nentrypoint: {script: s.py}\n", encoding="utf-8")
    arguments, env = [COMMAND, "jobs", "check", "j\xf6b.yaml"], {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(arguments, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "j\\xf6b.yaml: ok, 1 node, s.py\n")


def test_children_find_all_three_streams_open() -> None:
    """Otherwise their output would be written to the file that was opened first."""
    probe = "from fsdpctl.__main__ import open_closed_streams; open_closed_streams();"
    probe += "import subprocess; subprocess.run(['readlink', '/proc/self/fd/2'], check=True)"
    arguments = ["bash", "-c", '"$0" -c "$1" 2>&-', sys.executable, probe]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "/dev/null\n")
