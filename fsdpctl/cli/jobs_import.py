"""`fsdpctl jobs import`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fsdpctl.cli.complete import complete_job
from fsdpctl.cli.options import Json
from fsdpctl.cli.out_path import file_only, text_or_stdout
from fsdpctl.cli.output import log, print_data, print_json
from fsdpctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from fsdpctl.importers.imported import Imported


class Kind(StrEnum):
    """The kinds of files; `fsdpctl/importers/table.py` has how each is read."""

    ACCELERATE = "accelerate"
    DEEPSPEED = "deepspeed"
    TRAINING_ARGUMENTS = "training-arguments"
    FLAT = "flat"
    SCRIPT = "script"


def import_job(
    file: Annotated[Path, typer.Argument(help="A configuration or a shell script of another launcher or trainer.")],
    kind: Annotated[Kind | None, typer.Option("--kind", help="What the file is; default: found from its keys.")] = None,
    script: Annotated[
        str | None, typer.Option("--script", help="The training script that a configuration is for.")
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="A job of the bundled trainer: take its model and data, and the settings of the file.",
            autocompletion=complete_job,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", callback=text_or_stdout, help="File to create; default, and `-`: print the job to stdout."
        ),
    ] = None,
    profile_out: Annotated[
        Path | None,
        typer.Option(
            "--profile-out", callback=file_only, help="File to create with the cluster profile, if there is one."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a job of an Accelerate, DeepSpeed or TrainingArguments file, or of a script with torchrun.

    Nothing in the file is executed. What does not carry over is listed on stderr, each with its line and the reason.
    """
    from fsdpctl.cli.new_file import create_files
    from fsdpctl.importers.build import Wanted, job_name
    from fsdpctl.importers.read import read_file
    from fsdpctl.importers.write import job_text, profile_text

    if script is not None and base is not None:
        raise UsageError("--script keeps your program, --from replaces it by the bundled trainer: give one of them")
    if out is not None and profile_out is not None and out.resolve() == profile_out.resolve():
        raise UsageError(f"--out and --profile-out are one file, {out}", hint="choose another name for the profile")
    wanted = Wanted(job_name((out or file).stem), script, _read_base(base))
    imported = read_file(file, wanted, kind.value if kind else None)
    texts = {out: job_text(imported, str(file))} if out else {}
    if profile_out and imported.profile:
        texts[profile_out] = profile_text(imported, str(file))
    create_files(texts)
    _report(imported, profile_out)
    if as_json:
        print_json(_shape(imported, out, profile_out))
    else:
        print_data(str(out) if out else job_text(imported, str(file)).rstrip())


def _read_base(name: str | None) -> Mapping[str, Any] | None:
    from fsdpctl.specs.load import job_document, load_job
    from fsdpctl.specs.search import find_job

    if name is None:
        return None
    if load_job(name).trainer is None:
        raise UsageError(f"job {name} runs a script of its own: --from takes a job of the bundled trainer")
    tree: Mapping[str, Any] = job_document(find_job(name)).tree
    return tree


def _report(imported: Imported, profile_out: Path | None) -> None:
    """Log what does not carry over, and what to do next."""
    from fsdpctl.importers.table import title
    from fsdpctl.other_launchers.draft import Program
    from fsdpctl.schema.problems import MAX_SHOWN

    log(f"{title(imported.kind)}:")
    for note in imported.notes[:MAX_SHOWN]:
        log(f"{note.location}: {'CHANGE ' if note.must_change else ''}{note.key}: {note.text}")
    if (more := len(imported.notes) - MAX_SHOWN) > 0:
        log(f"... and {more:,} more; --json prints all")
    if not imported.notes:
        log("everything carries over")
    if imported.profile and profile_out is None:
        keys = ", ".join(key for key in imported.profile if key != "name")
        log(f"hint: the file describes a cluster, too ({keys}): --profile-out FILE writes a profile")
    if imported.program is Program.OWN and imported.kind != "script":
        log("hint: --from JOB makes a job of the bundled trainer with the settings of the file")


def _shape(imported: Imported, out: Path | None, profile_out: Path | None) -> object:
    from fsdpctl.cli.shapes.specs import ImportedJob, ImportNote

    notes = tuple(
        ImportNote(note.location.source, note.location.line, note.key, note.text, note.must_change)
        for note in imported.notes
    )
    return ImportedJob(
        kind=imported.kind,
        job=imported.job,
        profile=imported.profile or None,
        notes=notes,
        path=str(out) if out else None,
        profile_path=str(profile_out) if profile_out and imported.profile else None,
    )
