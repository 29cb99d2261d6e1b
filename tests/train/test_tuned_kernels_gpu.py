"""A kernel to which torch adds a configuration is timed in one process only; later ones take its choice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.services import require

PROGRAM = """
import sys
from pathlib import Path
import torch
from torch._inductor.runtime.triton_heuristics import CachingAutotuner
from train.compile_cache.tuned_kernels import keep_choices
from train.parallel.parallelize import COMPILER

timed, choose = 0, CachingAutotuner.benchmark_all_configs
def counted(self, *args, **kwargs):
    global timed
    timed += 1
    return choose(self, *args, **kwargs)
CachingAutotuner.benchmark_all_configs = counted
keep_choices(Path(sys.argv[1]))

def loss(hidden, head, targets):
    return torch.nn.functional.cross_entropy((hidden @ head.T).float(), targets, reduction="sum")

torch.manual_seed(0)
hidden = torch.randn(8192, 256, device="cuda", dtype=torch.bfloat16, requires_grad=True)
head = torch.randn(32768, 256, device="cuda", dtype=torch.bfloat16, requires_grad=True)
targets = torch.randint(32768, (8192,), device="cuda")
total = torch.compile(loss, dynamic=False, options=COMPILER)(hidden, head, targets)
total.backward()
print(timed, total.item(), hidden.grad.float().norm().item())
"""


def train(directory: Path) -> tuple[int, float, float]:
    """Return how many kernels were timed, the loss, and the norm of a gradient."""
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(directory), "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(directory)], env={**os.environ, **cache}, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    timed, loss, norm = ran.stdout.split()
    return int(timed), float(loss), float(norm)


def test_a_later_process_takes_the_choice_of_the_first(tmp_path: Path) -> None:
    require("cuda")
    timed, loss, norm = train(tmp_path)
    kept = list((tmp_path / "tuned").iterdir())
    assert timed >= len(kept) > 0
    assert train(tmp_path) == (0, loss, norm)

    for path in kept:  # a choice that is not the first one's: only from the file can a process have it
        chosen = json.loads(path.read_text())
        largest = max((key for key in chosen["kwargs"] if key.startswith("R")), key=chosen["kwargs"].__getitem__)
        chosen["kwargs"][largest] //= 4
        path.write_text(json.dumps(chosen))
    others = {path.name: path.read_text() for path in kept}
    assert train(tmp_path)[0] == 0
    assert {path.name: path.read_text() for path in kept} == others, "read, not written again"

    for path in kept:
        path.write_text("{")
    assert train(tmp_path)[0] == len(kept), "timed where the file is damaged"
