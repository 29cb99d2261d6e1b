"""`fsdpctl notify`: try what a profile and the user's settings have under `notify`."""

from __future__ import annotations

import typer

from fsdpctl.cli.options import Json, Profile
from fsdpctl.cli.output import log, print_json, print_table
from fsdpctl.contract import CliExit
from fsdpctl.errors import UsageError

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Try the notices of a profile and your settings.")


@app.callback()
def _notify() -> None:
    pass


@app.command()
def test(
    profile: Profile = None,
    as_json: Json = False,
) -> None:
    """Send a test notice to each target from this machine, and show what failed. Exit 1 when anything did."""
    from fsdpctl.cli.shapes.runs import TriedTarget
    from fsdpctl.contract.codec import encode
    from fsdpctl.specs.load import load_profile
    from fsdpctl.specs.search import choose_profile, settings_file
    from fsdpctl.verbs.notify import find_targets, name_apart, send_test

    spec = load_profile(choose_profile(profile)[0])
    if not (targets := find_targets(spec)):
        places = f"neither profile {spec.name} nor {settings_file()}"
        raise UsageError(f"{places} has targets for notices", hint="docs/notices.md has the key `notify`")
    log(f"sending a test notice to {len(targets)} target{'s' if len(targets) > 1 else ''}")
    names = dict(zip(targets, name_apart(targets), strict=True))
    found = [
        TriedTarget(names[delivery.target], not delivery.problem, delivery.problem or None)
        for delivery in send_test(targets)
    ]
    if as_json:
        print_json([encode(one) for one in found])
    else:
        print_table(
            ("TARGET", "RESULT", "REASON"), [(one.name, "ok" if one.ok else "fail", one.problem or "") for one in found]
        )
    if not all(one.ok for one in found):
        raise typer.Exit(CliExit.FAILED)
