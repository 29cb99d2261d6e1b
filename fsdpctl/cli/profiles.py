"""`fsdpctl profiles`."""

from __future__ import annotations

import typer

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
