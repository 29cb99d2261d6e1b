"""The few names of torch that torchrun uses, without the modules that `import torch` loads around them.

torchrun computes nothing: of torch it needs the stores of its rendezvous, which are in the extension module. So the
packages `torch` and `torch.distributed` are made here, with the names that its modules read, and everything below them
is imported as usual. A rank never sees this: it is another process.
"""

from __future__ import annotations

import importlib
import multiprocessing
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_TRIED = ((2, 11), (2, 13))
"""The oldest and the newest version of torch whose torchrun was tried with these names."""
_STORES = ("Store", "FileStore", "HashStore", "PrefixStore", "TCPStore")
_ERRORS = ("Error", "BackendError", "NetworkError", "StoreError")


def install() -> None:
    """Make the packages. Raise ImportError for a version that was not tried, or whatever torch's extension raises."""
    spec = find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("no torch")
    torch = _make("torch", __path__=list(spec.submodule_search_locations))
    _check_version(importlib.import_module("torch.version").__version__)
    extension: Any = importlib.import_module("torch._C")
    torch._C = extension
    _make_distributed(list(torch.__path__), extension)
    _make("torch.cuda", is_available=lambda: False)  # asked for a default of NUMA, which is none with GPUs, too
    _make(
        "torch.multiprocessing",
        **{name: getattr(multiprocessing, name) for name in multiprocessing.__all__},
        _set_thread_name=extension._set_thread_name,
    )
    _make(
        "torch._utils_internal",
        justknobs_check=lambda _name, default=True: default,
        get_default_numa_options=lambda: None,
        signpost_event=lambda *_words: None,
    )
    _make("torch.utils", __path__=[])
    _make("torch.utils.backend_registration", _get_custom_mod_func=None)  # for devices by a name of their own


def _check_version(version: str) -> None:
    major, minor = map(int, version.split(".")[:2])
    if not _TRIED[0] <= (major, minor) <= _TRIED[1]:
        raise ImportError(f"torch {version} was not tried without")


def _make_distributed(path: list[str], extension: Any) -> None:
    distributed = _make("torch.distributed", __path__=[f"{entry}/distributed" for entry in path])
    if not extension._c10d_init():
        raise ImportError("torch.distributed cannot be initialized")
    stores = importlib.import_module("torch._C._distributed_c10d")
    vars(distributed).update({name: getattr(stores, name) for name in _STORES})
    vars(distributed).update({f"Dist{name}": getattr(extension, f"_Dist{name}") for name in _ERRORS})
    distributed.is_available = lambda: True


def _make(name: str, **values: Any) -> Any:
    """Return a new module with these values, as an attribute of its package."""
    module: Any = ModuleType(name)
    sys.modules[name] = module
    vars(module).update(values)
    package, _, own = name.rpartition(".")
    if package:
        setattr(sys.modules[package], own, module)
    return module
