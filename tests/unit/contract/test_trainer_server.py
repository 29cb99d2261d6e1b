"""What ranks get so that a Trainer reports to the node, beside proxies and servers of others."""

from __future__ import annotations

from pathlib import Path
from urllib.request import proxy_bypass_environment

import pytest

from fsdpctl.contract.trainer_server import drop_trainer_server, trainer_server_env

TOKEN = Path("/run/.trainer-token")


def test_the_url_and_the_file_of_the_token_are_added_and_removed_again() -> None:
    added = trainer_server_env({}, 8000, TOKEN)
    assert added == {
        "KUBEFLOW_TRAINER_SERVER_URL": "http://127.0.0.1:8000/",
        "KUBEFLOW_TRAINER_SERVER_TOKEN": "/run/.trainer-token",
    }
    drop_trainer_server(added, TOKEN)
    assert added == {}


def test_the_server_of_a_train_job_stays() -> None:
    env = {"KUBEFLOW_TRAINER_SERVER_URL": "https://controller", "KUBEFLOW_TRAINER_SERVER_TOKEN": "/var/token"}
    assert trainer_server_env(env, 8000, TOKEN) == {}
    drop_trainer_server(env, TOKEN)
    assert len(env) == 2


@pytest.mark.parametrize("known", [{}, {"no_proxy": "a,b"}, {"NO_PROXY": "a,b"}, {"no_proxy": "*"}], ids=str)
def test_no_proxy_sees_the_token(known: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"http_proxy": "http://proxy:3128", **known}
    env |= trainer_server_env(env, 8000, TOKEN)
    monkeypatch.delenv("NO_PROXY", raising=False)
    for name in ("no_proxy", "NO_PROXY"):
        if name in env:
            monkeypatch.setenv(name, env[name])
    assert proxy_bypass_environment("127.0.0.1:8000")
    assert proxy_bypass_environment("a") or not known
