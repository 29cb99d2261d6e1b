"""What can be where a file should be: ways to create it in the current directory."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

NO_FILES: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
    "a socket": lambda path: socket.socket(socket.AF_UNIX).bind(str(path)),  # a name of at most 107 characters
}
