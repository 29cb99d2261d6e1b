"""The limits of the hardware: the matrix products and the attention of one step alone, each at its best."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from bench.gpu.process import run
from bench.gpu.result import Result
from bench.gpu.training import Changes
from bench.gpu.workspace import Workspace
from train.metrics.device_timestamp import DeviceTimestamp

BACKENDS = (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION)


def hardware_limits(workspace: Workspace, job: str, changed: Changes) -> Result:
    path = workspace.write(workspace.config(job, workspace.gpus(1), 10, changed))
    output = run(
        [sys.executable, "-m", "bench.gpu.roofline", str(path)],
        workspace.root / "log",
        workspace.limit_s,
        workspace.env,
    )
    found, *details = json.loads(output.strip().splitlines()[-1])
    return Result(found=found, details=tuple(details))


def main() -> None:
    torch.set_float32_matmul_precision("high")
    config = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps(measure(config["model"], config["batch"]["micro_batch"])))


def measure(model: dict[str, Any], micro_batch: int) -> list[str]:
    """Return text: the sums first, and then each measurement."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tokens = micro_batch * model["seq_len"]
    details: list[str] = []
    products_ms = 0.0
    for name, (width_in, width_out, times) in matrices(model).items():
        milliseconds, teraflops = product(device, tokens, width_in, width_out)
        details.append(f"{milliseconds:.2f} ms, {teraflops:.0f} TFLOP/s: {name}, three of {width_in} x {width_out}")
        products_ms += milliseconds * times
    attention_ms = {}
    for backend in BACKENDS:
        try:
            attention_ms[backend.name] = attention(device, model, micro_batch, backend) * model["layers"]
        except RuntimeError as error:
            details.append(f"{backend.name}: {error}"[:100])
    copied = torch.empty(2**30 if device.type == "cuda" else 2**20, dtype=torch.uint8, device=device)
    copy_ms = time_ms(device, lambda: copied.clone())
    details.append(f"{2 * copied.numel() / copy_ms / 1e9:.2f} TB/s of a copy, read and written")
    each = ", ".join(f"attention {milliseconds:.1f} ms by {name}" for name, milliseconds in attention_ms.items())
    return [f"matrix products {products_ms:.1f} ms, {each}", *details]


def matrices(model: dict[str, Any]) -> dict[str, tuple[int, int, int]]:
    """Return for each kind of matrix its width, its height, and how many the model has."""
    width, ffn, layers = model["d_model"], model["ffn"], model["layers"]
    heads, kv_heads, head_dim = model["heads"], model["kv_heads"], model["head_dim"]
    return {
        "qkv": (width, (heads + 2 * kv_heads) * head_dim, layers),
        "attention out": (heads * head_dim, width, layers),
        "gate and up": (width, 2 * ffn, layers),
        "down": (ffn, width, layers),
        "head": (width, model["vocab_size"], 1),
    }


def product(device: torch.device, tokens: int, width_in: int, width_out: int) -> tuple[float, float]:
    """Return milliseconds of forward, input gradient and weight gradient together, and TFLOP/s."""
    x, y, weight = (
        torch.randn(shape, device=device, dtype=torch.bfloat16)
        for shape in ((tokens, width_in), (tokens, width_out), (width_out, width_in))
    )
    milliseconds = time_ms(device, lambda: (x @ weight.t(), y @ weight, y.t() @ x))
    return milliseconds, 6 * tokens * width_in * width_out / milliseconds / 1e9


def attention(device: torch.device, model: dict[str, Any], micro_batch: int, backend: SDPBackend) -> float:
    """Return milliseconds of one layer, forward and backward."""

    def heads(number: int) -> Tensor:
        shape = (micro_batch, model["seq_len"], number, model["head_dim"])
        return torch.randn(shape, device=device, dtype=torch.bfloat16).transpose(1, 2).requires_grad_()

    q, k, v = heads(model["heads"]), heads(model["kv_heads"]), heads(model["kv_heads"])
    with sdpa_kernel(backend):
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        gradient = torch.randn_like(y)
        return time_ms(
            device,
            lambda: torch.autograd.grad(
                F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), (q, k, v), gradient
            ),
        )


def time_ms(device: torch.device, work: Callable[[], object], rounds: int = 10) -> float:
    """Return the mean over consecutive rounds, as in a step."""
    for _ in range(3):
        work()
    begin = DeviceTimestamp(device)
    for _ in range(rounds):
        work()
    end = DeviceTimestamp(device)
    end.wait()
    return 1000 * end.seconds_since(begin) / rounds


if __name__ == "__main__":
    main()
