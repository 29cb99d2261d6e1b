"""torchtitan 0.2.2 knows accelerators only. For a trial without one, CPUs take its place; with a GPU this does nothing.

A trial shows that a job starts, stops and resumes. It shows nothing of speed, memory, float8, compilation, or NCCL.
"""

import sys
import types
from collections.abc import Iterable
from typing import Any
from unittest.mock import MagicMock, patch

import torch
import torch.distributed.checkpoint
from torch.distributed.fsdp import FSDPModule


class _Cpu(types.ModuleType):
    """What torchtitan asks a device module for."""

    def set_device(self, device: torch.device) -> None:
        pass

    def current_device(self) -> int:
        return 0

    def get_device_name(self, device: Any = None) -> str:
        return "CPU"

    def get_device_properties(self, device: Any = None) -> Any:
        return types.SimpleNamespace(total_memory=1)

    def memory_stats(self, device: Any = None) -> dict[str, int]:
        return {}

    def reset_peak_memory_stats(self) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def synchronize(self) -> None:
        pass


if not torch.accelerator.is_available():
    sys.modules["torchtitan.models.moe.kernels"] = MagicMock()  # needs triton; of experts, which llama3 has none of
    with (
        patch("torch._utils._get_available_device_type", return_value="cpu"),
        patch("torch._utils._get_device_module", return_value=_Cpu("cpu")),
    ):
        import torchtitan.tools.utils  # noqa: F401


def use_gloo(model_parts: Iterable[torch.nn.Module]) -> None:
    """Add gradients up without a factor, which gloo does not know. With GPUs nothing changes."""
    if torch.accelerator.is_available():
        return
    for module in (module for part in model_parts for module in part.modules()):
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)
