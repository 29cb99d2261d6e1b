"""`fsdpctl profiles`: the clusters that a run can go to, and whether they are well described."""

from __future__ import annotations

from typing import Annotated

import typer

from fsdpctl.cli.complete import complete_profile
from fsdpctl.cli.spec_files import check_all, plural, print_list, print_spec

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="List, show and check cluster profiles.")


@app.command()
def ls(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the profiles that `submit --profile` knows by name."""
    from fsdpctl.specs.search import list_files, profile_dirs

    print_list(list_files(profile_dirs()), _summarize, json=json)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Name or file of a profile.", autocompletion=complete_profile)],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print a profile with all defaults filled in."""
    from fsdpctl.specs.load import load_profile

    print_spec(load_profile(name), json=json)


@app.command()
def check(
    names: Annotated[list[str], typer.Argument(help="Names or files of profiles.", autocompletion=complete_profile)],
) -> None:
    """Check profiles and list every problem; exit 2 where there is one."""
    check_all(names, _summarize)


def _summarize(name: str) -> str:
    from fsdpctl.specs.load import load_profile

    profile = load_profile(name)
    parts: list[str] = [profile.backend.kind]
    if profile.nodes:
        parts.append(plural(len(profile.nodes), "node"))
    if profile.gpus_per_node is not None:
        parts.append(f"{plural(profile.gpus_per_node, 'GPU')} each")
    return ", ".join(parts)
