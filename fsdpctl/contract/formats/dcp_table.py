"""The table of contents that torch's distributed checkpoint keeps beside its tensors, read without running code.

`.metadata` is a pickle, and a pickle can run any code. This one may name only the plain classes that a state of tensors
needs.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

_METADATA = "torch.distributed.checkpoint.metadata"
ALLOWED = {
    (_METADATA, "ChunkStorageMetadata"),
    (_METADATA, "Metadata"),
    (_METADATA, "MetadataIndex"),
    (_METADATA, "StorageMeta"),
    (_METADATA, "TensorProperties"),
    (_METADATA, "TensorStorageMetadata"),
    (_METADATA, "_MEM_FORMAT_ENCODING"),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch.serialization", "_get_layout"),
    ("torch", "Size"),
    ("torch", "float32"),
    ("pathlib", "PosixPath"),
}


def read_table(directory: Path) -> Any:
    """Return torch's `Metadata` of a checkpoint. Raises UnpicklingError for a table that asks for anything else."""
    with (directory / ".metadata").open("rb") as file:
        table = _TableUnpickler(file).load()
    if type(table).__name__ != "Metadata":
        raise pickle.UnpicklingError(f".metadata holds {type(table).__name__}")
    return table


class _TableUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f".metadata asks for {module}.{name}, which no tensor needs")
        return super().find_class(module, name)
