"""Write a safetensors file one tensor at a time: the header needs only shapes, and the tensors follow in its order."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_ALIGNMENT = 8


def write_safetensors(path: Path, shapes: Mapping[str, tuple[int, ...]], tensors: Callable[[str], Tensor]) -> None:
    """Write float32 tensors of these shapes; `tensors` is called once for each name, in order."""
    header, begin = {}, 0
    for name, shape in shapes.items():
        end = begin + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with path.open("xb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in shapes:
            file.write(tensors(name).contiguous().numpy().data)
