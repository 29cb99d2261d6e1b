"""`fsdpctl profiles`: list, show, check and copy cluster profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fsdpctl.cli.complete import complete_profile
from fsdpctl.cli.options import Json, TrustHosts
from fsdpctl.cli.output import log
from fsdpctl.cli.spec_files import check_all, copy_spec, find_target, plural, print_created, print_list, print_spec
from fsdpctl.errors import UsageError

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
    look: Annotated[
        bool, typer.Option("--look", help="Look at the cluster: its hosts over SSH, this Slurm, else this machine.")
    ] = False,
    hosts: Annotated[
        str | None, typer.Option("--hosts", metavar="HOST,...", help="With --look: hosts like a,b,node[01-04].")
    ] = None,
    hostfile: Annotated[
        Path | None, typer.Option("--hostfile", metavar="FILE", help="With --look: a file with a host a line.")
    ] = None,
    trust_hosts: TrustHosts = False,
    as_json: Json = False,
) -> None:
    """Write a commented profile into ./cluster_profiles, to edit."""
    from fsdpctl.specs.load import load_profile
    from fsdpctl.specs.search import find_profile, list_files, profile_dirs

    target = find_target(name, Path("cluster_profiles"))
    if look or hosts is not None or hostfile is not None:
        if base is not None:
            raise UsageError("--from copies a profile, --look writes a new one", hint="leave one of them out")
        _look(target, hosts, hostfile, trust_hosts=trust_hosts, as_json=as_json)
        return
    base = base or (target.stem if target.stem in list_files(profile_dirs()) else "local")
    load_profile(base)
    copy_spec(find_profile(base), target, as_json=as_json)
    log(f"hint: edit it, then: fsdpctl profiles check {name}")


def _look(target: Path, hosts: str | None, hostfile: Path | None, *, trust_hosts: bool, as_json: bool) -> None:
    """Write what is seen to `target`, which must not exist."""
    from fsdpctl.cli.new_file import create_files
    from fsdpctl.verbs.look import look

    if target.exists():
        raise UsageError(f"{target} exists", hint="edit it, or choose another name")
    looked = look(target.stem, hosts, hostfile, log if trust_hosts else None)
    create_files({target: looked.text})
    for line in looked.seen:
        log(line)
    for line in looked.unseen:
        log(f"warning: {line}")
    print_created(target, as_json=as_json)
    log(f"hint: read it, then: fsdpctl doctor {target if target.parent.name != 'cluster_profiles' else target.stem}")


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
    from fsdpctl.cli.shapes.specs import DefaultProfile
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
