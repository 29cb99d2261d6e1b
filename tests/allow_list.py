"""A contract for import-linter: modules that may import what is named, the standard library, and nothing else."""

from __future__ import annotations

import sys

import grimp
from importlinter import Contract, ContractCheck, fields, output


class AllowListContract(Contract):
    """`source_modules`, and all below them, import only `allowed_modules`, all below those, and themselves."""

    type_name = "allow_list"

    source_modules = fields.ListField(subfield=fields.StringField())
    allowed_modules = fields.ListField(subfield=fields.StringField(), required=False, default=[])
    allowed_libraries = fields.ListField(subfield=fields.StringField(), required=False, default=[])

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
        sources: list[str] = list(self.source_modules)  # type: ignore[call-overload]
        allowed: list[str] = [*sources, *self.allowed_modules]  # type: ignore[misc]
        libraries = {*sys.stdlib_module_names, *self.allowed_libraries}  # type: ignore[misc]
        wrong = [
            (importer, imported)
            for source in sources
            for importer in sorted({source, *graph.find_descendants(source)} & graph.modules)
            for imported in sorted(graph.find_modules_directly_imported_by(importer))
            if not _is_within(imported, allowed) and imported.partition(".")[0] not in libraries
        ]
        return ContractCheck(kept=not wrong, metadata={"wrong": wrong})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, imported in check.metadata["wrong"]:
            output.print_error(f"{importer} must not import {imported}")


def _is_within(module: str, packages: list[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)
