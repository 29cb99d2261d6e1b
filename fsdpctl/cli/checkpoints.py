"""`fsdpctl checkpoints`: list, verify, prune and export a run's checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.options import Json, Run
from fsdpctl.cli.out_path import file_only
from fsdpctl.cli.output import log, print_data, print_json, print_table
from fsdpctl.contract.clock import MINUTE, format_time
from fsdpctl.errors import RunFailed, UsageError, install_hint

if TYPE_CHECKING:
    from fsdpctl.checkpoints.listing import Stored
    from fsdpctl.cli.shapes.checkpoints import ListedCheckpoint

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="List, verify, prune and export checkpoints.")

Step = Annotated[int | None, typer.Option("--step", help="Only the checkpoint of this step.", show_default=False)]
ExportedStep = Annotated[
    int | None,
    typer.Option("--step", help="The checkpoint of this step; default: the newest complete one.", show_default=False),
]


class Format(StrEnum):
    """The formats that `export` writes."""

    TORCH = "torch"
    HUGGING_FACE = "hf"


@app.command()
def ls(run: Run = None, as_json: Json = False) -> None:
    """List a run's checkpoints, the newest first. Only manifests are read; `verify` reads all files."""
    from fsdpctl.checkpoints.checkpoint_store import open_store
    from fsdpctl.runs.find import find_run

    paths = find_run(run)
    store = open_store(paths)
    rows = [_as_shape(stored) for stored in store.read()]
    for line in store.errors():
        log(line)
    if as_json:
        print_json(rows)
    elif not rows:
        log(f"run {paths.root.name} has no checkpoint yet")
    else:
        print_table(("STEP", "SIZE", "SAVED", "RANKS", "MESH", "STATE"), [_row(row) for row in rows])


def _as_shape(stored: Stored) -> ListedCheckpoint:
    from fsdpctl.cli.shapes.checkpoints import ListedCheckpoint

    manifest = stored.manifest
    return ListedCheckpoint(
        name=stored.path.name,
        path=str(stored.path),
        step=manifest.step if manifest else None,
        bytes=manifest.num_bytes if manifest else None,
        time=manifest.time if manifest else None,
        world=manifest.world if manifest else None,
        mesh=tuple(manifest.mesh) if manifest else None,
        broken=stored.broken,
        copies=dict(stored.copies),
    )


def _row(row: ListedCheckpoint) -> list[str]:
    if row.broken or row.bytes is None or row.time is None:
        return [row.name, "-", "-", "-", "-", f"broken: {row.broken}"]
    saved = format_time(row.time, MINUTE)
    return [
        str(row.step),
        _size(row.bytes),
        saved,
        str(row.world),
        " x ".join(map(str, row.mesh or ())),
        _state(row.copies),
    ]


def _state(copies: Mapping[str, str]) -> str:
    complete = ", ".join(host for host, problem in copies.items() if not problem)
    broken = [f"broken on {host}: {problem}" for host, problem in copies.items() if problem]
    return "; ".join([f"complete on {complete}" if complete else "complete", *broken])


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.2f} GB" if num_bytes >= 1e8 else f"{num_bytes / 1e6:.2f} MB"


@app.command()
def verify(run: Run = None, step: Step = None, as_json: Json = False) -> None:
    """Read every byte and compare it with its digest; exit 1 if one differs."""
    from fsdpctl.checkpoints.checkpoint_store import open_store
    from fsdpctl.checkpoints.listing import choose_listed
    from fsdpctl.cli.shapes.checkpoints import Verified
    from fsdpctl.runs.find import find_run

    paths = find_run(run)
    store = open_store(paths)
    found = []
    for stored in choose_listed(paths, store.read(), step):
        examined = store.examine(stored)
        name, problems = stored.path.name, tuple(examined.problems)
        if examined.is_gone:
            log(f"{name}: the run has removed it meanwhile")
            continue
        found.append(Verified(name, examined.broken is None, tuple(examined.hosts), problems))
        if examined.broken is None and not as_json:
            print_data(f"{name}: ok{_where(examined)}")
    if as_json:
        print_json(found)
    for line in store.errors():
        log(line)
    if damage := [problem for verified in found for problem in verified.problems]:
        raise RunFailed("\n".join(damage), hint="a run resumes from the newest checkpoint that is ok")


