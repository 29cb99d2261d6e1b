"""The configurations whose memory and time `fsdpctl estimate` is compared with: one row each.

Models from 90M to 13B. `fake` cases are rank 0 of a world whose collectives do nothing: its memory is that of the real
rank, and its time is that of the computation alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Shape = Mapping[str, Any]


def _llama(
    vocab: int, width: int, layers: int, heads: int, kv_heads: int, head_dim: int, ffn: int, tied: bool
) -> Shape:
    return {
        "vocab_size": vocab,
        "d_model": width,
        "layers": layers,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "ffn": ffn,
        "tie_embeddings": tied,
    }


MODELS: dict[str, Shape] = {
    "tiny": _llama(256, 64, 2, 4, 2, 16, 192, True),
    "90m": _llama(32768, 768, 10, 6, 3, 128, 2048, True),
    "125m": _llama(50304, 768, 12, 12, 12, 64, 2048, False),
    "300m": _llama(32768, 1024, 20, 8, 4, 128, 2816, False),
    "1.1b": _llama(32000, 2048, 22, 32, 4, 64, 5632, False),  # TinyLlama
    "1.2b": _llama(128256, 2048, 16, 32, 8, 64, 8192, True),  # Llama-3.2-1B
    "3b": _llama(128256, 3072, 28, 24, 8, 128, 8192, True),  # Llama-3.2-3B
    "7b": _llama(32000, 4096, 32, 32, 32, 128, 11008, False),  # Llama-2-7B
    "8b": _llama(128256, 4096, 32, 32, 8, 128, 14336, False),  # Llama-3-8B
    "13b": _llama(32000, 5120, 40, 40, 40, 128, 13824, False),  # Llama-2-13B
}


@dataclass(frozen=True)
class Case:
    model: str
    micro_batch: int
    seq_len: int
    gib: float  # that it needs at most, to decide what may run beside it
    strategy: str = "HYBRID_SHARD"
    nodes: int = 1
    procs: int = 1
    fake: bool = False
    accumulation: int = 1
    recompute: str = "none"
    compile: bool = True
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the configuration, by its outermost keys

    @property
    def world(self) -> int:
        return self.nodes * self.procs

    @property
    def name(self) -> str:
        world = f"{'fake ' if self.fake else ''}{self.nodes}x{self.procs}"
        parts = [self.model, world, self.strategy if self.world > 1 else "", f"{self.micro_batch}x{self.seq_len}"]
        parts += [f"acc{self.accumulation}" if self.accumulation > 1 else "", self.recompute]
        parts += ["" if self.compile else "eager", *(f"{key}={value}" for key, value in self.changes.items())]
        return " ".join(filter(None, parts))

    def config(self, steps: int, data: str) -> dict[str, Any]:
        """Return the trainer's configuration."""
        config = {
            "steps": steps,
            "log_every": 1000,
            "max_skipped_steps": 1000,  # values that no rank has sent are not finite
            "model": {**MODELS[self.model], "seq_len": self.seq_len},
            "data": {"source": data},
            "mesh": {"strategy": self.strategy},
            "batch": {
                "micro_batch": self.micro_batch,
                "sequences": self.micro_batch * self.world * self.accumulation,
            },
            "optim": {"lr": 1e-4},
            "memory": {"recompute": self.recompute},
            "checkpoint": {"every_steps": 1000},
            "compile": self.compile,
        }
        for key, value in self.changes.items():
            config[key] = {**config[key], **value} if isinstance(config.get(key), dict) else value  # type: ignore[dict-item]
        return config


ONE_UNIT: Mapping[str, Any] = {"mesh": {"units": {"blocks": 0}}}
FULL, GRAD_OP, HYBRID, ZERO2 = "FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2"

