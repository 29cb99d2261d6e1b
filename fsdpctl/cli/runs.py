"""`fsdpctl runs`: keep runs from `gc`."""

from __future__ import annotations

from typing import Annotated

import typer

from fsdpctl.cli.complete import complete_run
from fsdpctl.cli.options import Json
from fsdpctl.cli.output import print_data, print_json

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Keep runs from `fsdpctl gc`.")

Runs = Annotated[
    list[str], typer.Argument(help="Run ids, prefixes of them, or jobs' names.", autocompletion=complete_run)
]


@app.command()
def pin(runs: Runs, as_json: Json = False) -> None:
    """Pin runs: `gc` removes nothing of them."""
    _set(runs, pinned=True, as_json=as_json)


@app.command()
def unpin(runs: Runs, as_json: Json = False) -> None:
    """Let `gc` remove these runs again."""
    _set(runs, pinned=False, as_json=as_json)


def _set(names: list[str], *, pinned: bool, as_json: bool) -> None:
    from fsdpctl.cli.shapes.runs import Pinned
    from fsdpctl.contract.codec import encode
    from fsdpctl.runs.find import find_run
    from fsdpctl.verbs.pin import pin

    done = []
    for run in [find_run(name) for name in names]:
        acted = pin(run, pinned=pinned)
        done.append(Pinned(run.root.name, pinned, acted))
        if not as_json:
            print_data(f"{run.root.name}: {'pinned' if pinned else 'not pinned'}{'' if acted else ', as before'}")
    if as_json:
        print_json([encode(one) for one in done])