def _where(stored: Stored) -> str:
    return f" on {', '.join(stored.hosts)}" if stored.hosts else ""


@app.command()
def prune(
    run: Run = None,
    keep: Annotated[
        int, typer.Option("--keep", min=1, help="Number of complete checkpoints to keep, the newest ones.")
    ] = 1,
    as_json: Json = False,
) -> None:
    """Remove all but the newest checkpoints. Damaged ones do not count, so a complete one always stays.

    One stays while a command reads it, or a run that is alive or queued begins with it.
    """
    from fsdpctl.checkpoints.checkpoint_store import open_store
    from fsdpctl.checkpoints.listing import choose_removable
    from fsdpctl.cli.shapes.checkpoints import Pruned
    from fsdpctl.contract.formats.removal import delete, find_leftovers
    from fsdpctl.runs.find import find_run
    from fsdpctl.runs.store import locked
    from fsdpctl.verbs.prune import check_ended, why_needed

    paths = find_run(run)
    removed: list[Stored] = []
    needed: dict[str, str] = {}
    with locked(paths):
        check_ended(paths)
        store = open_store(paths)
        older, broken = choose_removable(store.read(), keep, store.examine)
        for stored in older:
            if why := why_needed(paths, stored.path):
                needed[stored.path.name] = why
                continue
            left = store.remove(stored)
            removed.append(stored)
            if not as_json:
                print_data(f"{stored.path.name}: removed")
            for directory in left:
                log(f"{stored.path.name} was a link: its files are still in {directory}")
        for leftover in find_leftovers(paths.checkpoints):
            delete(leftover)
    if not older:
        log(f"nothing to remove: no checkpoint is older than the newest {keep} that are complete")
    for line in store.errors():
        log(line)
    for stored in broken:
        log(f"{stored.path.name} was left: {stored.broken}")
    for name, why in needed.items():
        log(f"{name} was left: {why}")
    for aside in paths.all_set_aside():
        size = sum(file.stat().st_size for file in aside.rglob("*") if file.is_file())
        log(f"{aside} was left: {_size(size)} that resume --step moved away; delete it if you do not need it")
    if as_json:
        print_json(Pruned(_names(removed), _names(broken), needed))


def _names(checkpoints: Iterable[Stored]) -> tuple[str, ...]:
    return tuple(stored.path.name for stored in checkpoints)


@app.command()
def export(
    run: Run = None,
    step: ExportedStep = None,
    to: Annotated[
        Format, typer.Option("--to", help="torch: one .pth; hf: a directory for transformers.")
    ] = Format.HUGGING_FACE,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", callback=file_only, help="File or directory to create; default: named by the step, here."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the model of a checkpoint for other programs. Verifies it first; needs torch, but no GPU."""
    _require_torch()
    from fsdpctl.checkpoints.checkpoint_store import open_store
    from fsdpctl.checkpoints.export import export_hugging_face, export_torch
    from fsdpctl.cli.shapes.checkpoints import Exported
    from fsdpctl.runs.find import find_run

    paths = find_run(run)
    store = open_store(paths)
    with store.take(step, out.absolute().parent if out else Path.cwd()) as taken:
        stored = taken.stored
        for name in taken.passed_over:
            log(f"warning: {name} is passed over: fsdpctl checkpoints verify {paths.root.name}")
        assert stored.manifest is not None
        number = stored.manifest.step
        if to is Format.TORCH:
            path = out or Path(f"fsdp_cpt{number}.pth")
            export_torch(stored, path)
        else:
            path = out or Path(f"{paths.root.name}-step{number}")
            export_hugging_face(stored, path)
    for line in store.errors():
        log(line)
    if as_json:
        print_json(Exported(str(path), number))
    else:
        print_data(str(path))


def _require_torch() -> None:
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise UsageError("exporting needs torch", hint=install_hint("train"))
