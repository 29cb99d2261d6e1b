"""The table of contents that torch's distributed checkpoint keeps beside its tensors, read without running code.

`.metadata` is a pickle, and a pickle can run any code. This one may name only the plain classes that a state of tensors
needs.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO

TABLE = ".metadata"
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
FOREIGN = ALLOWED | {
    (_METADATA, "BytesStorageMetadata"),
    ("collections", "OrderedDict"),
    ("pathlib._local", "PosixPath"),
    *(("torch", dtype) for dtype in ("float16", "bfloat16", "float64", "int64", "int32", "uint8", "bool")),
}
"""Also named by checkpoints of other programs: other dtypes, and entries that are no tensors. Those must not be read,
for they are pickles, too."""


def read_table(directory: Path, allowed: Collection[tuple[str, str]] = ALLOWED) -> Any:
    """Return torch's `Metadata` of a checkpoint. Raises UnpicklingError for a table that asks for anything else."""
    with (directory / TABLE).open("rb") as file:
        table = _TableUnpickler(file, allowed).load()
    if type(table).__name__ != "Metadata":
        raise pickle.UnpicklingError(f".metadata holds {type(table).__name__}")
    return table


class _TableUnpickler(pickle.Unpickler):
    def __init__(self, file: BinaryIO, allowed: Collection[tuple[str, str]]) -> None:
        super().__init__(file)
        self._allowed = allowed

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._allowed:
            raise pickle.UnpicklingError(f".metadata asks for {module}.{name}, which no tensor needs")
        return super().find_class(module, name)
