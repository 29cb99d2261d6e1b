"""The variables by which the Trainer of transformers knows where to report its progress.

They are those of Kubeflow's TrainJob: `KubeflowCallback` in transformers/integrations/integration_utils.py posts to the
URL, over HTTP too, with the token of a file; without the variable it does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from pathlib import Path

SERVER_URL = "KUBEFLOW_TRAINER_SERVER_URL"
SERVER_TOKEN = "KUBEFLOW_TRAINER_SERVER_TOKEN"
"""The path of the file with the token, not the token."""
LOOPBACK = "127.0.0.1"
_PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
_EXCEPTIONS = ("no_proxy", "NO_PROXY")


def trainer_server_env(env: Mapping[str, str], port: int, token: Path) -> dict[str, str]:
    """Return what to add to the environment of ranks so that a Trainer reports to this port; nothing where it has
    another server already. A proxy of the environment is not used for it."""
    if SERVER_URL in env:
        return {}
    added = {SERVER_URL: f"http://{LOOPBACK}:{port}/", SERVER_TOKEN: str(token)}
    if any(env.get(name) for name in _PROXIES):
        known = next((env[name] for name in _EXCEPTIONS if env.get(name)), "")
        if known.strip() != "*":  # which holds for all hosts, only alone
            added |= dict.fromkeys(_EXCEPTIONS, ",".join(filter(None, (known, LOOPBACK))))
    return added


def drop_trainer_server(env: MutableMapping[str, str], token: Path) -> None:
    """Remove what was added with this token: ranks other than 0 have nothing to report."""
    if env.get(SERVER_TOKEN) == str(token):
        del env[SERVER_TOKEN], env[SERVER_URL]
