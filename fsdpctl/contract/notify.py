"""Notices: who gets them and when, which `plan.json` has, and what one has. `fsdpctl/notify/` sends them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fsdpctl.contract import Cause, State

Occasion = Literal["end", "failure", "preemption", "hang", "no_start", "spike", "non_finite_loss"]
"""When a notice is sent: `failure` is that of an attempt, also where the run restarts."""
Form = Literal["slack", "discord", "teams", "json"]
"""What a webhook expects."""
Encryption = Literal["none", "starttls", "tls"]


@dataclass(frozen=True)
class SecretPlace:
    """Where the sending process finds a secret, which is stored nowhere else: a variable or a file."""

    env: str | None = None
    file: str | None = None


@dataclass(frozen=True)
class Webhook:
    """A URL that takes notices."""

    form: Form
    url: SecretPlace


@dataclass(frozen=True)
class Smtp:
    """A mail server."""

    host: str
    port: int
    encryption: Encryption
    user: str | None = None
    password: SecretPlace | None = None


@dataclass(frozen=True)
class Mail:
    """Mail by a server, or by a program like sendmail."""

    to: tuple[str, ...]
    sender: str | None  # None: user and host of the sending process
    sendmail: str
    smtp: Smtp | None = None


@dataclass(frozen=True)
class NotifyTarget:
    """Who gets notices, and when: exactly one of the three ways."""

    on: tuple[Occasion, ...]
    no_start_after_s: int
    webhook: Webhook | None = None
    mail: Mail | None = None
    command: tuple[str, ...] = ()  # gets the notice as JSON on its standard input

    @property
    def name(self) -> str:
        """How messages and events name it; it contains no secret."""
        if self.webhook is not None:
            return f"{self.webhook.form} webhook of {place_name(self.webhook.url)}"
        if self.mail is not None:
            return f"mail to {', '.join(self.mail.to)}"
        return f"command {self.command[0]}"


def place_name(place: SecretPlace) -> str:
    return f"${place.env}" if place.env is not None else str(place.file)


@dataclass(frozen=True)
class Notice:
    """What happened to a run, as values: from the process that found it to the one that sends it."""

    occasions: tuple[Occasion, ...]  # all that apply; empty: a test
    run_id: str
    job: str
    run_dir: str
    time: float  # seconds since the epoch
    attempt: int = 0  # 0: before the first
    state: State | None = None
    cause: Cause | None = None
    reason: str = ""
    restart: bool = False
    step: int | None = None
    why: str = ""  # as the end of `submit --follow` shows it
    change: str = ""  # the smallest one
