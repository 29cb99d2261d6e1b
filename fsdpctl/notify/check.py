"""Check that a target's variable, file or program is on this host. Nothing is sent."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from fsdpctl.contract.notify import NotifyTarget, SecretPlace
from fsdpctl.notify.secrets import SecretError, read_secret


def find_missing(targets: Sequence[NotifyTarget]) -> list[str]:
    """Return what is missing, one line for each target with its name."""
    return [f"{target.name}: {problem}" for target in targets for problem in _problems(target)]


def _problems(target: NotifyTarget) -> Iterator[str]:
    for place in _secrets(target):
        try:
            read_secret(place)
        except SecretError as error:
            yield str(error)
        if place.file is not None and _is_open(Path(place.file)):
            yield f"{place.file} can be read by others; chmod 600 {place.file}"
    if target.mail is not None and target.mail.smtp is None:
        from fsdpctl.notify.channels.mail import find_sendmail  # few targets are mail, and it loads ssl

        if find_sendmail(target.mail.sendmail) is None:
            yield f"there is no program {target.mail.sendmail}"
    if target.command and shutil.which(target.command[0]) is None:
        yield f"there is no program {target.command[0]}"


def _secrets(target: NotifyTarget) -> Iterator[SecretPlace]:
    if target.webhook is not None:
        yield target.webhook.url
    if target.mail is not None and target.mail.smtp is not None and target.mail.smtp.password is not None:
        yield target.mail.smtp.password


def _is_open(path: Path) -> bool:
    try:
        return bool(path.expanduser().stat().st_mode & 0o044)
    except (OSError, RuntimeError):
        return False
