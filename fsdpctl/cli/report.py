"""`fsdpctl report`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fsdpctl.cli.new_file import replace_file
from fsdpctl.cli.options import Json, Run
from fsdpctl.cli.out_path import text_or_stdout
from fsdpctl.cli.output import log, print_json, write
from fsdpctl.errors import UsageError

if TYPE_CHECKING:
    from fsdpctl.run_report.document import Document

Format = Literal["html", "md", "text"]


def report(
    run: Run = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="Of the file; default: by its name, text without one.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", callback=text_or_stdout, help="Write the report to this file; `-`: stdout."
        ),
    ] = None,
    scaling: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Output of `bench scaling --json`; default: the newest of this model and profile.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Report on a run: what ran, curves, events, nodes, checkpoints, what it used, and what to change."""
    from fsdpctl.run_report.read import read_facts
    from fsdpctl.run_report.sections import build_document
    from fsdpctl.runs.find import find_run
    from fsdpctl.scaling.stored import read_scaling
    from fsdpctl.verbs.status import read_status

    if as_json and (form is not None or out is not None):
        raise UsageError("--json prints the facts to stdout, without --format and --out")
    chosen = form or _guess_format(out)
    paths = find_run(run)
    given = read_scaling(scaling) if scaling is not None else None
    facts = read_facts(paths, read_status(paths))
    if given is not None:
        facts = replace(facts, scaling=given)
    if as_json:
        from fsdpctl.cli.report_json import shape_facts

        print_json(shape_facts(facts))
        return
    text = render(build_document(facts), chosen, facts.read_at)
    if out is None:
        write(text.rstrip("\n"))
        return
    replace_file(out, lambda path: path.write_text(text, encoding="utf-8"))
    log(f"written to {out}")


def render(document: Document, form: Format, now: float) -> str:
    """Return the report in this format."""
    match form:
        case "html":
            from fsdpctl.run_report.html import write_html

            return write_html(document, now)
        case "md":
            from fsdpctl.run_report.markdown import write_markdown

            return write_markdown(document)
        case "text":
            from fsdpctl.run_report.plain import write_text

            return write_text(document)


def _guess_format(out: Path | None) -> Format:
    if out is None:
        return "text"
    match out.suffix.lower():
        case ".html" | ".htm":
            return "html"
        case ".md":
            return "md"
        case ".txt":
            return "text"
    raise UsageError(f"the name {out} shows no format", hint="end it in .html, .md or .txt, or give --format")
