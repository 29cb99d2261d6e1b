"""URLs, and what their failures mean."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fsdpctl.contract.data_url import find_problem, is_url
from fsdpctl.remote_data.location import Location, RemoteDataError
from tests.testbed.s3 import Bucket


def test_urls_and_paths() -> None:
    assert all(map(is_url, ("s3://bucket/data", "gs://b", "memory://x", "file:///data", "simplecache::s3://b/d")))
    assert not any(map(is_url, ("builtin", "/data/s3:/x", "data", "./s3", "~/data", "C:\\data")))


@pytest.mark.parametrize("url", ["s3://key:secret@bucket/data", "s3://secret@bucket", "https://host/d?token=secret"])
def test_a_url_with_a_secret_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(RemoteDataError, match="must not contain credentials") as caught:
        Location(url)
    assert "secret" not in str(caught.value)


def test_urls_that_name_nothing_are_refused() -> None:
    assert find_problem("s3:///") == "the URL names no bucket and no directory"
    assert "chain of file systems" in str(find_problem("simplecache::s3://bucket/data"))
    assert find_problem("s3://bucket") is find_problem("file:///data") is None


def test_an_unknown_file_system_is_named() -> None:
    with pytest.raises(RemoteDataError, match="Protocol not known: nowhere") as caught:
        Location("nowhere://bucket/data")
    assert caught.value.is_lasting


@pytest.mark.parametrize("module", ["fsspec", "s3fs"])
def test_a_missing_package_has_an_install_command(module: str) -> None:
    script = (
        f"import sys; sys.modules['{module}'] = None\n"
        "from fsdpctl.remote_data.location import Location, RemoteDataError\n"
        "try: Location('s3://bucket/data')\n"
        "except RemoteDataError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "-m pip install " in done.stdout and "[s3]'" in done.stdout


@pytest.mark.slow
def test_failures_of_a_real_server(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RemoteDataError, match=r"index\.json: there is no such file") as missing:
        Location(bucket.url).read("index.json")
    assert missing.value.is_lasting
    with pytest.raises(RemoteDataError, match=r"no-such-bucket/d/index\.json: there is no such file"):
        Location("s3://no-such-bucket/d").read("index.json")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    script = "import sys; from fsdpctl.remote_data.location import Location; Location(sys.argv[1]).read('index.json')"
    done = subprocess.run([sys.executable, "-c", script, bucket.url], capture_output=True, text=True)
    assert "access is refused (NoCredentialsError" in done.stderr
    assert "set the credentials in the environment of the ranks" in done.stderr


def test_a_bucket_of_a_misspelled_name_is_not_made(bucket: Bucket, tmp_path: Path) -> None:
    import boto3

    (tmp_path / "data").write_bytes(b"tokens")
    with pytest.raises(RemoteDataError):
        Location("s3://copora/data").write("data", tmp_path / "data")
    assert [one["Name"] for one in boto3.client("s3").list_buckets()["Buckets"]] == ["corpora"]


def test_a_file_is_written_whole(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"tokens" * 1000)
    location = Location(bucket.url)
    assert not location.exists("data")
    location.write("data", tmp_path / "data")
    assert location.exists("data") and location.read("data") == b"tokens" * 1000
    assert b"".join(location.blocks("data", 100)) == b"tokens" * 1000
