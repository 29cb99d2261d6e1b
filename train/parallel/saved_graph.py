"""The compiled graph of a training step as a file, which a start loads instead of tracing the model again.

With a full cache of the compiler, tracing 20 blocks in Python takes longer than all else that the compiler then does.
The function that torch's `aot_compile` makes can be saved. Its guards compare the arguments and the model; torch leaves
out those that compare the state of the process, so that is in the name of the file.
"""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fsdpctl.contract.files import replace_file
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from train.model.documents import Documents
from train.model.language_model import LanguageModel

log = logging.getLogger(__name__)

CACHE_DIR = "TORCHINDUCTOR_CACHE_DIR"
"""Names torch's directory of what it has compiled."""
_SETTINGS_OF_THE_COMPILER = ("TORCHINDUCTOR_", "TORCHDYNAMO_", "TORCH_COMPILE", "TORCH_DYNAMO_")
_DIGEST_BYTES = hashlib.sha256().digest_size  # at the beginning of a file
_CANNOT_BE_SAVED = b""
"""The content for later starts, which need not try it again: each try compiles the graph for nothing."""


def graph_file_name(config: TrainerConfig, device: torch.device) -> str:
    """Return a name for what the key of a cache leaves to the guards of torch, and for this device of a node."""
    settings = sorted(
        item for item in os.environ.items() if item[0].startswith(_SETTINGS_OF_THE_COMPILER) and item[0] != CACHE_DIR
    )
    precision = (torch.get_default_dtype(), torch.get_float32_matmul_precision())
    # A graph for CPUs has the number of threads in it, one for GPUs the attention that this cuDNN can do.
    library = torch.get_num_threads() if device.type == "cpu" else torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    state = (config.deterministic, config.optim.frozen, precision, library, settings)
    return f"step-graph-{hashlib.sha256(repr(state).encode()).hexdigest()[:16]}-{device.index or 0}"


class SavedGraph:
    """The loss of a model as one compiled graph, called as `summed_loss` is.

    The graph of a training step is loaded from `path`, or compiled and saved there. What it does not fit, and what
    torch cannot save, is traced when it is called.
    """

    def __init__(self, model: LanguageModel, path: Path, options: dict[str, Any]) -> None:
        self._model, self._path = model, path
        torch._dynamo.config.enable_aot_compile = True  # read by `compile`; the default only since torch 2.13
        self._whole: Any = torch.compile(model.summed_loss, dynamic=False, fullgraph=True, options=options)
        self._traced = torch.compile(model.summed_loss, dynamic=False, options=options)
        self._graph: Any = None
        self._is_tried = torch._dynamo.config.disable  # by TORCH_COMPILE_DISABLE, which `aot_compile` does not obey

    def __call__(self, tokens_BT: Tensor, targets_BT: Tensor, documents: Documents | None) -> Any:
        arguments = (tokens_BT, targets_BT, documents)
        if torch.is_grad_enabled() and documents is None:
            if not self._is_tried:
                self._open(arguments)
            if self._graph and self._graph.guard_check(self._model, *arguments):
                return self._graph(self._model, *arguments)
        return self._traced(*arguments)

    def _open(self, arguments: tuple[Any, ...]) -> None:
        from torch._dynamo.callback import CallbackTrigger, callback_handler

        self._is_tried = True
        with callback_handler.install_callbacks(CallbackTrigger.DYNAMO, "step graph"):
            content = self._read()
            if content != _CANNOT_BE_SAVED:
                self._graph = self._load(content) or self._make(arguments)

    def _read(self) -> bytes | None:
        """Return the content of the file; None if there is none, or a damaged one."""
        try:
            saved = self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            log.warning("compiled graph not loaded: %s", error)
            return None
        digest, content = saved[:_DIGEST_BYTES], saved[_DIGEST_BYTES:]
        if digest == hashlib.sha256(content).digest():
            return content
        log.warning("compiled graph not loaded: %s is damaged", self._path)
        return None

    def _load(self, content: bytes | None) -> Any:
        """Return the graph of a file; None if it cannot be used."""
        from torch._dynamo.aot_compile import AOTCompiledFunction

        if content is None:
            return None
        try:
            graph = AOTCompiledFunction.deserialize(content, None, self._modules())
        except Exception as error:  # experimental in torch: whatever it is, the graph can be made anew
            log.warning("compiled graph not loaded: %s: %s", self._path, error)
            return None
        log.info("compiled graph loaded")
        return graph

    def _make(self, arguments: tuple[Any, ...]) -> Any:
        """Return the graph, compiled and saved; None where torch cannot."""
        from torch._dynamo.aot_compile import AOTCompiledFunction
        from torch._dynamo.exc import PackageError, Unsupported

        try:
            graph = self._whole.aot_compile((arguments, {}))
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # the same
            log.info("compiled graph cannot be made: %s", error)
            if isinstance(error, (PackageError, Unsupported)):  # and not a full disk, or a missing C++ compiler
                self._write(_CANNOT_BE_SAVED)
            return None
        try:
            content = AOTCompiledFunction.serialize(graph, self._modules()).serialized_data
        except Exception as error:  # the same
            log.info("compiled graph cannot be saved: %s", error)
            self._write(_CANNOT_BE_SAVED)
            return None
        self._write(content)
        return graph

    def _write(self, content: bytes) -> None:
        try:
            replace_file(self._path, hashlib.sha256(content).digest() + content, str(os.getpid()), durable=False)
        except OSError as error:
            log.warning("compiled graph not saved: %s", error)

    def _modules(self) -> dict[str, Any]:
        """Return what a saved graph refers to by name."""
        return {f"module {name}": module for name, module in self._model.named_modules()}
