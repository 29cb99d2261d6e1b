"""`fsdpctl profiles`: list, show, check and copy cluster profiles."""

from __future__ import annotations

from typing import Annotated

import typer

from fsdpctl.cli.complete import complete_profile
from fsdpctl.cli.options import Json
from fsdpctl.cli.output import log
from fsdpctl.cli.spec_files import check_all, copy_spec, find_target, plural, print_list, print_spec

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="List, show, check and make cluster profiles.")


@app.command()
def ls(as_json: Json = False) -> None:
    """List the profiles that `submit --profile` finds by name."""
    from fsdpctl.specs.search import list_files, profile_dirs

    print_list(list_files(profile_dirs()), _summarize, as_json=as_json)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Name or file of a profile.", autocompletion=complete_profile)],
    as_json: Json = False,
) -> None:
    """Print a profile with all defaults filled in."""
    from fsdpctl.specs.load import load_profile

    print_spec(load_profile(name), as_json=as_json)


@app.command()
def check(
    names: Annotated[list[str], typer.Argument(help="Names or files of profiles.", autocompletion=complete_profile)],
    as_json: Json = False,
) -> None:
    """Check profiles and list every problem; exit 2 if there is one."""
    check_all(names, _summarize, as_json=as_json)


@app.command()
def init(
    name: Annotated[str, typer.Argument(help="Name of the new profile, or a .yaml file to make.")],
    base: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="The profile to copy; default: the one of that name, else local.",
            autocompletion=complete_profile,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a commented profile into ./cluster_profiles, to edit."""
    from pathlib import Path

    from fsdpctl.specs.load import load_profile
    from fsdpctl.specs.search import find_profile, list_files, profile_dirs

    target = find_target(name, Path("cluster_profiles"))
    base = base or (target.stem if target.stem in list_files(profile_dirs()) else "local")
    load_profile(base)
    copy_spec(find_profile(base), target, as_json=as_json)
    log(f"hint: edit it, then: fsdpctl profiles check {name}")


@app.command()
def default(
    name: Annotated[
        str | None,
        typer.Argument(help="The profile to use where none is given.", autocompletion=complete_profile),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Forget the stored default.")] = False,
    as_json: Json = False,
) -> None:
    """Store the profile that `submit` uses without --profile; without a name, print what it uses now."""
    from fsdpctl.cli.output import print_data, print_json
    from fsdpctl.cli.shapes import DefaultProfile
    from fsdpctl.specs.load import load_profile
    from fsdpctl.specs.search import choose_profile, store_default_profile

    if name is not None and not clear:
        load_profile(name)
    if name is not None or clear:
        store_default_profile(None if clear else name)
    chosen, source = choose_profile(None)
    if as_json:
        print_json(DefaultProfile(chosen, source))
    else:
        print_data(chosen)
    log(f"from {source}; --profile and a job's `profile` come first")


def _summarize(name: str) -> str:
    from fsdpctl.specs.load import load_profile

    profile = load_profile(name)
    parts: list[str] = [profile.backend.kind]
    if profile.nodes:
        parts.append(plural(len(profile.nodes), "node"))
    if profile.gpus_per_node is not None:
        parts.append(f"{plural(profile.gpus_per_node, 'GPU')} each")
    return ", ".join(parts)
