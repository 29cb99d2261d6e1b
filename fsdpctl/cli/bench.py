"""`fsdpctl bench`: measure how fast a cluster is."""

from __future__ import annotations

import typer

from fsdpctl.cli.bench_io import bench_io
from fsdpctl.cli.bench_nccl import nccl
from fsdpctl.cli.bench_scaling import scaling

app = typer.Typer(help="Measure how fast a cluster and a job on it are.", no_args_is_help=True, rich_markup_mode=None)
app.command("nccl")(nccl)
app.command("io")(bench_io)
app.command("scaling")(scaling)
