"""What is found in the text of a script, and the line of what to do about it."""

from __future__ import annotations

import pytest

from fsdpctl.own_scripts.advice import advise, stop_signal
from fsdpctl.own_scripts.facts import Framework, read_facts
from fsdpctl.own_scripts.job_text import job_text
from fsdpctl.specs.load import parse_job


@pytest.mark.parametrize(
    ("source", "framework"),
    [
        ("from transformers import Trainer, AutoModel\nfrom accelerate import Accelerator\n", Framework.TRAINER),
        ("import transformers\nt = transformers.Trainer(model)\n", Framework.TRAINER),
        ("from trl import SFTTrainer\n", Framework.TRAINER),
        ("from transformers import AutoModel\n", None),
        ("import lightning as L\n", Framework.LIGHTNING),
        ("from pytorch_lightning import Trainer\n", Framework.LIGHTNING),
        ("from accelerate import Accelerator\nfrom torch.distributed.fsdp import fully_shard\n", Framework.ACCELERATE),
        ("from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n", Framework.FSDP),
        ("from torch.nn.parallel import DistributedDataParallel as DDP\n", Framework.DDP),
        ("import torch\nm = torch.nn.parallel.DistributedDataParallel(m)\n", Framework.DDP),
        ("import torch\n", None),
        ("def (:\n", None),
    ],
)
def test_the_framework_that_runs_the_steps(source: str, framework: Framework | None) -> None:
    assert read_facts({"a.py": source}).framework is framework


def advice(source: str, *args: str) -> list[str]:
    return list(advise(read_facts({"a.py": source}), args))


def test_a_script_with_nothing_for_it_needs_all_of_it() -> None:
    assert advice("import torch\n") == [
        "stop: after each step `if stop_requested():`, of fsdpctl.integrations.stop, all ranks save and exit with 0,"
        " or `stop_signal: TERM`",
        "resume: save below $FSDPCTL_CHECKPOINT_DIR, and load the newest complete checkpoint at each start",
        "progress: `from fsdpctl.report import step`, then `step(number, loss=...)` after each step, or"
        " `progress_regex` in the job for what it prints",
    ]


def test_what_a_script_does_already_needs_nothing() -> None:
    source = """\
import os
from fsdpctl.report import step
stop = os.environ["FSDPCTL_STOP_FILE"]
folder = os.getenv("FSDPCTL_CHECKPOINT_DIR")
"""
    assert advice(source) == [
        "stop: nothing to do, it reads FSDPCTL_STOP_FILE (a.py:3)",
        "resume: it uses FSDPCTL_CHECKPOINT_DIR (a.py:4): load the newest complete one at each start",
        "progress: nothing to do, it reports its steps (a.py:2)",
    ]


def test_a_script_that_calls_stop_requested_needs_nothing_to_stop() -> None:
    for module in ("fsdpctl.integrations.stop", "fsdpctl.integrations.accelerate"):
        source = f"from {module} import stop_requested\nsignal(signal.SIGTERM, f)\n"
        assert "stop: nothing to do, it calls stop_requested (a.py:1)" in advice(source)
        assert stop_signal(read_facts({"a.py": source})) is None


def test_the_loop_of_accelerate_continues_and_lightning_names_its_ranks() -> None:
    assert any("accelerator.skip_first_batches(" in line for line in advice("from accelerate import Accelerator\n"))
    assert "ranks: `nodes` and `procs_per_node` must be num_nodes and devices of the Trainer" in advice(
        "import lightning as L\n"
    )


def test_options_of_directories_and_of_resuming_are_named_with_their_lines() -> None:
    source = """\
p.add_argument("--output-dir", default="out")
p.add_argument("-r", "--resume_from_checkpoint")
p.add_argument("--local_rank", type=int)
p.add_argument("--lr", help="--save_dir")
"""
    lines = advice(source)
    assert "resume: put --resume_from_checkpoint (a.py:2) into `args` if" in lines[1]
    assert lines[3:] == [
        "--output-dir (a.py:1): a relative path is below `code/src` of the run, the same in each attempt",
        "--local_rank (a.py:3): no rank gets it; read LOCAL_RANK of the environment",
    ]
    for args in (("--output-dir", "/data"), ("--output-dir=/data",)):
        assert "--output-dir (a.py:1): /data is shared by all runs" in "\n".join(advice(source, *args))
    assert not any("--output-dir" in line for line in advice(source, "--output-dir", "out"))


def test_a_signal_that_the_script_handles_becomes_the_stop_signal() -> None:
    source = "import signal\nsignal.signal(signal.SIGUSR1, save)\nsignal.signal(signal.SIGHUP, save)\n"
    assert stop_signal(read_facts({"a.py": source})) == "USR1"
    assert stop_signal(read_facts({"a.py": "from trl import SFTTrainer\n" + source})) is None
    text = job_text("mine", "a.py", {"script": "a.py"}, ("--lr", "1e-3", "x: y"), read_facts({"a.py": source}))
    job = parse_job(text, "mine.yaml")
    assert (job.stop_signal, job.args, job.entrypoint.script) == ("USR1", ("--lr", "1e-3", "x: y"), "a.py")
    assert "# stop: it handles USR1 (a.py:2): `stop_signal` below sends it to all ranks\n" in text
