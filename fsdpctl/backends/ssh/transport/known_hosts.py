"""Find the keys of a host in known_hosts, with file and line. Pure but for reading the files.

fabric accepts any key silently, and paramiko does not keep where it read one. A refusal that does not name the line
makes users delete the file.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path


@dataclass(frozen=True)
class KnownKey:
    """One line of known_hosts that matches the host."""

    location: str  # file:line
    kind: str
    blob: bytes
    revoked: bool = False


def read_known(files: Iterable[Path], name: str) -> list[KnownKey]:
    """Return all keys in the files for the host `name` (`[host]:port` for ports other than 22)."""
    found: list[KnownKey] = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        found += find_known(text, str(file), name)
    return found


def find_known(text: str, file: str, name: str) -> Iterator[KnownKey]:
    """Yield the lines of one known_hosts that match. Certificate authorities are skipped: paramiko knows none."""
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        marker = fields.pop(0) if fields[0].startswith("@") else ""
        if len(fields) < 3 or marker not in ("", "@revoked") or not _matches(fields[0], name.lower()):
            continue
        try:
            blob = base64.b64decode(fields[2], validate=True)
        except binascii.Error:
            continue
        yield KnownKey(f"{file}:{number}", fields[1], blob, revoked=marker == "@revoked")


def _matches(patterns: str, name: str) -> bool:
    if patterns.startswith("|1|"):
        _, _, salt, digest = [*patterns.split("|"), "", ""][:4]
        try:
            mac = hmac.new(base64.b64decode(salt), name.encode(), hashlib.sha1).digest()
            return hmac.compare_digest(mac, base64.b64decode(digest))
        except binascii.Error:
            return False
    verdict = False
    for pattern in patterns.lower().split(","):
        if pattern.startswith("!"):
            if _fits(pattern[1:], name):
                return False
        elif _fits(pattern, name):
            verdict = True
    return verdict


def _fits(pattern: str, name: str) -> bool:
    """Return whether a name matches one of OpenSSH's patterns: `*` and `?` are special, brackets are not."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))


def fingerprint(blob: bytes) -> str:
    """Return the fingerprint as `ssh-keygen -l` prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def refusal(name: str, kind: str, blob: bytes, known: Iterable[KnownKey], files: Iterable[Path]) -> str | None:
    """Return why the offered key is not accepted; None if it is a known one."""
    known = list(known)
    shown = f"{kind} {fingerprint(blob)}"
    for entry in known:
        if entry.blob == blob and entry.revoked:
            return f"the host key {shown} of {name} is revoked by {entry.location}"
    trusted = [entry for entry in known if not entry.revoked]
    if any(entry.blob == blob for entry in trusted):
        return None
    if trusted:
        wanted = next((entry for entry in trusted if entry.kind == kind), trusted[0])
        return (
            f"the host key of {name} has changed, or the connection is intercepted: it shows {shown}, but"
            f" {wanted.location} has {wanted.kind} {fingerprint(wanted.blob)}"
        )
    searched = ", ".join(str(file) for file in files) or "any known_hosts file"
    return (
        f"the host key of {name} is unknown: it shows {shown}, and none is in {searched};"
        " if that is the right one, `fsdpctl doctor PROFILE --trust-hosts` stores it"
    )
