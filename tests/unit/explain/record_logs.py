"""Record the logs of real failures that need no GPU: `python -m tests.unit.explain.record_logs [RULE...]`.

Each recipe is a script, started alone or by torchrun with two ranks, whose output becomes `logs/RULE.log`. Other logs
in that folder are written after public reports, which their first lines name.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import textwrap
from importlib.metadata import version
from pathlib import Path

LOGS = Path(__file__).with_name("logs")
HEADER = "# "

_DIST = "import os, sys, time, datetime, torch, torch.distributed as dist\n"
_INIT = _DIST + "dist.init_process_group('gloo', timeout=datetime.timedelta(seconds=5))\nrank = dist.get_rank()\n"
_LOADER = """
import os, signal, torch
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self): return 8
    def __getitem__(self, index):
        {item}
        return torch.zeros(2)
if __name__ == "__main__":
    for batch in DataLoader(Data(), num_workers=1): pass
"""

ALONE = {
    "host_memory_refused": "import torch\ntorch.empty(2**50)",
    "missing_module": "import flash_attn_3_that_is_missing",
    "missing_library": "import ctypes\nctypes.CDLL('libcudart.so.11.0')",
    "import_version": "import transformers.utils.versions as v\nv.require_version('numpy>=99')",
    "command_failed": "import subprocess\nsubprocess.run(['false'], check=True)",
    "division_by_zero": "seen = []\nprint(sum(seen) / len(seen))",
    "disk_full": "import torch\nwith open('/dev/full', 'wb') as file:\n    file.write(b'x' * 2**20)",
    "permission": "import errno, os\nraise PermissionError(errno.EACCES, os.strerror(errno.EACCES), '/data/out')",
    "quota": "import errno, os\nraise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), '/home/ann/x.pt')",
    "stale_handle": "import errno, os\nraise OSError(errno.ESTALE, os.strerror(errno.ESTALE), '/data/x.bin')",
    "io_error": "import errno, os\nraise OSError(errno.EIO, os.strerror(errno.EIO), '/data/x.bin')",
    "file_not_found": "import numpy\nnumpy.memmap('/data/train.bin')",
    "nan": """
        import torch
        with torch.autograd.detect_anomaly(check_nan=True):
            x = torch.tensor([-1.0], requires_grad=True)
            torch.sqrt(x).sum().backward()
        """,
    "nan_line": """
        import torch
        x = torch.tensor(3.0, requires_grad=True)
        for step in range(8):
            loss = (x ** 4).sum()
            loss.backward()
            with torch.no_grad(): x -= 10 * x.grad
            print(f"step {step} loss {loss.item():.4f} lr 10.0", flush=True)
        """,
    "checkpoint_keys": "import torch\ntorch.nn.Linear(2, 2).load_state_dict({'module.weight': torch.zeros(2, 2)})",
    "checkpoint_shapes": "import torch\ntorch.nn.Linear(2, 2).load_state_dict(torch.nn.Linear(2, 3).state_dict())",
    "safetensors_cut": """
        import torch
        from pathlib import Path
        from safetensors.torch import load_file, save_file
        save_file({"a": torch.zeros(999)}, "a.safetensors")
        Path("a.safetensors").write_bytes(Path("a.safetensors").read_bytes()[:900])
        load_file("a.safetensors")
        """,
    "checkpoint_damaged": """
        import torch
        from pathlib import Path
        torch.save({"a": torch.zeros(999)}, "a.pt")
        Path("a.pt").write_bytes(Path("a.pt").read_bytes()[:900])
        torch.load("a.pt")
        """,
    "weights_only": """
        import pathlib, torch
        torch.save({"a": pathlib.Path("x")}, "a.pt")
        torch.load("a.pt")
        """,
    "dtype_mismatch": "import torch\ntorch.nn.Linear(2, 2)(torch.zeros(1, 2, dtype=torch.float64))",
    "shape_mismatch": "import torch\ntorch.nn.Linear(128, 10)(torch.zeros(32, 64))",
    "index_out_of_range": "import torch\ntorch.nn.Embedding(8, 2)(torch.tensor([9]))",
    "tokenizer": """
        from tokenizers import Tokenizer, models
        from transformers import PreTrainedTokenizerFast
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, "[UNK]")))
        tokenizer(["a", "a"], padding=True)
        """,
    "autograd": "import torch\nloss = torch.ones(2, requires_grad=True).exp().sum()\nloss.backward()\nloss.backward()",
    "compile_failed": "import torch\ntorch.compile(lambda x: x.sin() + 1)(torch.zeros(4))",
    "too_many_files": "files = [open('/dev/null') for _ in range(2**20)]",
    "pickle": """
        import torch
        from torch.utils.data import DataLoader
        if __name__ == "__main__":
            loader = DataLoader([1], num_workers=1, collate_fn=lambda x: x, multiprocessing_context="spawn")
            next(iter(loader))
        """,
    "spawn_main": "import multiprocessing as mp\nmp.set_start_method('spawn')\nmp.Process(target=print).start()",
    "assertion": "world, batch = 3, 8\nassert batch % world == 0, 'batch size must be divisible by world size'",
    "device_mismatch": "import torch\nx = torch.zeros(2, 2, device='meta')\nprint(torch.nn.Linear(2, 2)(x))",
    "no_gpu": "import torch\ntorch.serialization.validate_cuda_device('cuda:0')",
    "torch_without_cuda": "import torch\ntorch.zeros(1).cuda()",
    "is_a_directory": "open('.').read()",
    "name_resolution": "import socket\nsocket.create_connection(('gpu-99.invalid', 29500))",
    "hub_offline": "from transformers import AutoConfig\nAutoConfig.from_pretrained('gpt2')",
    "download_failed": "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9/data.tar')",
    "connection_lost": """
        import os
        r, w = os.pipe()
        os.close(r)
        os.write(w, b"x")
        """,
    "rendezvous_environment": _DIST + "dist.init_process_group('gloo')",
    "address_in_use": _DIST
    + "first = dist.TCPStore('127.0.0.1', 29499, 1, True)\nsecond = dist.TCPStore('127.0.0.1', 29499, 1, True)",
    "store_unreachable": _DIST + "dist.TCPStore('127.0.0.1', 9, 2, False, timeout=datetime.timedelta(seconds=2))",
    "rendezvous_timeout": _DIST + "dist.TCPStore('127.0.0.1', 0, 2, True, timeout=datetime.timedelta(seconds=2))",
    "dataloader_worker_killed": _LOADER.format(item="os.kill(os.getpid(), signal.SIGKILL)"),
    "dataloader_worker_segfault": _LOADER.format(item="os.kill(os.getpid(), signal.SIGSEGV)"),
    "dataloader_worker_exited": _LOADER.format(item="os._exit(3)"),
    "shared_memory_bus_error": _LOADER.format(item="os.kill(os.getpid(), signal.SIGBUS)"),
    "interrupted": "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)",
    "bad_arguments": "import argparse\nargparse.ArgumentParser().parse_args(['--lr', '3e-4'])",
    "runtime_error": "raise RuntimeError('the batch of step 12 has no samples')",
    "index_error": "losses = []\nprint(losses[-1])",
    "key_error": "batch = {'text': 'a'}\nprint(batch['input_ids'])",
    "exception": "int('step-12')",
    "child_failed": """
        import os, torch.multiprocessing as mp
        def work(rank): os._exit(3)
        if __name__ == "__main__": mp.spawn(work)
        """,
    "thread_limit": """
        import resource, threading, time
        resource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29))
        for _ in range(999): threading.Thread(target=time.sleep, args=(2,), daemon=True).start()
        """,
    "nccl_error": _DIST + "dist.init_process_group('nccl', init_method='tcp://127.0.0.1:29498', rank=0, world_size=1)",
    "gloo_interface": "import os\nos.environ['GLOO_SOCKET_IFNAME'] = 'eth99'\n"
    + _DIST
    + "dist.init_process_group('gloo', init_method='tcp://127.0.0.1:29497', rank=0, world_size=1)",
}
"""Rule -> a script that fails by itself."""

RANKS = {
    "sigkill": _INIT + "dist.barrier()\nif rank == 1: os.kill(os.getpid(), 9)\ndist.barrier()",
    "segfault": _INIT + "dist.barrier()\nif rank == 1: os.kill(os.getpid(), 11)\ndist.barrier()",
    "segfault_traced": "import ctypes, faulthandler\nfaulthandler.enable()\n"
    + _INIT
    + "dist.barrier()\nif rank == 1: ctypes.string_at(0)\ndist.barrier()",
    "aborted": _INIT + "if rank == 1: os.abort()\ntime.sleep(60)",
    "terminated": _INIT + "if rank == 1: os.kill(os.getpid(), 15)\ntime.sleep(60)",
    "gloo_timeout": _INIT + "if rank == 0: time.sleep(8); os._exit(0)\ndist.all_reduce(torch.zeros(2))",
    "gloo_lost_peer": _INIT + "if rank == 0: os._exit(0)\ndist.all_reduce(torch.zeros(2))",
    "barrier_timeout": _INIT
    + "if rank == 1: time.sleep(4); os._exit(0)\ndist.monitored_barrier(timeout=datetime.timedelta(seconds=2))",
    "collective_mismatch": "import os\nos.environ['TORCH_DISTRIBUTED_DEBUG'] = 'DETAIL'\n"
    + _INIT
    + "x = torch.zeros(2)\ndist.all_reduce(x) if rank == 0 else dist.broadcast(x, 0)",
    "ddp_unused_parameters": _INIT
    + """
