"""Send a notice as mail."""

from __future__ import annotations

import os
import shutil
import smtplib
import socket
import ssl
import subprocess
from email.message import EmailMessage
from email.utils import formatdate, make_msgid

from fsdpctl.contract.notify import Mail, Notice, Smtp
from fsdpctl.contract.user import user_name
from fsdpctl.notify.channels.error import DeliveryError
from fsdpctl.notify.secrets import SecretError, hide, read_secret
from fsdpctl.notify.text import body, title


def send_mail(mail: Mail, notice: Notice, timeout_s: float) -> None:
    """Give it to the server or the program. Raise DeliveryError."""
    message = _message(mail, notice)
    if mail.smtp is None:
        _by_program(mail, message, timeout_s)
    else:
        _by_server(mail.smtp, message, timeout_s)


def find_sendmail(name: str) -> str | None:
    """Return the path of the program: few users have its directory on their PATH."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/lib"]))


def _message(mail: Mail, notice: Notice) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = " ".join(title(notice).split())
    message["From"] = mail.sender or f"{user_name()}@{socket.getfqdn()}"
    message["To"] = ", ".join(mail.to)
    message["Date"] = formatdate(localtime=True)
    message["Message-ID"] = make_msgid(domain="fsdpctl.invalid")
    message["Auto-Submitted"] = "auto-generated"  # so that no absent reader's program answers
    message.set_content(body(notice) + "\n")
    return message


def _by_program(mail: Mail, message: EmailMessage, timeout_s: float) -> None:
    if (program := find_sendmail(mail.sendmail)) is None:
        raise DeliveryError(f"there is no program {mail.sendmail} on {socket.gethostname()}", is_final=True)
    sender = ["-f", mail.sender] if mail.sender is not None else []
    try:
        done = subprocess.run(
            [program, "-i", *sender, "--", *mail.to], input=message.as_bytes(), timeout=timeout_s,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise DeliveryError(f"{mail.sendmail} did not end within {timeout_s:.0f} s") from None
    except OSError as error:
        raise DeliveryError(f"{program} cannot be started: {error.strerror}", is_final=True) from None
    if done.returncode:
        raise DeliveryError(f"{mail.sendmail} ended with exit code {done.returncode}")


def _by_server(smtp: Smtp, message: EmailMessage, timeout_s: float) -> None:
    password = ""
    try:
        password = read_secret(smtp.password) if smtp.password is not None else ""
        with _connect(smtp, timeout_s) as server:
            if smtp.encryption == "starttls":
                server.starttls(context=ssl.create_default_context())
            if smtp.user is not None:
                server.login(smtp.user, password)
            server.send_message(message)
    except SecretError as error:
        raise DeliveryError(str(error), is_final=True) from None
    except (smtplib.SMTPException, OSError, ValueError) as error:
        text = f"{smtp.host} port {smtp.port}: {_describe(error)}"
        raise DeliveryError(hide(text, password) if password else text, is_final=_is_final(error)) from None


def _connect(smtp: Smtp, timeout_s: float) -> smtplib.SMTP:
    if smtp.encryption == "tls":
        return smtplib.SMTP_SSL(smtp.host, smtp.port, timeout=timeout_s, context=ssl.create_default_context())
    return smtplib.SMTP(smtp.host, smtp.port, timeout=timeout_s)


def _describe(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        answers = (f"{to} refused: {code} {_text(answer)}" for to, (code, answer) in error.recipients.items())
        return "; ".join(answers)
    if isinstance(error, smtplib.SMTPResponseException):
        return f"the server answered {error.smtp_code} {_text(error.smtp_error)}"
    return str(error) or type(error).__name__


def _text(answer: bytes | str) -> str:
    return " ".join((answer.decode(errors="replace") if isinstance(answer, bytes) else answer).split())[:200]


def _is_final(error: Exception) -> bool:
    """Return whether the server will refuse it again: its codes from 500 on, and what it does not know."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return all(code >= 500 for code, _ in error.recipients.values())
    if isinstance(error, smtplib.SMTPResponseException):
        return error.smtp_code >= 500
    return isinstance(error, smtplib.SMTPNotSupportedError | ssl.SSLCertVerificationError | ValueError)