ONE = [
    Case("300m", 32, 2048, 55),
    Case("90m", 32, 2048, 25),
    Case("300m", 16, 2048, 36, accumulation=2),
    Case("7b", 2, 4096, 62, FULL, procs=8, fake=True),
    Case("1.2b", 4, 2048, 45),
    Case("300m", 32, 2048, 36, recompute="full"),
    Case("7b", 1, 4096, 75, HYBRID, procs=8, fake=True, accumulation=2),
    Case("300m", 16, 2048, 45, compile=False),
    Case("90m", 16, 2048, 18, accumulation=2),
    Case("1.1b", 8, 2048, 55, recompute="selective"),
    Case("7b", 1, 4096, 70, GRAD_OP, procs=4, fake=True, recompute="selective"),
    Case("125m", 32, 1024, 30),
    Case("3b", 4, 4096, 45, FULL, procs=8, fake=True, recompute="full"),
    Case("1.2b", 4, 4096, 60, FULL, procs=4, fake=True),
    Case("300m", 8, 2048, 30, "DDP", procs=4, fake=True),
    Case("1.1b", 4, 4096, 60, compile=False, recompute="full"),
    Case("8b", 1, 8192, 75, FULL, procs=8, fake=True, recompute="selective"),
    Case("300m", 16, 2048, 45, FULL, procs=8, fake=True, changes=ONE_UNIT),
    Case("3b", 2, 2048, 100, recompute="full"),
    Case("13b", 1, 4096, 70, FULL, procs=16, fake=True, recompute="full"),
    Case("7b", 1, 4096, 75, HYBRID, nodes=2, procs=8, fake=True, recompute="selective", accumulation=2),
    Case("7b", 1, 2048, 134, recompute="full"),
    Case("7b", 1, 1024, 136, compile=False),
    Case("90m", 8, 8192, 30, recompute="selective"),
    Case("300m", 8, 4096, 36),
    Case("1.1b", 4, 2048, 45, "NO_SHARD", procs=2, fake=True),
    Case("1.2b", 2, 8192, 70, ZERO2, nodes=2, procs=4, fake=True, recompute="full"),
    Case("3b", 1, 4096, 75, GRAD_OP, procs=2, fake=True),
    Case("8b", 2, 4096, 70, FULL, procs=16, fake=True, compile=False, recompute="full"),
    Case("13b", 2, 2048, 80, GRAD_OP, procs=8, fake=True, recompute="selective"),
    Case("125m", 16, 2048, 25, recompute="selective", compile=False),
    Case("90m", 32, 2048, 35, "DDP", procs=2, fake=True, accumulation=2),
]
"""On one GPU, the most telling ones first. As many as there are GPUs run beside each other."""

MANY = {
    2: [
        Case("300m", 16, 2048, 0, FULL, procs=2),
        Case("300m", 32, 2048, 0, FULL, procs=2, changes=ONE_UNIT),
        Case("300m", 16, 2048, 0, "DDP", procs=2),
        Case("7b", 1, 4096, 0, FULL, procs=2, recompute="full"),
        Case("1.2b", 4, 4096, 0, FULL, procs=2),
        Case("3b", 2, 4096, 0, GRAD_OP, procs=2, recompute="selective"),
        Case("1.1b", 8, 2048, 0, FULL, procs=2, accumulation=2),
        Case("8b", 1, 4096, 0, FULL, procs=2, recompute="full"),
        Case("1.1b", 4, 2048, 0, "NO_SHARD", procs=2),
        Case("7b", 1, 2048, 0, GRAD_OP, procs=2, recompute="selective"),
        Case("90m", 32, 2048, 0, HYBRID, nodes=2, procs=1),
        Case("3b", 4, 2048, 0, FULL, procs=2, compile=False),
    ],
    4: [
        Case("7b", 1, 4096, 0, FULL, procs=4),
        Case("300m", 32, 2048, 0, HYBRID, nodes=2, procs=2, changes=ONE_UNIT),
        Case("8b", 2, 4096, 0, FULL, procs=4, recompute="full"),
        Case("1.1b", 4, 4096, 0, HYBRID, nodes=2, procs=2),
        Case("13b", 1, 4096, 0, FULL, procs=4, recompute="full"),
        Case("3b", 2, 4096, 0, GRAD_OP, procs=4, accumulation=2),
    ],
}
"""On as many GPUs, by their number."""

TINY = [
    Case("tiny", 2, 64, 1),
    Case("tiny", 2, 64, 1, FULL, nodes=2, procs=2, fake=True, accumulation=2, compile=False),
    Case("tiny", 2, 64, 1, "DDP", procs=2, fake=True, compile=False),
]
TINY_MANY = {
    2: [Case("tiny", 2, 64, 0, FULL, procs=2, compile=False), Case("tiny", 4, 64, 0, FULL, procs=2, compile=False)]
}
