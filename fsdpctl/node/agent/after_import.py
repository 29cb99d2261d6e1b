"""Attach the integrations to a user's script when it imports their frameworks, so that it needs no line for them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

INTEGRATIONS = {
    "transformers.trainer": "fsdpctl.integrations.transformers",
    "transformers.trainer_utils": "fsdpctl.integrations.trainer_checkpoints",
    "lightning.pytorch.trainer.connectors.callback_connector": "fsdpctl.integrations.lightning",
    "pytorch_lightning.trainer.connectors.callback_connector": "fsdpctl.integrations.lightning",
}
"""The module of a framework, and the one whose `attach` gets it once it is imported."""


def attach_integrations() -> None:
    """Attach them at the import of their frameworks, in this process; to those that a warm rank already has, now."""
    for name in INTEGRATIONS.keys() & sys.modules.keys():
        _attach(name, sys.modules[name])
    sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds the modules of the table as Python does, and runs `attach` after their code."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in INTEGRATIONS else None
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_and_attach(module: ModuleType) -> None:
            run(module)
            _attach(name, module)

        spec.loader.exec_module = run_and_attach  # type: ignore[method-assign]
        return spec


def _attach(name: str, module: ModuleType) -> None:
    try:
        importlib.import_module(INTEGRATIONS[name]).attach(module)
    except (ImportError, AttributeError) as error:  # a version that is built in another way
        print(f"fsdpctl: {INTEGRATIONS[name]} does not fit this version of {name}: {error}", file=sys.stderr)
