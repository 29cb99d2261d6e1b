"""Import torch's compiler once for all ranks of a node, without touching CUDA."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any


def import_compiler() -> None:
    """Import the compiler, and hash its files and Triton's: the names of what they have compiled contain that."""
    with suppress(ImportError):
        import_module("triton")
    with _sure_of_cuda():
        import_module("torch._inductor.runtime.benchmarking")
    import_module("torch._functorch.aot_autograd")
    import_module("torch._inductor.compile_fx")
    import_module("torch._inductor.codecache").torch_key()
    triton = import_module("torch._inductor.runtime.triton_compat")
    if triton.HAS_TRITON:
        triton.triton_key()


@contextmanager
def _sure_of_cuda() -> Iterator[None]:
    """Answer that there is CUDA, without a look.

    Before torch 2.13 a module of the compiler asks for it when it is imported. That initializes the driver, after which
    no child of the process could use it.
    """
    cuda: Any = import_module("torch.cuda")
    asked = cuda.is_available
    cuda.is_available = lambda: True
    try:
        yield
    finally:
        cuda.is_available = asked
