"""`fsdpctl data` with a URL, against a real S3 server."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fsdpctl.contract.formats.dataset import read_index
from fsdpctl.data import publish
from fsdpctl.data.prepare import PrepareRequest, prepare
from fsdpctl.data.publish import prepare_remote
from fsdpctl.data.recipe import Recipe
from fsdpctl.data.remote import find_remote_damage, open_remote_index
from fsdpctl.errors import UsageError
from fsdpctl.remote_data.location import Location
from tests.testbed.s3 import SECRET, Bucket
from tests.unit.cli.test_data import TEXT, command, data


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT)


def request(target: str = "out", split_on: str = "") -> PrepareRequest:
    return PrepareRequest([Path("text.txt")], Path(target), None, Recipe(split_on=split_on), workers=1)


def ignore(what: str, done: int, total: int) -> None:
    pass


@pytest.mark.slow
def test_from_text_to_checked_data_in_a_bucket(bucket: Bucket) -> None:
    arguments = ["prepare", "text.txt", "--split-on", "", "--workers", "1"]
    made = data(*arguments, "--out", bucket.url)
    assert made.returncode == 0 and f"directory    {bucket.url}\n" in made.stdout
    assert f"hint: fsdpctl submit llm-tiny --set trainer.data.source={bucket.url} --set" in made.stderr
    local = prepare(request(), ignore)
    assert open_remote_index(bucket.url) == local == read_index(Path("out"))
    checked = data("check", bucket.url)
    assert checked.returncode == 0 and checked.stdout.startswith(f"{bucket.url}: ok, ")
    assert not list(Path(os.environ["FSDPCTL_DATA_CACHE"]).iterdir()), "what was sent is not kept"
    assert prepare_remote(request(), f"{bucket.url}/", ignore) == local, "found, and left as it is"
    assert SECRET not in made.stdout + made.stderr + checked.stdout


@pytest.mark.slow
def test_other_data_at_the_url_is_left_as_it_is(bucket: Bucket) -> None:
    index = prepare_remote(request(), bucket.url, ignore)
    with pytest.raises(UsageError, match="was prepared with other options: split_on was '', now '-'"):
        prepare_remote(request(split_on="-"), bucket.url, ignore)
    assert open_remote_index(bucket.url) == index
    Path("train-00000.bin").write_bytes(b"x" * 100)
    Location(bucket.url).write("train-00000.bin", Path("train-00000.bin"))
    [problem] = find_remote_damage(bucket.url, index, lambda num_bytes: None)
    assert problem == f"{bucket.url}/train-00000.bin has changed: its sha256 is not the index's"


def test_an_interrupted_upload_continues_and_the_index_comes_last(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(Exception):
        pass

    sent: list[str] = []
    write = Location.write

    def limited(location: Location, name: str, source: Path) -> None:
        if len(sent) == 2:
            raise Interrupted
        sent.append(name)
        write(location, name, source)

    monkeypatch.setattr(publish.Location, "write", limited)
    with pytest.raises(Interrupted):
        prepare_remote(request(), bucket.url, ignore)
    with pytest.raises(UsageError, match="there is no such file"):
        open_remote_index(bucket.url)
    first, sent[:] = list(sent), []
    monkeypatch.setattr(
        publish.Location, "write", lambda location, name, source: (sent.append(name), write(location, name, source))
    )
    index = prepare_remote(request(), bucket.url, ignore)
    assert not {*first} & {*sent} and sent[-1] == "index.json"
    assert find_remote_damage(bucket.url, index, lambda num_bytes: None) == []


@pytest.mark.slow
def test_a_url_with_a_secret_is_refused_and_nothing_is_stored(home: Path) -> None:
    refused = data("prepare", "text.txt", "--out", "s3://key:hidden@bucket/data")
    assert refused.returncode == 2 and "must not contain credentials" in refused.stderr
    assert "hidden" not in refused.stderr and os.listdir() == ["text.txt"]
    submit = ["submit", "llm-tiny", "--set", "trainer.data.source=s3://key:hidden@bucket/data"]
    done = subprocess.run([*command()[:-1], *submit], capture_output=True, text=True)
    assert done.returncode == 2 and "trainer.data: source: a URL of data must not contain credentials" in done.stderr
    assert not list(home.rglob("*llm-tiny*"))
