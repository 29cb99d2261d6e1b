"""The forms in which weights to start from are stored, and the files of each; found without reading a tensor."""

from __future__ import annotations

import zipfile
from enum import Enum
from pathlib import Path

from fsdpctl.contract.formats.dcp_table import TABLE
from fsdpctl.contract.paths.checkpoint import CHECKPOINT_MANIFEST

HF_CONFIG = "config.json"
WANTED = (
    "wanted: a directory of transformers (config.json and *.safetensors), a sharded checkpoint (a directory with "
    "*.distcp and .metadata), or a file of torch.save (.pth) or safetensors"
)


class WeightsForm(Enum):
    """How weights are stored."""

    HUGGING_FACE = "a directory of transformers"
    SAFETENSORS = "one safetensors file"
    SHARDED = "a directory of torch's distributed checkpoint"
    FULL = "one file of torch.save"


def find_form(path: Path) -> WeightsForm:
    """Return how the weights at `path` are stored. Raises OSError, and ValueError for a directory without any."""
    if not path.is_dir():
        path.stat()
        return WeightsForm.SAFETENSORS if path.suffix == ".safetensors" else WeightsForm.FULL
    if (path / TABLE).exists():
        return WeightsForm.SHARDED
    if any(path.glob("*.safetensors")):
        return WeightsForm.HUGGING_FACE
    raise ValueError(f"it has no *.safetensors with the weights, nor the {TABLE} of a sharded checkpoint")


def check_torch_file(path: Path) -> None:
    """Raise ValueError unless a file is one of torch.save, up to its end: a zip, whose directory comes last."""
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError(f"{path.name} is no whole file of torch.save, of torch 1.6 or newer")


def list_files(path: Path) -> tuple[Path, list[str]]:
    """Return the directory and the names of all files that the weights consist of. Raises as `find_form`."""
    form = find_form(path)
    if form in (WeightsForm.FULL, WeightsForm.SAFETENSORS):
        return path.parent, [path.name]
    if form is WeightsForm.HUGGING_FACE:
        return path, [*sorted(file.name for file in path.glob("*.safetensors")), HF_CONFIG]
    has_manifest = (path / CHECKPOINT_MANIFEST).exists()
    names = [*sorted(file.name for file in path.glob("*.distcp")), TABLE]
    return path, [*names, CHECKPOINT_MANIFEST] if has_manifest else names
