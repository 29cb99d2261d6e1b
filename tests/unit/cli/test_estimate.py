"""`fsdpctl estimate` as a user runs it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from fsdpctl.cli.shapes.estimate import EstimatedJob
from fsdpctl.contract.codec import decode


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FSDPCTL_HOME", str(tmp_path / "home"))


def estimate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from fsdpctl.cli.app import main; main()", "estimate", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ)


@pytest.mark.slow
def test_the_answer_comes_first_and_items_neighbours_and_costs_follow() -> None:
    Path("big.yaml").write_text(
        "name: big\nbackend: {kind: slurm}\nruns_root: /shared\ngpus_per_node: 8\ngpu: h100-80\n"
        "network: {gbps: 3200}\nprice_per_gpu_hour: 2.5\n"
    )
    done = estimate("llm7b", "-p", "./big.yaml", "--nodes", "2")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[1] == "cluster    big: 2 x 8 h100-80 (profile big), 79.1 GiB each"
    assert lines[2] == "mesh       HYBRID_SHARD, 2 x 8 (replicate x shard)"
    assert lines[3].endswith("micro-batch 1 x accumulation 64 x 16 ranks = 1,024 sequences = 4,194,304 tokens")
    assert lines[4].startswith("verdict    fits: ")
    assert "AdamW's moments, fp32" in done.stdout
    assert "1, none <- now" in done.stdout
    assert "GB from each node over the network" in done.stdout
    assert "at 2.5 a GPU hour" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.slow
def test_advice_is_quoted_for_the_shell() -> None:
    done = estimate("llm7b", "--gpu", "h100", "--gpus", "8", "--set", "trainer.mesh.units={blocks: 0}")
    assert "advice     --set 'trainer.mesh.units={blocks: 1}' --set trainer.batch.micro_batch=2 " in done.stdout


@pytest.mark.slow
def test_json_is_its_shape() -> None:
    done = estimate("llm7b", "--gpu", "a100", "--gpus", "4", "--set", "trainer.mesh.strategy=DDP", "--json")
    found = decode(EstimatedJob, json.loads(done.stdout))
    assert (found.gpu, found.fit, found.procs_per_node) == ("a100-80", "too_large", 4)
    assert found.left < 0
    assert found.textbook["replicated"] == 16 * 6_738_415_616
    assert sum(found.memory.items.values()) == pytest.approx(found.memory.total, rel=1e-6)
    assert found.smallest_change is not None
    assert found.smallest_change.fit != "too_large"


@pytest.mark.slow
def test_a_model_of_transformers_takes_the_place_of_the_jobs() -> None:
    sizes = {"vocab_size": 32000, "hidden_size": 5120, "num_hidden_layers": 40, "num_attention_heads": 40}
    Path("config.json").write_text(json.dumps({"model_type": "mistral", "intermediate_size": 13824, **sizes}))
    done = estimate("llm7b", "--gpu", "h200", "--gpus", "8", "--model", ".")
    assert done.stdout.startswith("job        llm7b: 13,015,864,320 parameters")
    assert "note: a mistral model" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["llm7b", "--gpu", "gtx"], "error: --gpu gtx: no such GPU is known"),
        (["llm7b", "--gpu", "h100", "--gpus", "7"], "does not divide over 7 ranks"),
        (["llm7b", "--gpu", "h100", "--model", "nowhere"], "error: --model nowhere: nowhere: No such file"),
        (["llm7b", "-p", "slurm-h100", "--set", "procs_per_node=16"], "16 ranks a node need as many GPUs, but a node"),
        (["own.yaml", "--gpu", "h100"], "runs a program of its own"),
    ],
)
def test_what_cannot_be_estimated_is_one_message(arguments: list[str], message: str) -> None:
    Path("own.yaml").write_text("name: own\nentrypoint: {module: mine.train}\n")
    done = estimate(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("columns", [40, 80])
def test_it_fits_a_narrow_terminal(columns: int) -> None:
    text = in_terminal(columns, "llm7b", "--gpu", "h100", "--gpus", "8", "--set", "trainer.mesh.strategy=DDP")
    lines = text.splitlines()
    assert len(lines) > 30
    assert [line for line in lines if len(line) > columns and len(line.split()) > 1] == []  # no key is cut
    assert "SHARD_GRAD_OP" in text


def in_terminal(columns: int, *arguments: str) -> str:
    """Return what the command shows on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    command = [sys.executable, "-c", "from fsdpctl.cli.app import main; main()", "estimate", *arguments]
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"NO_COLOR": "1", "TERM": "xterm"}
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env=env):
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:  # the terminal's other side is closed
            pass
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")
