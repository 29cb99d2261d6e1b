"""The list `notify` of a profile and of the user's settings: who gets notices of a run, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from fsdpctl.contract.notify import (
    Encryption,
    Mail,
    NotifyTarget,
    Occasion,
    SecretPlace,
    Smtp,
    Webhook,
)
from fsdpctl.contract.problems import Problem, RuleError
from fsdpctl.schema.spec import Spec
from fsdpctl.schema.types import Duration, EnvName, Host, Port, Program, Text, Word, check_word

SMTP_PORTS: dict[Encryption, int] = {"none": 25, "starttls": 587, "tls": 465}


def _check_secret_file(value: str) -> str:
    """Check the path of a file with a secret, so that no secret is given in its place."""
    if not check_word(value).startswith(("/", "~/")):
        raise ValueError("must be an absolute path, or one that begins with ~/")
    return value


SecretFile = Annotated[str, AfterValidator(_check_secret_file)]


class _Notify(Spec):
    """Keys of all kinds."""

    on: tuple[Occasion, ...] = ("end", "failure")
    """When: `end` of the run, `failure` of an attempt, `preemption`, `hang`, `no_start`, `spike` of the loss,
    `non_finite_loss`."""
    no_start_after: Duration = 3600
    """Time after a submission without a start, for `no_start`."""


class WebhookKeys(_Notify):
    """A URL that takes notices. The URL itself is a secret, and stays in its variable or file."""

    kind: Literal["slack", "discord", "teams", "json"]
    url_env: EnvName | None = None
    """Variable of the submitting shell with the URL; give this or `url_file`."""
    url_file: SecretFile | None = None
    """File with the URL, like `~/.config/fsdpctl/slack-url`; give this or `url_env`."""

    @model_validator(mode="after")
    def _one(self) -> WebhookKeys:
        if (self.url_env is None) == (self.url_file is None):
            raise RuleError(Problem("", "give either `url_env` or `url_file`", ("url_env", "url_file")))
        return self


class MailKeys(_Notify):
    """Mail, through a server or a program."""

    kind: Literal["mail"]
    to: tuple[Word, ...]
    """Addresses, like `[me@example.org]`."""
    sender: Word | None = None
    """Address of the sender; default: your user name and the host that sends."""
    sendmail: Program = "sendmail"
    """Program that takes the mail where `smtp` is not given."""
    smtp: Host | None = None
    """Mail server."""
    smtp_port: Port | None = None
    """Port of the server; default: 25, with `starttls` 587, with `tls` 465."""
    encryption: Encryption = "none"
    """`starttls` or `tls` of the server, whose certificate is verified."""
    user: Text | None = None
    """User name at the server."""
    password_env: EnvName | None = None
    """Variable of the submitting shell with the password; give this or `password_file`."""
    password_file: SecretFile | None = None
    """File with the password; give this or `password_env`."""

    @model_validator(mode="after")
    def _fits_together(self) -> MailKeys:
        passwords = [key for key in ("password_env", "password_file") if getattr(self, key) is not None]
        if not self.to or any("@" not in address for address in self.to):
            raise RuleError(Problem("to", "is a list of addresses, like [me@example.org]"))
        if len(passwords) > 1:
            raise RuleError(Problem(passwords[0], "give this or `password_file`", (passwords[1],)))
        if bool(passwords) != (self.user is not None):
            raise RuleError(Problem("user", "belongs to a password: give both or none", (*passwords,)))
        if self.smtp is None and (given := [*passwords, *(key for key in ("smtp_port", "user") if getattr(self, key))]):
            raise RuleError(Problem(given[0], "belongs to `smtp`, which is not given", ("smtp",)))
        if passwords and self.encryption == "none":
            text = "a password needs `starttls` or `tls`: without it anyone on the network can read it"
            raise RuleError(Problem("encryption", text, (passwords[0],)))
        return self


class CommandKeys(_Notify):
    """A command that gets the notice as JSON on its standard input."""

    kind: Literal["command"]
    command: tuple[Text, ...]
    """Program, by name or absolute path, and its arguments, like `[python3, /home/me/notice.py]`."""

    @model_validator(mode="after")
    def _program(self) -> CommandKeys:
        if not self.command or not self.command[0].strip() or ("/" in self.command[0]) != (self.command[0][0] == "/"):
            raise RuleError(Problem("command", "begins with a program: a name, or an absolute path"))
        return self


NotifyKeys = Annotated[WebhookKeys | MailKeys | CommandKeys, Field(discriminator="kind")]


class Settings(Spec):
    """`~/.config/fsdpctl/settings.yaml`: what holds for all runs of a user."""

    notify: tuple[NotifyKeys, ...] = ()
    """Who gets notices of your runs, beside those of the profile."""


def plan_targets(keys: Sequence[WebhookKeys | MailKeys | CommandKeys]) -> tuple[NotifyTarget, ...]:
    """Return the targets of a list of keys."""
    return tuple(map(_target, keys))


def _target(keys: WebhookKeys | MailKeys | CommandKeys) -> NotifyTarget:
    match keys:
        case WebhookKeys():
            webhook = Webhook(keys.kind, SecretPlace(keys.url_env, keys.url_file))
            return NotifyTarget(keys.on, keys.no_start_after, webhook=webhook)
        case MailKeys():
            return NotifyTarget(
                keys.on, keys.no_start_after, mail=Mail(keys.to, keys.sender, keys.sendmail, _smtp(keys))
            )
        case CommandKeys():
            return NotifyTarget(keys.on, keys.no_start_after, command=keys.command)


def _smtp(keys: MailKeys) -> Smtp | None:
    if keys.smtp is None:
        return None
    place = SecretPlace(keys.password_env, keys.password_file) if keys.user is not None else None
    return Smtp(keys.smtp, keys.smtp_port or SMTP_PORTS[keys.encryption], keys.encryption, keys.user, place)
