"""Notices as mail: through a real SMTP server, with and without TLS and password, and through a program."""

from __future__ import annotations

import datetime
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from fsdpctl.contract.notify import Encryption, Mail, SecretPlace, Smtp
from fsdpctl.notify.channels.error import DeliveryError
from fsdpctl.notify.channels.mail import send_mail
from tests.services import require
from tests.unit.notify.servers import FAILED

PASSWORD = "5ecretPassw0rd"
TO = ("me@example.org", "you@example.org")


class Inbox:
    """What a server has taken; it refuses mail to these addresses."""

    def __init__(self) -> None:
        self.mails: list[tuple[str, list[str], EmailMessage]] = []

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if address.startswith("absent@"):
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        mail = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append((envelope.mail_from, envelope.rcpt_tos, mail))
        return "250 OK"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of localhost, signed by itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name.from_rfc4514_string("CN=localhost")
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("tls")
    pem, raw = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    (folder / "cert.pem").write_bytes(built.public_bytes(pem))
    (folder / "key.pem").write_bytes(key.private_bytes(pem, raw, serialization.NoEncryption()))
    return folder / "cert.pem", folder / "key.pem"


@contextmanager
def smtp_server(encryption: Encryption, certificate: tuple[Path, Path] | None = None) -> Iterator[tuple[Inbox, int]]:
    """A server that wants a password where it has a certificate."""
    require("aiosmtpd")
    from aiosmtpd.controller import Controller
    from aiosmtpd.smtp import AuthResult, LoginPassword

    def authenticate(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        is_known = isinstance(data, LoginPassword) and (data.login, data.password) == (b"me", PASSWORD.encode())
        return AuthResult(success=is_known, handled=False)

    inbox = Inbox()
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*map(str, certificate))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    controller = Controller(
        inbox, hostname="127.0.0.1", port=port, server_hostname="localhost", authenticator=authenticate,
        auth_required=encryption == "starttls", ssl_context=context if encryption == "tls" else None,
        tls_context=context if encryption == "starttls" else None, auth_require_tls=encryption == "starttls",
    )  # fmt: skip
    controller.start()
    try:
        yield inbox, port
    finally:
        controller.stop()


def mail_by(port: int, encryption: Encryption = "none", password: Path | None = None, to: tuple[str, ...] = TO) -> Mail:
    place = SecretPlace(file=str(password)) if password is not None else None
    user = "me" if password is not None else None
    return Mail(to, "runs@example.org", "sendmail", Smtp("localhost", port, encryption, user, place))


def test_a_server_takes_it() -> None:
    with smtp_server("none") as (inbox, port):
        send_mail(mail_by(port), FAILED, 20)
    ((sender, to, mail),) = inbox.mails
    assert (sender, to) == ("runs@example.org", list(TO))
    assert mail["Subject"] == "fsdpctl: mine-k3f9 FAILED" and mail["To"] == ", ".join(TO)
    assert mail["Auto-Submitted"] == "auto-generated" and mail["Date"] and mail["Message-ID"]
    assert "run        mine-k3f9 FAILED: node 0: rank 1: exit code 3" in mail.get_content()


@pytest.mark.parametrize("encryption", ["starttls", "tls"])
def test_a_server_with_tls_and_password(
    encryption: Encryption, certificate: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = tmp_path / "password"
    password.write_text(f"{PASSWORD}\n")
    with smtp_server(encryption, certificate) as (inbox, port):
        mail = mail_by(port, encryption, password)
        with pytest.raises(DeliveryError, match="certificate verify failed") as unknown:
            send_mail(mail, FAILED, 20)
        assert unknown.value.is_final and not inbox.mails
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        send_mail(mail, FAILED, 20)
        assert len(inbox.mails) == 1
        password.write_text("wr0ng-5ecret")
        with pytest.raises(DeliveryError, match="the server answered 535") as refused:
            send_mail(mail, FAILED, 20)
        assert refused.value.is_final and "wr0ng" not in str(refused.value)


def test_an_address_that_the_server_refuses_is_named() -> None:
    with smtp_server("none") as (_, port):
        with pytest.raises(DeliveryError, match=r"absent@example\.org refused: 550 no such mailbox") as refused:
            send_mail(mail_by(port, to=("absent@example.org",)), FAILED, 20)
        assert refused.value.is_final


def test_a_server_without_starttls_is_given_no_password(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    with smtp_server("none") as (inbox, port):
        with pytest.raises(DeliveryError, match="STARTTLS") as refused:
            send_mail(mail_by(port, "starttls", password), FAILED, 20)
        assert refused.value.is_final and not inbox.mails


def test_a_dead_and_a_slow_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(DeliveryError, match=f"localhost port {port}: .*timed out"):
            send_mail(mail_by(port), FAILED, 0.2)
    with pytest.raises(DeliveryError, match="Connection refused") as dead:
        send_mail(mail_by(port), FAILED, 20)
    assert not dead.value.is_final


def test_a_program_takes_it(tmp_path: Path) -> None:
    program = tmp_path / "sendmail"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\ncat > {tmp_path}/mail\n')
    program.chmod(0o700)
    send_mail(Mail(TO, "runs@example.org", str(program)), FAILED, 20)
    assert (tmp_path / "words").read_text().split() == ["-i", "-f", "runs@example.org", "--", *TO]
    mail = message_from_bytes((tmp_path / "mail").read_bytes(), policy=policy.default)
    assert mail["Subject"] == "fsdpctl: mine-k3f9 FAILED"
    program.write_text("#!/bin/sh\nexit 75\n")
    with pytest.raises(DeliveryError, match="ended with exit code 75"):
        send_mail(Mail(TO, None, str(program)), FAILED, 20)
    with pytest.raises(DeliveryError, match="there is no program"):
        send_mail(Mail(TO, None, "/no/such/sendmail"), FAILED, 20)
