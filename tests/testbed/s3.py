"""A real S3 server on this machine, reached by its variables alone, as on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.services import require

SECRET = "secret-of-the-bucket"
BUCKET = "corpora"


@dataclass(frozen=True)
class Bucket:
    url: str  # of a prefix that no other test has
    endpoint: str


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    require("moto")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_endpoint: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    import boto3

    for name, value in {
        "AWS_ENDPOINT_URL": s3_endpoint,
        "AWS_ACCESS_KEY_ID": "key-of-the-bucket",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "FSDPCTL_DATA_CACHE": str(tmp_path_factory.mktemp("cache")),
    }.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    return Bucket(f"s3://{BUCKET}/{tmp_path_factory.mktemp('prefix').name}", s3_endpoint)
