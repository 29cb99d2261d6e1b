"""What a few steps of many configurations need: memory and time, beside which `fsdpctl estimate` is checked.

Cases of one GPU run beside each other as far as their memory allows, since a compile takes longer than the steps: at
most `BESIDE` a GPU, and only one of them uses the GPU at a time. Cases of several GPUs follow, one after the other in
one process a GPU.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.gpu.estimate_cases import MANY, ONE, TINY, TINY_MANY, Case
from bench.gpu.process import Command, CommandError, torchrun
from train.data.tokens import write_dataset

STEPS = 14
BESIDE = 5
SECONDS = 45  # from the start of a case of one GPU to its result, at least
GIB = 2**30
TOKENS, VOCAB = 2**23, 32000  # random ones, of a vocabulary that all models but the tiny one have


@dataclass
class Gpu:
    index: int
    gib: float
    running: list[Running] = field(default_factory=list)

    def has_room(self, case: Case) -> bool:
        used = sum(one.case.gib for one in self.running)
        return len(self.running) < BESIDE and used + case.gib <= self.gib


@dataclass
class Running:
    case: Case
    command: Command
    began: float
    alone: bool  # all the time so far


def measure_all(pattern: Any, budget_s: float, out: Path, *, tiny: bool) -> None:
    """Measure the cases whose name matches and that `out` does not have, a JSON line each, within the budget."""
    deadline = time.monotonic() + budget_s
    done = {json.loads(line)["name"] for line in out.read_text().splitlines()} if out.exists() else set()

    def choose(cases: Sequence[Case]) -> list[Case]:
        return [case for case in cases if pattern.search(case.name) and case.name not in done]

    with tempfile.TemporaryDirectory(prefix="bench-estimates-") as folder, ExitStack() as stack:
        session = Session(Path(folder), out, deadline, stack, tiny)
        many = {number: choose(cases) for number, cases in (TINY_MANY if tiny else MANY).items()}
        there = torch.cuda.device_count() or 2
        session.one_gpu(choose(TINY if tiny else ONE), there if torch.cuda.is_available() else 1)
        for number, cases in many.items():
            if cases and number <= there:
                session.many_gpus(cases, number)


@dataclass
class Session:
    folder: Path
    out: Path
    deadline: float
    stack: ExitStack
    tiny: bool
    started: int = 0

    def one_gpu(self, cases: list[Case], num_gpus: int) -> None:
        """Run cases of one GPU, each as soon as one has room for it."""
        gpus = [Gpu(index, self._gib(index)) for index in range(num_gpus)]
        while cases or any(gpu.running for gpu in gpus):
            for gpu in gpus:
                gpu.running = [one for one in gpu.running if self._still_runs(one)]
                for case in list(cases):
                    if self._left_s() > SECONDS and gpu.has_room(case):
                        cases.remove(case)
                        gpu.running.append(self._start(case, gpu))
                        for one in gpu.running if len(gpu.running) > 1 else ():
                            one.alone = False
            if self._left_s() < 0 or (cases and not any(gpu.running for gpu in gpus)):
                break
            time.sleep(0.2)
        for name in [case.name for case in cases] + [one.case.name for gpu in gpus for one in gpu.running]:
            print(json.dumps({"left out": name}), flush=True)
        for gpu in gpus:
            for one in gpu.running:
                one.command.__exit__()

    def many_gpus(self, cases: Sequence[Case], number: int) -> None:
        """Run cases of several GPUs one after the other; those after one that hangs or fails still follow."""
        results = self.folder / f"results-{number}"
        left = list(cases)
        while left and self._left_s() > SECONDS:
            results.unlink(missing_ok=True)
            argv = torchrun(number, "-m", "bench.gpu.estimates_rank", str(self._write(left)), str(results))
            command = self.stack.enter_context(Command(argv, self.folder / f"log-{self.started}", self._env()))
            error = self._wait_for(command, results, len(left))
            measured = _read(results)
            for line in measured:
                self._report({**line, "alone": True})
            left = left[len(measured) :]
            if error and left:
                print(json.dumps({"failed": left[0].name, "why": error}), flush=True)
                left = left[1:]
        for case in left:
            print(json.dumps({"left out": case.name}), flush=True)

    def _wait_for(self, command: Command, results: Path, number: int) -> str:
        """Return the error, if there was one. A case that takes longer than 90 s hangs."""
        seen, changed = 0, time.monotonic()
        while command.process.poll() is None and self._left_s() > 0:
            if (now := len(_read(results))) != seen:
                seen, changed = now, time.monotonic()
            if time.monotonic() - changed > 90 or seen == number:
                break
            time.sleep(0.5)
        command.__exit__()
        return "" if len(_read(results)) == number else command.output()[-1500:]

    def _start(self, case: Case, gpu: Gpu) -> Running:
        path = self._write([case])
        results = path.with_suffix(".results")
        argv = [os.sys.executable, "-m", "bench.gpu.estimates_rank", str(path), str(results)]  # type: ignore[attr-defined]
        argv += ["--lock", str(self.folder / f"lock-{gpu.index}")]
        env = {**self._env(), "CUDA_VISIBLE_DEVICES": str(gpu.index)} if torch.cuda.is_available() else self._env()
        command = self.stack.enter_context(Command(argv, path.with_suffix(".log"), env))
        return Running(case, command, time.monotonic(), alone=True)

    def _still_runs(self, one: Running) -> bool:
        if one.command.process.poll() is None:
            return True
        results = Path(one.command.argv[4])
        try:
            one.command.wait(1)
            for line in _read(results):
                self._report({**line, "alone": one.alone, "seconds": round(time.monotonic() - one.began, 1)})
        except CommandError as error:
            print(json.dumps({"failed": one.case.name, "why": str(error)}), flush=True)
        one.command.__exit__()
        return False

    def _write(self, cases: Sequence[Case]) -> Path:
        self.started += 1
        path = self.folder / f"cases-{self.started}.json"
        steps = STEPS if not self.tiny else 6
        described = [
            {"name": case.name, **asdict(case), "config": case.config(steps, str(self._data()))} for case in cases
        ]
        path.write_text(json.dumps(described))
        return path

    def _report(self, line: dict[str, Any]) -> None:
        shown = {key: line.get(key) for key in ("name", "max_memory_allocated", "step_s", "seconds", "alone")}
        print(json.dumps(shown), flush=True)
        with self.out.open("a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _env(self) -> dict[str, str]:
        cache = str(self.folder / "compiled")
        return {"TORCHINDUCTOR_CACHE_DIR": cache, "TORCHINDUCTOR_COMPILE_THREADS": "3", "OMP_NUM_THREADS": "2"}

    def _data(self) -> Path:
        """Return random tokens, written once."""
        directory = self.folder / "tokens"
        if not directory.exists():
            directory.mkdir()
            vocab = 256 if self.tiny else VOCAB
            tokens = np.random.default_rng(0).integers(vocab, size=TOKENS).astype(np.uint16)
            parts = [("train", tokens[2**20 :]), ("val", tokens[: 2**20])]
            write_dataset(
                directory,
                parts,  # type: ignore[arg-type]
                source="random tokens",
                fingerprint="random",
                dtype="uint16",
                vocab_size=vocab,
            )
        return directory

    def _gib(self, index: int) -> float:
        return torch.cuda.get_device_properties(index).total_memory / GIB if torch.cuda.is_available() else 3.0

    def _left_s(self) -> float:
        return self.deadline - time.monotonic()


def _read(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]