model = torch.nn.parallel.DistributedDataParallel(torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]))
model.module.forward = lambda x: model.module[0](x)
for step in range(2): model(torch.zeros(1, 2)).sum().backward()
""",
}
"""Rule -> a script for two ranks."""

SHELL = {
    "file_not_found_line": "python train.py",
    "permission_line": "mkdir -p closed && touch closed/train.sh && ./closed/train.sh",
    "ssh_failed": "ssh -o BatchMode=yes -p 9 127.0.0.1 true",
}
"""Rule -> a command of a shell."""


def site_packages() -> list[str]:
    """Return the environments of packages that tracebacks name."""
    return [path.partition("/lib/python")[0] for path in sys.path if path.endswith("site-packages")]


def record(rule: str) -> None:
    """Run the recipe of a rule and write its log."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        if rule in SHELL:
            command = ["bash", "-c", SHELL[rule]]
        else:
            script.write_text(textwrap.dedent(ALONE.get(rule) or RANKS[rule]) + "\n", encoding="utf-8")
            run = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--tee=3"] if rule in RANKS else []
            command = [sys.executable, *run, script.name]
        env = os.environ | {"HF_HUB_OFFLINE": "1", "CXX": "missing-g++", "HF_HOME": folder, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120
        )
    text = done.stdout.replace(folder, "/home/ann/run").replace(platform.node(), "gpu-01")
    for site in (*site_packages(), sys.prefix, sys.base_prefix):
        text = text.replace(site, "/env")
    about = (
        f"{HEADER}recorded: exit code {done.returncode}, Python {platform.python_version()}, torch {version('torch')}"
    )
    (LOGS / f"{rule}.log").write_text(f"{about}\n{text}", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:] or (*ALONE, *RANKS, *SHELL):
        record(name)
