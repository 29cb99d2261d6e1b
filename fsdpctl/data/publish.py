"""`data prepare --out URL`: prepare on this machine, then send. After a kill at any point, the same call continues."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fsdpctl.contract.byte_progress import Meter, Progress
from fsdpctl.contract.formats.dataset import INDEX_NAME, Index
from fsdpctl.data.partial import RECIPE_NAME, parse_recipe
from fsdpctl.data.prepare import PrepareRequest, complete, prepare
from fsdpctl.data.recipe import differences
from fsdpctl.data.remote import open_remote_index, remote_errors
from fsdpctl.errors import UsageError
from fsdpctl.remote_data.cache import open_cache
from fsdpctl.remote_data.location import Location


def prepare_remote(request: PrepareRequest, url: str, progress: Progress) -> Index:
    """Prepare a data set in the cache of this machine, send it to `url`, the index last, and remove it here.

    After an interruption at any point, the same call continues. Raise as `prepare` does, and LaunchError if the server
    cannot be reached.
    """
    with remote_errors():
        location = Location(url)
        name = hashlib.sha256(location.url.encode()).hexdigest()[:32]
        directory = open_cache(os.environ).root / "prepared-here" / name
        request = replace(request, target=directory)
        if location.exists(INDEX_NAME):
            return _reuse(location, request)
        index = prepare(request, progress)
        _send(location, directory, progress)
        shutil.rmtree(directory)
        with suppress(OSError):  # others are at work there
            directory.parent.rmdir()
        return index


def _reuse(location: Location, request: PrepareRequest) -> Index:
    if not location.exists(RECIPE_NAME):
        raise UsageError(f"{location.url} has data that this command did not write", hint="choose another --out")
    made = parse_recipe(location.read(RECIPE_NAME), f"{location.url}/{RECIPE_NAME}")
    if changes := differences(made, complete(request)):
        raise UsageError(
            f"{location.url} was prepared with other options: {'; '.join(changes)}", hint="choose another --out"
        )
    return open_remote_index(location.url)


def _send(location: Location, directory: Path, progress: Progress) -> None:
    """Send what was not sent yet; the index comes last: without it there is no data."""
    names = sorted(path.name for path in directory.iterdir() if not path.name.startswith("."))
    names.sort(key=lambda name: name == INDEX_NAME)
    sizes = {name: (directory / name).stat().st_size for name in names}
    sent = directory / ".sent"
    sent.mkdir(exist_ok=True)
    done = sum(size for name, size in sizes.items() if (sent / name).exists())
    meter = Meter(progress, f"sending to {shlex.quote(location.url)}", sum(sizes.values()), done)
    for name in names:
        if not (sent / name).exists():
            location.write(name, directory / name)
            (sent / name).touch()
            meter(sizes[name])
